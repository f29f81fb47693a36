// Numbers and counts in words.
const MINUS = "−";

/** So many significant digits, without trailing zeros; nothing for what is not a number. */
export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-4 || size >= 1e6) ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
  return text.replace("-", MINUS);
}

export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US");
}

export function inWords(units) {
  return units.replaceAll("-", " ");
}

/** 1 head, 34 heads. */
export function countOf(k, units) {
  const words = inWords(units);
  return `${count(k)} ${k === 1 ? words.replace(/s$/, "") : words}`;
}

export function headName(layer, head) {
  return `a${layer}.h${head}`;
}
