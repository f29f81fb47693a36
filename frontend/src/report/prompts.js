// The test prompts: what was asked, what the model says, and how much of the effect each shows at the chosen k.
import { html, useMemo, useState } from "../parts/html.js";
import { Chart } from "../parts/chart.js";
import { count, inWords, number } from "../parts/format.js";
import { Saves } from "../parts/picks.js";
import { Scroll } from "../parts/scroll.js";
import { saveCsv, saveSvg } from "../parts/save.js";
import { byChance, colourOf, dashOf, effects, lineWords, metricWords, nearestPlace, orderWords, promptKs } from "./state.js";

const AT_ONCE = 100;
const said = (says) => (says.length ? `${says[0][0]} (${number(100 * says[0][1], 3)} %)` : "–");

/** Whether what the model would say begins with an answer, or an answer with it. */
function isRight(prompt, says) {
  const first = says[0]?.[0].trim();
  return Boolean(first) && (prompt.answer.split(", ").some((answer) => answer.trim() === first) || prompt.answer.trim().startsWith(first));
}

const COLUMNS = {
  number: ["#", (row) => row.number, true],
  text: ["Prompt", (row) => row.text],
  counterfactual: ["Counterfactual", (row) => row.counterfactual ?? ""],
  answer: ["Answer", (row) => row.answer],
  wrong: ["Wrong answer", (row) => row.wrong ?? ""],
  says: ["Whole model says", (row) => said(row.says)],
  now: ["Says at k", (row) => said(row.now)],
  effect: ["Effect", (row) => row.effect ?? -Infinity, true],
};

const ONLY = {
  all: ["all", () => true],
  right: ["whole model says the answer", (row) => row.right],
  wrong: ["whole model says something else", (row) => !row.right],
  "right-now": ["says the answer at k", (row) => row.rightNow],
  "wrong-now": ["says something else at k", (row) => !row.rightNow],
};

function Heading({ column, sort, onSort, words = COLUMNS[column][0] }) {
  const numeric = COLUMNS[column][2];
  const state = sort.column === column ? (sort.down ? "descending" : "ascending") : "none";
  return html`<th scope="col" aria-sort=${state} class=${numeric ? "number" : ""}>
    <button type="button" class="bare" onClick=${() => onSort({ column, down: sort.column === column ? !sort.down : column === "effect" })}>${words}${state === "none" ? "" : state === "ascending" ? " ▲" : " ▼"}</button></th>`;
}

function OwnCurve({ data, curve, prompt, k }) {
  const beside = data.curves.filter((other) => other.panel === curve.panel && other.model === curve.model && other.by_prompt && !byChance(other.order));
  const series = beside.map((other) => ({
    id: `p${other.id}`, name: lineWords(other, beside), colour: colourOf(data, other), dash: dashOf(data, other),
    xs: promptKs(other), ys: other.by_prompt.map((row) => row[prompt]), curve: other,
  }));
  const values = series.flatMap((one) => one.ys).filter((value) => value !== null);
  const room = 0.08 * Math.max(Math.max(...values) - Math.min(...values), 1e-6);
  const log = curve.units !== "heads";
  const words = metricWords(curve.metric), id = "own-curve", name = `${data.kind}-prompt-${prompt + 1}`;
  const rows = () => series.flatMap((one) => one.xs.map((at, place) => ({ order: one.curve.order, k: at, [curve.metric]: one.ys[place] })));
  return html`<div><div class="row"><h3 class="grow">Prompt ${prompt + 1}: its own curve</h3>
      <${Saves} svg=${() => saveSvg(document.getElementById(id), name)} csv=${() => saveCsv(rows(), name)} /></div>
    <${Chart} id=${id} height=${260} series=${series} log=${log} xDomain=${[log ? 1 : 0, Math.max(...series.map((one) => one.xs.at(-1)))]} yDomain=${[Math.min(...values) - room, Math.max(...values) + room]}
      cursor=${k} xLabel=${`Number of ${inWords(curve.units)}`} yLabel=${words} label=${`${words} of prompt ${prompt + 1}`} hint=${`${words} of this prompt alone, at every measured k.`}
      say=${(one, place) => `${series[one].name} · k = ${series[one].xs[place]}: ${words} ${number(series[one].ys[place], 4)}`} /></div>`;
}

