// The curves of a panel: a threshold to drag, lines to switch, an axis to choose, a stretch to look at closely.
import { html, useMemo, useState } from "../parts/html.js";
import { Chart } from "../parts/chart.js";
import { count, countOf, inWords, number } from "../parts/format.js";
import { Picks, Saves } from "../parts/picks.js";
import { Scroll } from "../parts/scroll.js";
import { saveCsv, saveSvg } from "../parts/save.js";
import { EXPLAINED, byChance, comesIn, different, lineWords, methodsIn, metricWords, neededAt, orderWords, seriesOf } from "./state.js";

const NAMED = 6;

/** All of what is drawn, but no more of a band than keeps the lines apart. */
function rangeOf(series, metric) {
  const values = series.flatMap((one) => one.ys).filter((value) => value !== null);
  if (metric === EXPLAINED) return [Math.max(Math.min(-0.3, ...values), -1), Math.min(Math.max(1.55, ...values), 3)];
  const ends = series.flatMap((one) => [...one.lows, ...one.highs]).filter((value) => value !== null);
  if (!values.length) return [0, 1];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = 0.08 * Math.max(high - low, 1e-6);
  return [Math.max(Math.min(...ends), low - 4 * room) - room, Math.min(Math.max(...ends), high + 4 * room) + room];
}

function pointWords({ curve, name }, place, metric) {
  const band = curve.bands[metric], names = comesIn(curve, place);
  const more = curve.units === "heads" || curve.ks[place] <= curve.ranking.length ? names.length - NAMED : 0;
  const units = names.length ? `; comes in${curve.repeats > 1 ? " (first repeat)" : ""}: ${names.slice(0, NAMED).join(", ")}${more > 0 ? ` and ${more} more` : ""}` : "";
  const ends = band.low[place] === null ? "" : ` (${number(band.low[place])} to ${number(band.high[place])})`;
  return `${name} · k = ${count(curve.ks[place])}: ${metricWords(metric)} ${number(band.value[place])}${ends}${units}`;
}

/** Switches for all lines of a model, a method, an order or for the controls at once. */
function Switches({ lines, hidden, onSwitch }) {
  const ways = [
    ["Models", different(lines.map((line) => line.model)), (line, value) => line.model === value, String],
    ["Methods", methodsIn(lines), (line, value) => line.method === value && !byChance(line.order), String],
    ["Orders", different(lines.map((line) => line.order)), (line, value) => line.order === value && !line.control, (order) => orderWords(order, lines)],
    ["Controls", different(lines.map((line) => line.control).filter(Boolean)), (line, value) => line.control === value, String],
  ].filter(([label, values]) => values.length > (label === "Controls" ? 0 : 1));
  return html`<div class="row switches">${ways.map(([label, values, fits, words]) => html`<div class="row picks" role="group" aria-label=${`${label} that are shown`} key=${label}><span class="small soft">${label}</span>
    ${values.map((value) => {
      const own = lines.filter((line) => fits(line, value)).map((line) => line.id), on = own.some((id) => !hidden.has(id));
      return html`<button key=${value} type="button" class="small" data-switch=${value} aria-pressed=${String(on)} onClick=${() => onSwitch(own, !on)}>${words(value)}</button>`;
    })}</div>`)}</div>`;
}

function NeededTable({ data, lines, threshold, hidden, onSwitch, metric }) {
  const explained = lines.some((curve) => curve.kind === "explained");
  return html`<${Scroll}><table class="plain needed">
    <caption class="visually-hidden">The lines of the chart, and the units that each needs</caption>
    <thead><tr><th scope="col">Line</th><th scope="col">Shown</th>${explained && html`<th scope="col" class="number">Needed</th><th scope="col" class="number">Interval</th>`}
      <th scope="col">Method</th><th scope="col">Fill</th></tr></thead>
    <tbody>${lines.map((curve) => {
      const series = seriesOf(data, curve, metric), words = lineWords(curve, lines);
      const needed = explained ? neededAt(curve, threshold) : null;
      const end = (value) => count(value ?? curve.total);
      return html`<tr key=${curve.id} data-curve=${curve.id}>
        <th scope="row"><svg class="swatch" viewBox="0 0 26 8" aria-hidden="true"><line x1="1" x2="25" y1="4" y2="4" stroke=${series?.colour} stroke-width="2.5" stroke-dasharray=${series?.dash || "none"} /></svg>
          ${" "}${words}</th>
        <td><input type="checkbox" checked=${!hidden.has(curve.id)} aria-label=${`Show ${words}`} onChange=${() => onSwitch([curve.id], hidden.has(curve.id))} /></td>
        ${explained && html`<td class="number value">${!needed ? "–" : needed.value === null ? "never" : count(needed.value)}</td>
          <td class="number interval">${!needed || needed.value === null || !needed.exact ? "–" : `${end(needed.low)} to ${end(needed.high)}`}</td>`}
        <td>${curve.method}</td><td>${curve.fill}</td>
      </tr>`;
    })}</tbody></table><//>`;
}

