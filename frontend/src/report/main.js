// The report of a study, and the index over many: everything that the JSON says, to be looked at.
import "../parts/theme.css";
import "./report.css";
import { html, render, useMemo, useState } from "../parts/html.js";
import { count, number } from "../parts/format.js";
import { Picks } from "../parts/picks.js";
import { ThemeSwitch } from "../parts/theme.js";
import { Thumb } from "../parts/thumb.js";
import { Answers } from "./answers.js";
import { AttentionEdges } from "./attention.js";
import { CircuitDrawing, CircuitSection } from "./circuit.js";
import { Curves } from "./curves.js";
import { Heads, rankingOf } from "./heads.js";
import { Index } from "./index.js";
import { Origin } from "./origin.js";
import { Prompts } from "./prompts.js";
import { EXPLAINED, byChance, different, linesOf, methodsIn, metricWords, nearestPlace, neededAt, orderWords, seriesOf } from "./state.js";
import { Training } from "./training.js";

function Top({ data }) {
  return html`<section class="card top" aria-label="The answer">
    <ul class="answer">${data.sentences.map((sentence, at) => html`<li key=${at}>${sentence}</li>`)}</ul>
    ${data.warnings.map((warning, at) => html`<p key=${at} class="warning">${warning}</p>`)}
    ${data.caveats.length > 0 && html`<details><summary class="small">How to read the numbers</summary><ul class="small soft">${data.caveats.map((caveat, at) => html`<li key=${at}>${caveat}</li>`)}</ul></details>`}
  </section>`;
}

/** All panels at a glance; one is looked at. */
function Panels({ data, panel, setPanel, threshold }) {
  if (data.panels.length < 2) return null;
  return html`<nav class="panels no-print" aria-label="Panels">${data.panels.map(({ title }, place) => {
    const curves = data.curves.filter((curve) => curve.panel === place);
    const series = curves.map((curve) => seriesOf(data, curve, curve.shown)).filter(Boolean);
    if (!series.length) return null;
    const explained = curves[0].shown === EXPLAINED;
    const needed = explained ? different(curves.map((curve) => curve.model)).map((model) => neededAt(curves.find((curve) => curve.model === model), threshold)?.value) : [];
    return html`<button key=${place} type="button" class="panel" aria-pressed=${String(place === panel)} onClick=${() => setPanel(place)}>
      <${Thumb} series=${series} log=${curves[0].units !== "heads"} yDomain=${explained ? [-0.2, 1.3] : null} />
      <span>${title}</span>${needed.length > 0 && html`<span class="small">${needed.map((k) => (k === null ? "never" : count(k))).join(" | ")}</span>`}</button>`;
  })}</nav>`;
}

/** The k that everything below speaks of: of heads any, of edges those that were measured. */
function Slider({ curve, ranking, k, setK }) {
  const fine = curve.units === "heads" && ranking.length > 0;
  const place = nearestPlace(curve.ks, k), last = fine ? Math.min(ranking.length, curve.total) : curve.ks.length - 1;
  const band = curve.bands[curve.shown];
  const words = `k = ${count(fine ? k : curve.ks[place])} of ${count(curve.total)}`;
  const told = curve.ks[place] === k || !fine ? "" : ` at k = ${count(curve.ks[place])}`;
  return html`<label class="slider small"><span>k</span>
    <input id="k" type="range" min="0" max=${last} step="1" value=${fine ? Math.min(k, last) : place} aria-valuetext=${words} onInput=${(event) => setK(fine ? Number(event.target.value) : curve.ks[Number(event.target.value)])} />
    <output id="k-words">${words}${band ? ` · ${metricWords(curve.shown)} ${number(band.value[place])}${told}` : ""}</output></label>`;
}

