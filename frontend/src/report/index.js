// Many results: a picture of each, a search, and any two side by side with their curves in one chart.
import { html, useMemo, useState } from "../parts/html.js";
import { linkTo } from "../parts/links.js";
import { Chart } from "../parts/chart.js";
import { MODEL_COLOURS } from "../parts/colours.js";
import { count, inWords, number } from "../parts/format.js";
import { Saves } from "../parts/picks.js";
import { Scroll } from "../parts/scroll.js";
import { saveCsv, saveSvg } from "../parts/save.js";
import { ThemeSwitch } from "../parts/theme.js";
import { Thumb } from "../parts/thumb.js";
import { EXPLAINED, byChance, colourOf, dashOf, lineWords, metricWords, neededAt } from "./state.js";

const line = (curve, id, colour, dash) => ({ id, colour, dash, xs: curve.ks, ys: curve.bands[curve.shown]?.value ?? curve.ks.map(() => null), lows: curve.bands[curve.shown]?.low, highs: curve.bands[curve.shown]?.high, faint: byChance(curve.order), curve });

function ResultCard({ result, place, chosen, onChoose }) {
  const curves = result.curves.filter((curve) => curve.panel === 0);
  const series = curves.map((curve, at) => line(curve, at, colourOf(result, curve), dashOf(result, curve)));
  return html`<li class="card result" data-result=${result.path}>
    ${series.length > 0 && html`<${Thumb} series=${series} log=${curves[0].units !== "heads"} yDomain=${curves[0].kind === "explained" ? [-0.2, 1.3] : null} />`}
    <h2>${result.page ? html`<a href=${linkTo(result.page)}>${result.title}</a>` : result.title}</h2>
    <p class="small soft">${result.kind} · ${result.path}${result.made ? ` · ${result.made}` : ""}</p>
    <p class="small">${result.models.join(", ")}${result.tasks.length ? ` on ${result.tasks.join(", ")}` : ""}</p>
    <ul class="small">${result.sentences.slice(0, 3).map((sentence, at) => html`<li key=${at}>${sentence}</li>`)}</ul>
    ${result.curves.length > 0 && html`<label class="small"><input type="checkbox" checked=${chosen.includes(place)} onChange=${() => onChoose(place)} /> compare</label>`}
  </li>`;
}