export function Prompts({ data, curve, k, prompt, setPrompt }) {
  const [sort, setSort] = useState({ column: "number", down: false });
  const [filter, setFilter] = useState("");
  const [only, setOnly] = useState("all");
  const [most, setMost] = useState(AT_ONCE);
  const asked = curve && curve.asked !== null ? data.prompts[curve.asked] : null;
  const ks = curve ? promptKs(curve) : [0], place = nearestPlace(ks, k);
  const heard = curve?.said ? nearestPlace(curve.said.ks, k) : 0;
  const rows = useMemo(() => {
    if (!asked) return [];
    const values = effects(curve, place);
    return asked.prompts.map((one, at) => {
      const now = curve.said ? [[curve.said.words[curve.said.tokens[heard][at]], curve.said.chances[heard][at]]] : [];
      return { ...one, number: at + 1, now, effect: values ? values[at] : null, right: isRight(one, one.says), rightNow: isRight(one, now) };
    });
  }, [asked, curve, place, heard]);
  if (!asked) return null;
  const word = filter.toLowerCase();
  const kept = rows.filter((row) => ONLY[only][1](row) && (!word || [row.text, row.counterfactual ?? "", row.answer, row.wrong ?? "", said(row.says), said(row.now)].some((text) => text.toLowerCase().includes(word))));
  const value = COLUMNS[sort.column][1];
  kept.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (sort.down ? -1 : 1));
  const pairs = rows.some((row) => row.counterfactual !== null), wrongs = rows.some((row) => row.wrong !== null);
  const columns = Object.keys(COLUMNS).filter((name) => (pairs || name !== "counterfactual") && (wrongs || name !== "wrong") && (rows[0]?.effect !== null || name !== "effect") && (curve.said || name !== "now"));
  const heardAt = curve.said && `Says at k = ${count(curve.said.ks[heard])}${curve.draws > 1 ? ", first fit" : ""}`;
  const what = curve.kind === "explained" ? "share of the mean effect" : metricWords(curve.metric);
  return html`<section class="card" aria-labelledby="prompts-title">
    <div class="row"><h2 id="prompts-title" class="grow">Prompts <span class="soft">of ${asked.task}, as ${asked.model} reads them</span></h2>
      <${Saves} csv=${() => saveCsv(kept.map((row) => ({ number: row.number, prompt: row.text, counterfactual: row.counterfactual, answer: row.answer, wrong: row.wrong, says: row.says[0]?.[0], probability: row.says[0]?.[1], k: ks[place], effect: row.effect, ...(curve.said ? { said_k: curve.said.ks[heard], said: row.now[0][0], said_probability: row.now[0][1] } : {}) })), `${data.kind}-prompts`)} /></div>
    <div class="row controls"><label class="small">Search${" "}<input id="prompt-filter" type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /></label>
      <label class="small">Show${" "}<select id="prompt-only" value=${only} onChange=${(event) => setOnly(event.target.value)}>${Object.entries(ONLY).filter(([name]) => curve.said || !name.endsWith("now")).map(([name, [label]]) => html`<option key=${name} value=${name}>${label}</option>`)}</select></label>
      <span class="small soft">${kept.length} of ${rows.length}. Effect: ${what} with k = ${count(ks[place])}, ${orderWords(curve.order)}${curve.repeats > 1 ? `; the first of ${curve.repeats} repeats` : ""}.</span></div>
    <${Scroll} class="tall" label="Table of prompts"><table class="plain" id="prompts">
      <thead><tr>${columns.map((column) => html`<${Heading} key=${column} column=${column} sort=${sort} onSort=${setSort} words=${column === "now" ? heardAt : undefined} />`)}</tr></thead>
      <tbody>${kept.slice(0, most).map((row) => html`<tr key=${row.number} class=${prompt === row.number - 1 ? "chosen" : ""} onClick=${() => setPrompt(row.number - 1)}>
        <td class="number"><button type="button" class="bare" aria-pressed=${String(prompt === row.number - 1)} aria-label=${`Prompt ${row.number}: show its own curve`}>${row.number}</button></td>
        <td>${row.text}</td>${pairs && html`<td>${row.counterfactual}</td>`}<td>${row.answer}</td>${wrongs && html`<td>${row.wrong}</td>`}
        <td title=${row.says.map(([text, chance]) => `${text} ${number(100 * chance)} %`).join("\n")}>${said(row.says)}</td>
        ${curve.said && html`<td class=${row.rightNow ? "now" : "now changed"}>${said(row.now)}</td>`}
        ${row.effect !== null && html`<td class="number effect">${number(row.effect)}</td>`}</tr>`)}</tbody></table><//>
    ${kept.length > most && html`<button type="button" class="small" onClick=${() => setMost(most + 500)}>Show more</button>`}
    ${curve.by_prompt && rows[prompt] && html`<${OwnCurve} data=${data} curve=${curve} prompt=${prompt} k=${k} />`}
  </section>`;
}