function Study({ data }) {
  const small = data.look === "small";
  const [panel, setPanel] = useState(0);
  const [threshold, setThreshold_] = useState(data.panels[0]?.threshold ?? 0.9);
  const setThreshold = (value) => Number.isFinite(value) && setThreshold_(Math.min(Math.max(Math.round(value * 100) / 100, 0.01), 1));
  const [model_, setModel] = useState(null);
  const [method_, setMethod] = useState(null);
  const [order_, setOrder] = useState(null);
  const [k_, setK] = useState(null);
  const [prompt, setPrompt] = useState(0);
  const curves = useMemo(() => data.curves.filter((curve) => curve.panel === panel), [data, panel]);
  const models = different(curves.length ? curves.map((curve) => curve.model) : [...data.maps, ...data.roles].map((map) => map.model));
  const model = models.includes(model_) ? model_ : models[0];
  const ranked = curves.filter((curve) => curve.model === model && !byChance(curve.order)), methods = methodsIn(ranked);
  const method = methods.includes(method_) ? method_ : methods[0];
  const own = ranked.filter((curve) => curve.method === method);
  const curve = own.find((one) => one.order === order_) ?? own[0] ?? curves[0];
  const ranking = useMemo(() => rankingOf(data, curve), [data, curve]);
  const k = k_ ?? (curve ? neededAt(curve, threshold)?.value ?? curve.ks[Math.min(1, curve.ks.length - 1)] : 0);
  const pick = (chosen, place) => {
    setModel(chosen.model);
    if (!byChance(chosen.order)) { setMethod(chosen.method); setOrder(chosen.order); }
    setK(chosen.ks[place]);
  };
  return html`
    ${!small && html`<${Panels} data=${data} panel=${panel} setPanel=${(next) => { setPanel(next); setK(null); setPrompt(0); }} threshold=${threshold} />`}
    ${curves.length > 0 && html`<${Curves} key=${panel} data=${data} panel=${panel} curves=${curves} threshold=${threshold} setThreshold=${setThreshold} k=${k} onPick=${pick} small=${small} />`}
    ${curve && html`<div class="bar card" role="region" aria-label="What is looked at">
      <${Picks} label="Model" id="model" options=${models} value=${model} onPick=${setModel} />
      <${Picks} label="Method" id="method" options=${methods} value=${method} onPick=${setMethod} />
      <${Picks} label="Order" id="order" options=${own.map((one) => one.order)} value=${curve.order} onPick=${setOrder} words=${orderWords} />
      <${Slider} curve=${curve} ranking=${ranking} k=${k} setK=${setK} /></div>`}
    <${Heads} data=${data} panel=${panel} model=${model} curve=${curve} k=${k} />
    <${Answers} key=${`a${panel}`} data=${data} panel=${panel} model=${model} k=${k} setK=${setK} />
    <${CircuitSection} data=${data} curve=${curve} k=${k} />
    ${!curves.length && data.circuits.map((circuit, at) => html`<${CircuitDrawing} key=${at} data=${data} circuit=${circuit} k=${circuit.edges.length} title=${`${count(circuit.edges.length)} edges`} />`)}
    <${AttentionEdges} data=${data} curve=${curve} k=${k} prompt=${prompt} />
    <${Prompts} key=${`p${panel}`} data=${data} curve=${curve} k=${k} prompt=${prompt} setPrompt=${setPrompt} />`;
}

function Page({ data }) {
  if (data.look === "index") return html`<${Index} data=${data} />`;
  return html`<main class=${data.look}>
    ${data.look === "whole" && html`<header class="row"><div class="grow"><p class="small soft">headcount · ${data.kind}</p><h1>${data.title}</h1></div><${ThemeSwitch} /></header>`}
    ${(data.sentences.length > 0 || data.warnings.length > 0) && html`<${Top} data=${data} />`}
    ${data.training && html`<${Training} training=${data.training} />`}
    <${Study} data=${data} />
    ${data.provenance && html`<${Origin} origin=${data.provenance} kind=${data.kind} />`}
  </main>`;
}

const data = JSON.parse(document.getElementById("data").textContent);
data.lines = linesOf(data);
render(html`<${Page} data=${data} />`, document.getElementById("page"));
