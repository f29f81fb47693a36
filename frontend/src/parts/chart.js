// Lines with bands: hover or arrow keys say what stands at a point, a threshold can be dragged, a stretch zoomed into.
import { scaleLinear, scaleLog } from "d3-scale";
import { area, line } from "d3-shape";
import { html, useRef, useState } from "./html.js";
import { number } from "./format.js";
import { useWidth } from "./width.js";

const MARGIN = { top: 12, right: 14, bottom: 40, left: 52 };

/** The scales of a chart: pixels for numbers, and back. */
export function chartScales({ width, height, xDomain, yDomain, log }) {
  const x = (log ? scaleLog() : scaleLinear()).domain(xDomain).range([MARGIN.left, width - MARGIN.right]);
  const y = scaleLinear().domain(yDomain).range([height - MARGIN.bottom, MARGIN.top]);
  return { x, y };
}

function logTicks([low, high]) {
  const ticks = [];
  for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; power++) ticks.push(10 ** power);
  return ticks.length > 1 ? ticks : scaleLog().domain([low, high]).ticks(4);
}

function Axes({ x, y, width, height, log, xLabel, yLabel }) {
  const xs = log ? logTicks(x.domain()) : x.ticks(Math.max(Math.floor(width / 90), 3)).filter(Number.isInteger); // units are counted
  const bottom = height - MARGIN.bottom;
  return html`<g class="axes">
    ${y.ticks(5).map((tick) => html`<g key=${`y${tick}`}>
      <line x1=${MARGIN.left} x2=${width - MARGIN.right} y1=${y(tick)} y2=${y(tick)} class="gridline" />
      <text x=${MARGIN.left - 8} y=${y(tick) + 4} text-anchor="end">${number(tick)}</text></g>`)}
    ${xs.map((tick) => html`<g key=${`x${tick}`}>
      <line x1=${x(tick)} x2=${x(tick)} y1=${bottom} y2=${bottom + 5} class="tick" />
      <text x=${x(tick)} y=${bottom + 18} text-anchor=${x(tick) > width - 2 * MARGIN.right ? "end" : "middle"}>${tick.toLocaleString("en-US")}</text></g>`)}
    <line x1=${MARGIN.left} x2=${width - MARGIN.right} y1=${bottom} y2=${bottom} class="tick" />
    <text x=${(MARGIN.left + width - MARGIN.right) / 2} y=${height - 5} text-anchor="middle" class="name">${xLabel}</text>
    <text transform=${`translate(13 ${(MARGIN.top + bottom) / 2}) rotate(-90)`} text-anchor="middle" class="name">${yLabel}</text>
  </g>`;
}

/** The point of all series that is nearest to a place: [series, index]. */
function nearest(series, x, y, at) {
  let best = null, least = Infinity;
  series.forEach((one, place) => {
    one.xs.forEach((k, index) => {
      const value = one.ys[index];
      if (value === null || k < x.domain()[0] || k > x.domain()[1]) return;
      const apart = Math.hypot(x(k) - at[0], (y(Math.min(Math.max(value, y.domain()[0]), y.domain()[1])) - at[1]) * 0.6);
      if (apart < least) [best, least] = [[place, index], apart];
    });
  });
  return best;
}

/**
 * series      [{id, name, colour, dash, width, xs, ys, lows, highs}]
 * marks       [{x, y, colour, hollow}]
 * threshold   {level, set, words}: where the line stands, what a new place does, what a screen reader says
 * cursor      an x that is marked
 * say         (series, index) -> what is told of a point
 * onPick      (series, index) on click or Enter
 * onZoom      ([low, high] or null)
 */
