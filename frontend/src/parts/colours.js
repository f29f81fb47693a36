// Colours by what they mean. They are CSS variables, so that light and dark need no second drawing.
export const MODEL_COLOURS = [0, 1, 2, 3, 4, 5].map((place) => `var(--c${place})`);
export const ROLE_COLOURS = {
  facilitation: "var(--helps)",
  irrelevance: "var(--neither)",
  interference: "var(--hurts)",
  chance: "var(--chance)",
};

/** A cell of a map: blue above zero, orange below, the stronger the nearer to the largest value of the map. */
export function signedColour(value, largest) {
  if (!Number.isFinite(value) || !largest) return "var(--cell)";
  const share = Math.round(100 * Math.min(Math.abs(value) / largest, 1) ** 0.6);
  return `color-mix(in oklab, var(${value < 0 ? "--minus" : "--plus"}) ${share}%, var(--cell))`;
}

/** From nothing (0) to a whole colour (1). */
export function shareColour(share, colour = "var(--plus)") {
  const percent = Math.round(100 * Math.min(Math.max(share, 0), 1));
  return `color-mix(in oklab, ${colour} ${percent}%, var(--cell))`;
}
