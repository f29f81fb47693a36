// The answers themselves: of the whole model, with the top heads masked, with random heads masked.
import { html, useState } from "../parts/html.js";
import { number } from "../parts/format.js";
import { Picks, Saves } from "../parts/picks.js";
import { Scroll } from "../parts/scroll.js";
import { saveCsv } from "../parts/save.js";
import { metricWords, nearestPlace, orderWords } from "./state.js";

const AT_ONCE = 100;

export function Answers({ data, panel, model, k, setK }) {
  const answers = data.answers.find((one) => one.panel === panel && one.model === model);
  const [metric, setMetric] = useState(null);
  const [control, setControl] = useState("chance");
  const [draw, setDraw] = useState(0);
  const [filter, setFilter] = useState("");
  const [only, setOnly] = useState("all");
  const [open, setOpen] = useState(null);
  const [most, setMost] = useState(AT_ONCE);
  if (!answers) return null;
  const place = nearestPlace(answers.ks, k);
  const chosen = answers.metrics.includes(metric) ? metric : answers.metrics.includes("accepted") ? "accepted" : answers.metrics[0];
  const controls = Object.keys(answers.masked).filter((order) => order !== "absolute");
  const other = controls.includes(control) ? control : controls[0];
  const draws = other ? answers.masked[other].length : 0, at = Math.min(draw, Math.max(draws - 1, 0));
  const said = (order, question) => answers.said[order === "unmasked" ? answers.whole[question] : answers.masked[order][order === "absolute" ? 0 : at][place][question]];
  const gave = (order, name, question) => answers.given[order]?.[name]?.[order === "absolute" || order === "unmasked" ? 0 : at]?.[order === "unmasked" ? 0 : place]?.[question] ?? null;
  const columns = ["unmasked", "absolute", ...(other ? [other] : [])];
  const words = { unmasked: "Unmasked", absolute: `Top ${answers.ks[place]} masked`, [other]: `${answers.ks[place]} ${orderWords(other ?? "")} masked` };
  const rows = answers.questions.map((question, number_) => ({ ...question, number: number_ }));
  const word = filter.toLowerCase();
  const kept = rows.filter((row) => {
    const [before, after] = [gave("unmasked", chosen, row.number), gave("absolute", chosen, row.number)];
    if (only === "changed" && said("unmasked", row.number) === said("absolute", row.number)) return false;
    if (only === "lost" && !(before > after)) return false;
    return !word || [row.text, row.right, ...columns.map((order) => said(order, row.number))].some((text) => text.toLowerCase().includes(word));
  });
  const name = `${data.kind}-answers-${answers.function}-${model}`;
  const csv = () => saveCsv(kept.flatMap((row) => columns.map((order) => ({
    question: row.text, right: row.right, masked: order, k: order === "unmasked" ? 0 : answers.ks[place], draw: at, answer: said(order, row.number),
    ...Object.fromEntries(answers.metrics.map((one) => [one, gave(order, one, row.number)])),
  }))), name);
  return html`<section class="card" aria-labelledby="answers-title">
    <div class="row"><h2 id="answers-title" class="grow">Answers of ${model} <span class="soft">${answers.function}</span></h2><${Saves} csv=${csv} /></div>
    <div class="row controls">
      <${Picks} label="Heads masked" id="answers-k" options=${answers.ks} value=${answers.ks[place]} onPick=${setK} />
      <${Picks} label="Beside" id="answers-control" options=${controls} value=${other} onPick=${setControl} words=${orderWords} />
      <${Picks} label="Draw" id="answers-draw" options=${Array.from({ length: draws }, (_, one) => one)} value=${at} onPick=${setDraw} words=${(one) => String(one + 1)} />
      <${Picks} label="Metric" id="answers-metric" options=${answers.metrics} value=${chosen} onPick=${setMetric} words=${metricWords} />
    </div>
    <div class="row controls"><label class="small">Search${" "}<input id="answers-filter" type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /></label>
      <label class="small">Show${" "}<select id="answers-only" value=${only} onChange=${(event) => setOnly(event.target.value)}><option value="all">all</option><option value="changed">changed by the top heads</option><option value="lost">worse without the top heads</option></select></label>
      <span class="small soft">${kept.length} of ${rows.length} questions. A number: what ${metricWords(chosen)} gave the answer; click a question for all metrics.</span></div>
    <${Scroll} class="tall" label="Table of answers"><table class="plain" id="answers">
      <thead><tr><th scope="col">Question</th><th scope="col">Right</th>${columns.map((order) => html`<th scope="col" key=${order}>${words[order]}</th>`)}</tr></thead>
      <tbody>${kept.slice(0, most).map((row) => html`<tr key=${row.number} onClick=${() => setOpen(open === row.number ? null : row.number)}>
        <td><button type="button" class="bare left" aria-expanded=${String(open === row.number)}>${row.text}</button></td><td>${row.right}</td>
        ${columns.map((order) => html`<td key=${order} class=${order !== "unmasked" && said(order, row.number) !== said("unmasked", row.number) ? "changed" : ""}>${said(order, row.number) || html`<i class="soft">nothing</i>`}
          <div class="small soft">${number(gave(order, chosen, row.number))}</div>
          ${open === row.number && html`<div class="small">${answers.metrics.map((one) => html`<div key=${one}>${metricWords(one)} ${number(gave(order, one, row.number))}</div>`)}</div>`}</td>`)}
      </tr>`)}</tbody></table><//>
    ${kept.length > most && html`<button type="button" class="small" onClick=${() => setMost(most + 500)}>Show more</button>`}
  </section>`;
}
