// What several parts of a report ask of its data.
import { MODEL_COLOURS, ROLE_COLOURS } from "../parts/colours.js";

export const EXPLAINED = "explained_effect";
export const ORDERS = {
  absolute: ["largest effect first", ""],
  signed: ["most helpful first", "7 3"],
  best: ["mix of most helpful and largest", "10 3 3 3"],
  chance: ["random", "2 3"],
  "chance-matched": ["random, same layers", "5 2 2 2"],
  facilitation: ["facilitation", ""],
  irrelevance: ["irrelevance", "7 3"],
  interference: ["interference", "3 2"],
};
const CONTROLS = { nonsense: ["nonsense answers", "1 4"], shuffled: ["shuffled scores", "4 4"] };
export const byChance = (order) => order.startsWith("chance");
/** What an order is called; a mix that is one of the plain orders in all curves beside it has its name. */
export function orderWords(order, beside = []) {
  const mixes = different(beside.flatMap((curve) => curve.order === "best" ? curve.mixes ?? [] : []));
  const plain = order === "best" && mixes.length === 1 && { 0: "absolute", 1: "signed" }[mixes[0]];
  if (!plain) return ORDERS[order]?.[0] ?? order;
  return `${ORDERS[plain][0]}${beside.some((curve) => curve.order === plain) ? " (the best mix)" : ""}`;
}
export const different = (values) => [...new Set(values)];
export const metricWords = (metric) => metric.replaceAll("_", " ");

/** All lines of a report: its curves, and its controls as curves of explained effect. Each gets an `id`. */
export function linesOf(data) {
  const controls = data.controls.map((one) => {
    const { fill, mode, units, total, kind } = data.curves.find((curve) => curve.panel === one.panel && curve.model === one.model && curve.method === one.method);
    return { ...one, fill, mode, units, total, kind, metric: EXPLAINED, shown: EXPLAINED, bands: { [EXPLAINED]: one.band }, ranking: [], by_prompt: null, asked: null };
  });
  return [...data.curves, ...controls].map((line, id) => Object.assign(line, { id }));
}

/** Methods by which the units of a panel are ranked. */
export const methodsIn = (curves) => different(curves.filter((curve) => !byChance(curve.order)).map((curve) => curve.method));

/** What tells a line from the others of its panel. */
export function lineWords(curve, beside) {
  const method = methodsIn(beside).length > 1 && !byChance(curve.order) ? [curve.method] : [];
  const control = curve.control ? [`control: ${CONTROLS[curve.control][0]}`] : [];
  return [curve.model, ...method, orderWords(curve.order, beside), ...control].join(" · ");
}

/** The colour of a line: by model and method, or with one of each by order; roles have colours of their own, which turn
    towards the ink from model to model. */
export function colourOf(data, curve) {
  const beside = data.curves.filter((other) => other.panel === curve.panel);
  const models = different(beside.map((other) => other.model)), methods = methodsIn(beside);
  if (ROLE_COLOURS[curve.order] && curve.kind === "change") {
    const own = Math.round(100 * (1 - models.indexOf(curve.model) / (models.length + 0.5)));
    return own === 100 ? ROLE_COLOURS[curve.order] : `color-mix(in oklab, ${ROLE_COLOURS[curve.order]} ${own}%, var(--ink))`;
  }
  const place = models.indexOf(curve.model) * Math.max(methods.length, 1) + Math.max(methods.indexOf(curve.method), 0);
  if (byChance(curve.order) && (models.length < 2 || curve.kind !== "explained")) return "var(--chance)";
  if (models.length * methods.length > 1 && curve.kind === "explained") return MODEL_COLOURS[place % MODEL_COLOURS.length];
  const orders = different(beside.filter((other) => !byChance(other.order)).map((other) => other.order));
  return MODEL_COLOURS[(models.indexOf(curve.model) + orders.indexOf(curve.order)) % MODEL_COLOURS.length];
}

/** Orders are told apart by their dashes; where there is one alone, and at random, its line is whole. */
export function dashOf(data, curve) {
  if (curve.control) return CONTROLS[curve.control][1];
  const orders = different(data.curves.filter((other) => other.panel === curve.panel && !byChance(other.order)).map((other) => other.order));
  return byChance(curve.order) || orders.length > 1 ? ORDERS[curve.order]?.[1] : "";
}

export function seriesOf(data, curve, metric) {
  const band = curve.bands[metric];
  if (!band) return null;
  return {
    id: `${curve.id}`, name: lineWords(curve, data.curves.filter((other) => other.panel === curve.panel)), colour: colourOf(data, curve),
    dash: dashOf(data, curve), faint: byChance(curve.order) || Boolean(curve.control),
    xs: curve.ks, ys: band.value, lows: band.low, highs: band.high, curve,
  };
}

/** The place of the measured k that is nearest. */
export function nearestPlace(ks, k) {
  let best = 0;
  ks.forEach((other, place) => {
    if (Math.abs(other - k) < Math.abs(ks[best] - k)) best = place;
  });
  return best;
}

const ROUNDING = 1e-9;

/**
 * Units needed to be faithful at a threshold: as the study computed it, with its interval. Of older results, which kept no
 * more than means, the first k at which the mean is near enough, without an interval.
 */
export function neededAt(curve, threshold) {
  if (curve.control) return null;
  if (curve.needed) {
    const place = Math.round(threshold * 100) - 1;
    return { value: curve.needed.value[place], low: curve.needed.low[place], high: curve.needed.high[place], exact: true };
  }
  const band = curve.bands[EXPLAINED];
  if (!band) return null;
  const place = band.value.findIndex((value) => {
    const done = curve.mode === "keep" ? value : 1 - value;
    return value !== null && done >= threshold - ROUNDING && done <= 2 - threshold + ROUNDING;
  });
  return { value: place < 0 ? null : curve.ks[place], low: null, high: null, exact: false };
}

/** The units that come in between the measured k before this one and this one. */
export function comesIn(curve, place) {
  const from = place > 0 ? curve.ks[place - 1] : 0;
  return curve.ranking.slice(from, curve.ks[place]);
}

/** The k at which single prompts were measured: of repeats, whose line pools them all, those of the first. */
export const promptKs = (curve) => (curve.prompt_ks?.length ? curve.prompt_ks : curve.ks);

/** The share of the mean effect that one prompt shows at a place of its k, [prompt]; its mean is explained effect. */
export function effects(curve, place) {
  if (!curve.by_prompt) return null;
  if (curve.kind !== "explained") return curve.by_prompt[place];
  const last = promptKs(curve).length - 1;
  const [none, all] = curve.mode === "keep" ? [0, last] : [last, 0];
  const mean = (row) => row.reduce((sum, value) => sum + value, 0) / row.length;
  const gap = mean(curve.by_prompt[all]) - mean(curve.by_prompt[none]);
  return curve.by_prompt[place].map((value, prompt) => (value === null ? null : (value - curve.by_prompt[none][prompt]) / gap));
}

export const headOf = (name) => {
  const found = /^a(\d+)\.h(\d+)$/.exec(name);
  return found && [Number(found[1]), Number(found[2])];
};
