// The state of the switchboard: all that an answer depends on. It stands in the address, behind the #, and is undone
// and redone as a whole. Prompts are text, or lists of token ids where no text gives the same tokens.
export const EMPTY = {
  prompt: "", other: "", answers: [], wrongs: [], cut: [], fill: "zero", share: 0.1, positions: "all", reference: "ioi", seed: 0, steps: 12,
};

/** What the server is asked. */
export function asked(state, model) {
  const { prompt, other, answers, wrongs, cut, positions, reference, seed, steps } = state;
  const fill = state.fill === "scale" ? `scale(${state.share})` : state.fill;
  return { prompt, other, answers, wrongs, cut, fill, positions, reference, seed, new_tokens: steps, model };
}

/** As the part of an address that stays with the browser. Only what differs from an empty board is said. */
export function toAddress(state, model) {
  const said = Object.entries(state).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(EMPTY[key]));
  const words = said.map(([key, value]) => [key, key === "cut" ? value.join(" ") : typeof value === "string" ? value : JSON.stringify(value)]);
  return `#${new URLSearchParams([["model", model], ...words])}`;
}

/** The state of an address and the model that it is of; null where the address says nothing. */
export function fromAddress(address) {
  const words = new URLSearchParams(address.replace(/^#/, ""));
  if (![...words.keys()].length) return null;
  const state = { ...EMPTY };
  for (const [key, text] of words) {
    if (!(key in EMPTY)) continue;
    if (key === "cut") state.cut = text.split(/\s+/).filter(Boolean);
    else if (key === "prompt" || key === "other") state[key] = /^\[[\d,\s]*\]$/.test(text) ? JSON.parse(text) : text;
    else if (typeof EMPTY[key] === "string") state[key] = text;
    else {
      try {
        state[key] = JSON.parse(text);
      } catch {
        // a broken entry counts as none
      }
    }
  }
  return { state, model: words.get("model") ?? "" };
}

/** Past, present and future. Changes that carry the same `mark` one after the other (typing, sliding) are undone at once. */
export function changed(history, next, mark = null) {
  const same = mark !== null && history.mark === mark;
  return { past: same ? history.past : [...history.past.slice(-199), history.now], now: next, future: [], mark };
}
export const undone = ({ past, now, future }) => (past.length ? { past: past.slice(0, -1), now: past.at(-1), future: [now, ...future], mark: null } : null);
export const redone = ({ past, now, future }) => (future.length ? { past: [...past, now], now: future[0], future: future.slice(1), mark: null } : null);

/** Spaces and line ends of a token, to be seen. */
export const visible = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥");