export function Curves({ data, panel, curves, threshold, setThreshold, k, onPick, small }) {
  const metrics = useMemo(() => Object.keys(curves[0].bands), [curves]);
  const [asked, setMetric] = useState(null);
  const lines = useMemo(() => [...curves, ...data.lines.filter((line) => line.control && line.panel === panel)], [data, curves]);
  const [hidden, setHidden] = useState(new Set(lines.filter((line) => line.control).map((line) => line.id))); // controls on request
  const [zoom, setZoom] = useState(null);
  const first = curves[0];
  const [axis, setAxis] = useState(first.units === "heads" ? "linear" : "logarithmic");
  const metric = metrics.includes(asked) ? asked : first.shown;
  const log = axis === "logarithmic";
  const series = lines.filter((line) => !hidden.has(line.id)).map((line) => seriesOf(data, line, metric)).filter(Boolean);
  const total = Math.max(...curves.map((curve) => curve.ks.at(-1)));
  const smallest = log ? 1 : 0;
  const domain = zoom ? [Math.max(zoom[0], smallest), zoom[1]] : [smallest, Math.max(total, smallest + 1)];
  const explained = metric === EXPLAINED;
  const level = first.mode === "keep" ? threshold : 1 - threshold;
  const setLevel = (value) => setThreshold(first.mode === "keep" ? value : 1 - value);
  const marks = explained ? series.flatMap((one) => {
    const needed = neededAt(one.curve, threshold)?.value, place = one.xs.indexOf(needed);
    return place < 0 ? [] : [{ x: needed, y: one.ys[place], colour: one.colour }];
  }) : [];
  const id = `curves-${panel}`;
  const name = `${data.kind}-${data.panels[panel]?.title ?? "curves"}-${metric}`.replace(/[^A-Za-z0-9._-]+/g, "-");
  const rows = () => series.flatMap(({ curve }) => curve.ks.map((at, place) => ({
    model: curve.model, task: curve.task, order: curve.order, method: curve.method, control: curve.control ?? "", fill: curve.fill, k: at, metric,
    value: curve.bands[metric].value[place], low: curve.bands[metric].low[place], high: curve.bands[metric].high[place],
  })));
  const verb = first.mode === "keep" ? "kept" : first.kind === "change" ? "ablated" : "masked";
  const show = (ids, on) => setHidden((old) => {
    const changed = new Set(old);
    for (const one of ids) on ? changed.delete(one) : changed.add(one);
    return changed;
  });
  return html`<section class="card" aria-labelledby=${`${id}-title`}>
    <div class="row"><h2 id=${`${id}-title`} class="grow">${data.panels[panel]?.title ?? "Curves"}</h2>
      <${Saves} svg=${() => saveSvg(document.getElementById(id), name)} csv=${() => saveCsv(rows(), name)} /></div>
    <div class="row controls">
      <${Picks} label="Metric" id="metric" options=${metrics} value=${metric} onPick=${setMetric} words=${metricWords} />
      <${Picks} label="Axis" id="axis" options=${["linear", "logarithmic"]} value=${axis} onPick=${(next) => { setAxis(next); setZoom(null); }} />
      ${zoom && html`<button type="button" class="small" onClick=${() => setZoom(null)}>Whole range</button>`}
      ${explained && html`<label class="small">Threshold${" "}<input id="threshold" type="number" min="0.01" max="1" step="0.01" value=${threshold} onInput=${(event) => setThreshold(Number(event.target.value))} /></label>`}
    </div>
    <${Chart} id=${id} series=${series} marks=${marks} log=${log} xDomain=${domain} yDomain=${rangeOf(series, metric)} cursor=${k} height=${small ? 260 : 360}
      xLabel=${`Number of ${inWords(first.units)} ${verb}`} yLabel=${explained ? "Explained effect" : metricWords(metric)}
      label=${`${metricWords(metric)} against the number of ${inWords(first.units)} ${verb}, ${series.length} lines`}
      threshold=${explained ? { level, set: setLevel, label: "Threshold of explained effect", words: thresholdWords(series, threshold) } : null}
      say=${(one, place) => pointWords(series[one], place, metric)} onPick=${(one, place) => onPick?.(series[one].curve, place)} onZoom=${setZoom}
      hint=${`Point at a line, or use the arrow keys. Drag across to zoom,${explained ? " drag the dashed line to move the threshold," : ""} click to choose k.`} />
    ${!small && html`<${Switches} lines=${lines} hidden=${hidden} onSwitch=${show} />`}
    <${NeededTable} data=${data} lines=${lines} threshold=${threshold} hidden=${hidden} onSwitch=${show} metric=${metric} />
    ${curves.some((curve) => curve.kind === "explained" && !curve.needed) && html`<p class="small soft">This result was made by an older version, which kept no values of single prompts: intervals of units needed are not known here.</p>`}
  </section>`;
}

function thresholdWords(series, threshold) {
  const needed = series.filter(({ curve }) => !curve.control).map(({ name, curve }) => `${name}: ${neededAt(curve, threshold)?.value === null ? "never" : countOf(neededAt(curve, threshold).value, curve.units)}`);
  return `${Math.round(threshold * 100)} %. ${needed.join("; ")}`;
}