/** The curves of two results in one chart; a line says its result, panel and order. */
function Beside({ data, chosen }) {
  const [threshold, setThreshold] = useState(0.9);
  const results = chosen.map((place) => data.results[place]);
  const tasks = [...new Set(results.flatMap((result) => result.curves.map((curve) => result.panels[curve.panel]?.title ?? curve.task)))];
  const [task, setTask] = useState(tasks[0]);
  const [chance, setChance] = useState(false);
  const here = tasks.includes(task) ? task : tasks[0];
  const lines = results.flatMap((result, at) => result.curves.map((curve, own) => ({ result, at, curve, own })))
    .filter(({ result, curve }) => (result.panels[curve.panel]?.title ?? curve.task) === here && (chance || !byChance(curve.order)));
  const kinds = [...new Set(lines.map(({ curve }) => `${curve.kind} ${curve.units} ${curve.shown}`))];
  const same = lines.filter(({ curve }) => `${curve.kind} ${curve.units} ${curve.shown}` === kinds[0]);
  const series = same.map(({ result, at, curve, own }, place) => ({ ...line(curve, `${at}-${own}`, MODEL_COLOURS[place % 6], at ? "7 3" : ""), name: `${result.path} · ${lineWords(curve, result.curves.filter((other) => other.panel === curve.panel))}` }));
  if (!series.length) return null;
  const first = series[0].curve, explained = first.shown === EXPLAINED;
  const values = series.flatMap((one) => one.ys).filter((value) => value !== null);
  const log = first.units !== "heads";
  return html`<section class="card" id="beside" aria-labelledby="beside-title"><div class="row"><h2 id="beside-title" class="grow">Side by side</h2>
      <${Saves} svg=${() => saveSvg(document.getElementById("both"), "beside")} csv=${() => saveCsv(series.flatMap((one) => one.xs.map((k, place) => ({ line: one.name, k, value: one.ys[place], low: one.lows[place], high: one.highs[place] }))), "beside")} /></div>
    <div class="row controls"><label class="small">Panel${" "}<select value=${here} onChange=${(event) => setTask(event.target.value)}>${tasks.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <label class="small"><input type="checkbox" checked=${chance} onChange=${() => setChance(!chance)} /> random orders too</label></div>
    ${kinds.length > 1 && html`<p class="warning">These results measure different things; shown are those of ${metricWords(first.shown)} over ${inWords(first.units)}.</p>`}
    <${Chart} id="both" height=${360} series=${series} log=${log} xDomain=${[log ? 1 : 0, Math.max(...series.map((one) => one.xs.at(-1)))]} yDomain=${explained ? [-0.3, 1.55] : [Math.min(...values), Math.max(...values) + 1e-9]}
      xLabel=${`Number of ${inWords(first.units)}`} yLabel=${metricWords(first.shown)} label="Curves of both results" hint="Solid: the first result. Dashed: the second."
      threshold=${explained ? { level: threshold, set: (value) => setThreshold(Math.min(Math.max(Math.round(value * 100) / 100, 0.01), 1)), label: "Threshold", words: `${Math.round(threshold * 100)} %` } : null}
      say=${(one, place) => `${series[one].name} · k = ${series[one].xs[place]}: ${number(series[one].ys[place])}`} />
    <${Scroll}><table class="plain"><thead><tr><th scope="col">Line</th>${explained && html`<th scope="col" class="number">Needed at ${Math.round(threshold * 100)} %</th>`}</tr></thead>
      <tbody>${series.map((one) => html`<tr key=${one.id}><th scope="row"><svg class="swatch" viewBox="0 0 26 8" aria-hidden="true"><line x1="1" x2="25" y1="4" y2="4" stroke=${one.colour} stroke-width="2.5" stroke-dasharray=${one.dash || "none"} /></svg> ${one.name}</th>
        ${explained && html`<td class="number">${neededAt(one.curve, threshold)?.value === null ? "never" : count(neededAt(one.curve, threshold).value)}</td>`}</tr>`)}</tbody></table><//>
    <div class="columns">${results.map((result, at) => html`<div key=${at}><h3>${result.title}</h3><p class="small soft">${result.path}</p><ul class="small">${result.sentences.map((sentence, own) => html`<li key=${own}>${sentence}</li>`)}</ul></div>`)}</div></section>`;
}

export function Index({ data }) {
  const [word, setWord] = useState("");
  const [chosen, setChosen] = useState([]);
  const listed = useMemo(() => data.results.map((result, place) => ({ result, place, text: [result.title, result.path, result.kind, ...result.models, ...result.tasks, ...result.sentences].join(" ").toLowerCase() })), [data]);
  const shown = listed.filter(({ text }) => word.toLowerCase().split(/\s+/).every((part) => text.includes(part)));
  const choose = (place) => setChosen((old) => (old.includes(place) ? old.filter((other) => other !== place) : [...old, place].slice(-2)));
  return html`<main><header class="row"><h1 class="grow">${data.title}</h1><${ThemeSwitch} /></header>
    <div class="row controls"><label>Search${" "}<input id="search" type="search" value=${word} onInput=${(event) => setWord(event.target.value)} /></label>
      <span class="small soft" aria-live="polite">${shown.length} of ${count(data.results.length)} results. Tick two to see them side by side.</span></div>
    ${data.warnings.map((warning, at) => html`<p key=${at} class="warning">${warning}</p>`)}
    ${chosen.length === 2 && html`<${Beside} data=${data} chosen=${chosen} />`}
    <ul class="results">${shown.map(({ result, place }) => html`<${ResultCard} key=${result.path} result=${result} place=${place} chosen=${chosen} onChoose=${choose} />`)}</ul></main>`;
}
