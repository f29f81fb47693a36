// Preact with htm: components without a compiler. Text put between tags is text, never markup.
import { Component, Fragment, h, render } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import htm from "htm";

export const html = htm.bind(h);
export { Component, Fragment, h, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState };
