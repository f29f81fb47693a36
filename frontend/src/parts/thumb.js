// A small picture of some curves: what a panel or a result looks like, at a glance.
import { scaleLinear, scaleLog } from "d3-scale";
import { line } from "d3-shape";
import { html } from "./html.js";

const WIDTH = 168, HEIGHT = 84;

/** series: [{id, colour, dash, xs, ys}] */
export function Thumb({ series, log, yDomain }) {
  const ends = series.map((one) => one.xs.at(-1));
  const x = (log ? scaleLog() : scaleLinear()).domain([log ? 1 : 0, Math.max(...ends, 2)]).range([3, WIDTH - 3]);
  const values = series.flatMap((one) => one.ys).filter((value) => value !== null);
  const y = scaleLinear().domain(yDomain ?? [Math.min(...values), Math.max(...values, Math.min(...values) + 1e-9)]).range([HEIGHT - 4, 4]).clamp(true);
  const stroke = line().defined((point) => point[1] !== null).x((point) => x(point[0])).y((point) => y(point[1]));
  return html`<svg class="thumb" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
    ${yDomain && [0, 1].map((level) => html`<line key=${level} x1="0" x2=${WIDTH} y1=${y(level)} y2=${y(level)} class="gridline" />`)}
    ${series.map((one) => html`<path key=${one.id} d=${stroke(one.xs.map((k, at) => [k, one.ys[at]]).filter(([k]) => !log || k > 0))} fill="none" stroke=${one.colour} stroke-width="1.6" stroke-dasharray=${one.dash || "none"} />`)}
  </svg>`;
}