export function Chart(props) {
  const { series, marks = [], threshold, cursor, xLabel, yLabel, xDomain, yDomain, log, label, say, onPick, onZoom, height = 340, id } = props;
  const [holder, width] = useWidth();
  const [point, setPoint] = useState(null);
  const [brush, setBrush] = useState(null);
  const svg = useRef(null);
  const held = useRef(null); // "threshold" or where a stretch began
  const { x, y } = chartScales({ width, height, xDomain, yDomain, log });
  const bottom = height - MARGIN.bottom;
  const clip = `clip-${id}`;

  const at = (event) => {
    const box = svg.current.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
  };
  const inside = (value) => Math.min(Math.max(value, MARGIN.left), width - MARGIN.right);
  const move = (event) => {
    const [px, py] = at(event);
    if (held.current === "threshold") return threshold.set(y.invert(py));
    if (held.current) return setBrush([held.current[0], inside(px)]);
    return setPoint(nearest(series, x, y, [px, py]));
  };
  const press = (event) => {
    if (event.button > 0) return;
    const [px, py] = at(event);
    held.current = event.target.closest?.(".threshold") ? "threshold" : onZoom && event.pointerType !== "touch" ? [inside(px), py] : null;
    if (held.current) svg.current.setPointerCapture(event.pointerId);
  };
  const release = (event) => {
    const began = held.current;
    held.current = null;
    setBrush(null);
    if (began === "threshold") return;
    const [px] = at(event);
    if (began && Math.abs(inside(px) - began[0]) > 8) onZoom([began[0], inside(px)].sort((a, b) => a - b).map((place) => x.invert(place)));
    else if (point) onPick?.(...point);
  };
  const keys = (event) => {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (step && event.target === svg.current && series.length) {
      event.preventDefault();
      const [place, index] = point && series[point[0]] ? point : [0, -1];
      const to = (place + step[0] + series.length) % series.length;
      setPoint([to, Math.min(Math.max(index + step[1], 0), series[to].xs.length - 1)]);
    } else if (event.key === "Enter" && point) onPick?.(...point);
    else if (event.key === "Escape") onZoom?.(null);
  };
  const turn = (event) => {
    const by = { ArrowUp: 0.01, ArrowRight: 0.01, ArrowDown: -0.01, ArrowLeft: -0.01, PageUp: 0.1, PageDown: -0.1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    threshold.set(threshold.level + by);
  };

  const drawn = (one) => one.xs.map((k, index) => ({ k, value: one.ys[index], low: one.lows?.[index], high: one.highs?.[index] })).filter(({ k }) => !log || k > 0);
  const stroke = line().defined((d) => d.value !== null).x((d) => x(d.k)).y((d) => y(d.value));
  const band = area().defined((d) => d.low !== null && d.low !== undefined && d.high !== null).x((d) => x(d.k)).y0((d) => y(d.low)).y1((d) => y(d.high));
  const shown = point && series[point[0]] && series[point[0]].ys[point[1]] !== undefined ? point : null;
  const spot = shown && [series[shown[0]].xs[shown[1]], series[shown[0]].ys[shown[1]]];

  return html`<div class="chart" ref=${holder}>
    <svg ref=${svg} id=${id} viewBox=${`0 0 ${width} ${height}`} height=${height} tabindex="0" role="application" aria-roledescription="chart"
      aria-label=${`${label}. Arrow keys go from point to point.`} onPointerMove=${move} onPointerDown=${press} onPointerUp=${release}
      onPointerLeave=${() => setPoint(null)} onKeyDown=${keys} onDblClick=${() => onZoom?.(null)}>
      <clipPath id=${clip}><rect x=${MARGIN.left} y=${MARGIN.top} width=${Math.max(width - MARGIN.left - MARGIN.right, 0)} height=${bottom - MARGIN.top} /></clipPath>
      <${Axes} ...${{ x, y, width, height, log, xLabel, yLabel }} />
      <g clip-path=${`url(#${clip})`}>
        ${series.map((one) => html`<path key=${`b${one.id}`} d=${band(drawn(one))} fill=${one.colour} fill-opacity=${one.faint ? 0.08 : 0.16} stroke="none" />`)}
        ${cursor !== null && cursor !== undefined && (!log || cursor > 0) && html`<line class="cursor" x1=${x(cursor)} x2=${x(cursor)} y1=${MARGIN.top} y2=${bottom} />`}
        ${series.map((one) => html`<path key=${`l${one.id}`} data-series=${one.id} d=${stroke(drawn(one))} fill="none" stroke=${one.colour} stroke-width=${one.faint ? 1.2 : 2} stroke-dasharray=${one.dash || "none"} />`)}
        ${marks.map((mark, place) => (!log || mark.x > 0) && html`<circle key=${place} cx=${x(mark.x)} cy=${y(mark.y)} r="4.5" fill=${mark.hollow ? "var(--card)" : mark.colour} stroke=${mark.colour} stroke-width="2" />`)}
        ${spot && spot[1] !== null && (!log || spot[0] > 0) && html`<circle data-not-saved cx=${x(spot[0])} cy=${y(spot[1])} r="6" fill="none" stroke="var(--ink)" stroke-width="2" />`}
        ${brush && html`<rect data-not-saved class="brush" x=${Math.min(...brush)} width=${Math.abs(brush[1] - brush[0])} y=${MARGIN.top} height=${bottom - MARGIN.top} />`}
      </g>
      ${threshold && html`<g class="threshold" role="slider" tabindex="0" aria-label=${threshold.label} aria-orientation="vertical"
        aria-valuemin="0" aria-valuemax="1" aria-valuenow=${threshold.level} aria-valuetext=${threshold.words} onKeyDown=${turn}>
        <line x1=${MARGIN.left} x2=${width - MARGIN.right} y1=${y(threshold.level)} y2=${y(threshold.level)} class="grab" />
        <line x1=${MARGIN.left} x2=${width - MARGIN.right} y1=${y(threshold.level)} y2=${y(threshold.level)} class="rule" />
        <rect data-not-saved x=${width - MARGIN.right - 10} y=${y(threshold.level) - 8} width="20" height="16" rx="4" />
      </g>`}
    </svg>
    <p class="readout" aria-live="polite">${shown ? say(...shown) : html`<span class="soft">${props.hint}</span>`}</p>
  </div>`;
}
