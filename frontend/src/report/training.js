// A sparse twin: how it was trained, what its gates leave open, what it costs by source of text.
import { html, useState } from "../parts/html.js";
import { Chart } from "../parts/chart.js";
import { MODEL_COLOURS, shareColour } from "../parts/colours.js";
import { headName, number } from "../parts/format.js";
import { HeadGrid } from "../parts/headgrid.js";
import { Saves } from "../parts/picks.js";
import { Scroll } from "../parts/scroll.js";
import { saveCsv, saveSvg } from "../parts/save.js";

/** What is drawn together: a title, a unit, the columns of the log, and what the end of their names says again. */
const GROUPS = [
  ["Loss", "nats per token", ["dense_loss", "loss"]],
  ["Keys per query", "keys", ["keys_a_query"]],
  ["Open edges", "share of the causal edges", ["open_share"]],
  ["Queries without an open key", "share of the queries", ["empty_rows"]],
  ["What each bound limits", "nats per token lost", [], "_lost"],
  ["Multipliers of the bounds", "multiplier", [], "_multiplier"],
];
const plain = (name, end) => (end ? name.slice(0, -end.length) : name).replaceAll("_", " ");

function TrainingChart({ training, title, unit, columns, end }) {
  const [log, setLog] = useState(false);
  const names = Object.keys(training.log).filter((name) => columns.includes(name) || (end && name.endsWith(end)));
  if (!names.length) return null;
  const values = names.flatMap((name) => training.log[name]).filter((value) => value !== null && (!log || value > 0));
  const room = 0.06 * Math.max(Math.max(...values) - Math.min(...values), 1e-9);
  const shown = (value) => (log && value !== null ? Math.log10(value) : value);
  const ends = log ? [Math.log10(Math.min(...values)), Math.log10(Math.max(...values))] : [Math.min(...values) - room, Math.max(...values) + room];
  const series = names.map((name, at) => ({ id: name, name: plain(name, end), colour: MODEL_COLOURS[at % MODEL_COLOURS.length], dash: at % 2 ? "7 3" : "", xs: training.steps, ys: training.log[name].map(shown) }));
  const id = `training-${names[0].replace(/[^\w-]+/g, "-")}`;
  return html`<section class="card" aria-labelledby=${`${id}-title`}><div class="row"><h2 id=${`${id}-title`} class="grow">${title}</h2>
      <button type="button" class="small" aria-pressed=${String(log)} onClick=${() => setLog(!log)}>logarithmic</button>
      <${Saves} svg=${() => saveSvg(document.getElementById(id), id)} csv=${() => saveCsv(training.steps.map((step, at) => ({ step, ...Object.fromEntries(names.map((name) => [name, training.log[name][at]])) })), id)} /></div>
    <p class="small legend">${series.map((one, at) => html`<span class="key" key=${one.id}><i class=${`c${at % MODEL_COLOURS.length}`}></i> ${one.name}</span>`)}</p>
    <${Chart} id=${id} height=${260} series=${series} xDomain=${[training.steps[0], Math.max(training.steps.at(-1), training.steps[0] + 1)]} yDomain=${ends[0] === ends[1] ? [ends[0] - 1, ends[1] + 1] : ends} xLabel="step" yLabel=${log ? `log₁₀ ${unit}` : unit}
      label=${title} hint="Point at a line, or use the arrow keys." say=${(one, place) => `${series[one].name} · step ${series[one].xs[place]}: ${number(training.log[names[one]][place], 4)}`} /></section>`;
}

function OpenMap({ open }) {
  const largest = Math.max(...open.flat());
  const [chosen, setChosen] = useState([0, 0]);
  const mean = (row) => row.reduce((sum, value) => sum + value, 0) / row.length;
  const rows = () => open.flatMap((row, layer) => row.map((share, head) => ({ layer, head, open_share: share })));
  const percent = (share) => `${number(100 * share, 3)} %`;
  return html`<section class="card" aria-labelledby="open-title"><div class="row"><h2 id="open-title" class="grow">Open share of every head</h2><${Saves} svg=${() => saveSvg(document.getElementById("open"), "open-share")} csv=${() => saveCsv(rows(), "open-share")} /></div>
    <div class="beside"><div><${HeadGrid} id="open" layers=${open.length} heads=${open[0].length} chosen=${chosen} onPick=${(layer, head) => setChosen([layer, head])} label="Share of its causal edges that each head leaves open"
      cell=${(layer, head) => ({ fill: shareColour((open[layer][head] / largest) ** 0.5, "var(--c2)"), label: `${percent(open[layer][head])} open`, mark: open[layer][head] === 0 ? "×" : "" })} />
      <p class="small soft">Full colour: ${percent(largest)}. ×: never open.</p></div>
    <div><h3>${headName(...chosen)}</h3><p>${percent(open[chosen[0]][chosen[1]])} of its causal edges are open.</p>
      <${Scroll}><table class="plain"><thead><tr><th scope="col">Layer</th><th scope="col" class="number">Open, mean of its heads</th></tr></thead>
      <tbody>${open.map((row, layer) => html`<tr key=${layer}><th scope="row">${layer}</th><td class="number">${percent(mean(row))}</td></tr>`)}</tbody></table><//></div></div></section>`;
}

export function Training({ training }) {
  const cost = ({ loss, dense_loss }) => (loss === null || !dense_loss ? "–" : `${loss >= dense_loss ? "+" : "−"}${number(Math.abs(100 * (loss / dense_loss - 1)), 3)} %`);
  return html`<div class="columns">
    <section class="card" aria-labelledby="worth-title"><h2 id="worth-title">What it is worth</h2>
      <table class="plain"><tbody>${training.facts.map(([name, value]) => html`<tr key=${name}><th scope="row">${name}</th><td>${value}</td></tr>`)}</tbody></table></section>
    <section class="card" aria-labelledby="sources-title"><div class="row"><h2 id="sources-title" class="grow">What it costs, by source of text</h2><${Saves} csv=${() => saveCsv(training.sources, "sources")} /></div>
      <${Scroll}><table class="plain" id="sources"><thead><tr><th scope="col">Source</th><th scope="col" class="number">Dense loss</th><th scope="col" class="number">Loss</th><th scope="col" class="number">Cost</th><th scope="col" class="number">Sequences</th></tr></thead>
      <tbody>${training.sources.map((one) => html`<tr key=${one.name}><th scope="row">${one.name}</th><td class="number">${number(one.dense_loss, 5)}</td><td class="number">${number(one.loss, 5)}</td><td class="number">${cost(one)}</td><td class="number">${one.sequences}</td></tr>`)}</tbody></table><//></section>
    ${training.steps.length > 0 && GROUPS.map(([title, unit, columns, end]) => html`<${TrainingChart} key=${title} training=${training} title=${title} unit=${unit} columns=${columns} end=${end} />`)}
    ${training.open_share && html`<${OpenMap} open=${training.open_share} />`}
    <section class="card" aria-labelledby="recipe-title"><h2 id="recipe-title">Recipe</h2><${Scroll}><table class="plain"><tbody>${Object.entries(training.recipe).map(([name, value]) => html`<tr key=${name}><th scope="row">${name}</th><td>${value}</td></tr>`)}</tbody></table><//></section>
  </div>`;
}
