// How wide an element is, so that drawings have letters of one size on every screen.
import { useEffect, useState } from "./html.js";

/** A ref for the element, and its width. */
export function useWidth(start = 640) {
  const [element, ref] = useState(null);
  const [width, setWidth] = useState(start);
  useEffect(() => {
    if (!element) return undefined;
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(Math.round(entry.contentRect.width), 240)));
    watch.observe(element);
    return () => watch.disconnect();
  }, [element]);
  return [ref, width];
}
