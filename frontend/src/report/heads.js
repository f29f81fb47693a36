// The map of heads: a score or a role as colour, an outline around the heads that are among the first k; click for all
// that the result says of one head.
import { html, useMemo, useState } from "../parts/html.js";
import { ROLE_COLOURS, signedColour } from "../parts/colours.js";
import { count, headName, number } from "../parts/format.js";
import { HeadGrid } from "../parts/headgrid.js";
import { Picks, Saves } from "../parts/picks.js";
import { Scroll } from "../parts/scroll.js";
import { saveCsv, saveSvg } from "../parts/save.js";
import { headOf, methodsIn, orderWords } from "./state.js";

const MARKS = { facilitation: "+", irrelevance: "·", interference: "−" };
const VERBS = { facilitation: "helps", irrelevance: "does neither", interference: "hurts" };

/** Rank of every head, 1 for the largest, [layer][head]. */
function ranksOf(values) {
  const listed = values.flatMap((row, layer) => row.map((value, head) => [Math.abs(value ?? 0), layer, head]));
  listed.sort((a, b) => b[0] - a[0] || a[1] - b[1] || a[2] - b[2]);
  const ranks = values.map((row) => row.map(() => 0));
  listed.forEach(([, layer, head], place) => { ranks[layer][head] = place + 1; });
  return ranks;
}

/** The role that most seeds give a head, and by how much it leads the next. */
function roleOf(roles, layer, head) {
  const votes = Object.entries(roles.votes).map(([role, map]) => [map[layer][head], role]).sort((a, b) => b[0] - a[0]);
  return { role: votes[0][1], share: votes[0][0], lead: votes[0][0] - votes[1][0] };
}

/** Whether a score says what keeping a head does; a probe says what can be read from it. */
const isEffect = (map) => !/^(probe|copy)/.test(map.method);

function scoreView(map) {
  const largest = Math.max(...map.values.flat().map((value) => Math.abs(value ?? 0)));
  const ranks = ranksOf(map.values);
  return {
    method: map.method, words: `score by ${map.method}${map.fill ? `, ${map.fill} fill` : ""}`,
    cell: (layer, head) => {
      const value = map.values[layer][head];
      return { fill: signedColour(value, largest), label: `score ${number(value)}, rank ${ranks[layer][head]}` };
    },
    legend: html`<span class="key"><i class="plus"></i> ${isEffect(map) ? `keeping it raises ${map.metric.replaceAll("_", " ")}` : "above 0"}</span><span class="key"><i class="minus"></i> ${isEffect(map) ? "keeping it lowers it" : "below 0"}</span><span class="soft">strongest: ±${number(largest)}</span>`,
    layers: map.values.length, heads: map.values[0].length,
  };
}

function roleView(roles) {
  return {
    words: `role, by ${roles.seeds} fits`,
    cell: (layer, head) => {
      const { role, share, lead } = roleOf(roles, layer, head);
      const colour = `color-mix(in oklab, ${ROLE_COLOURS[role]} ${Math.round(100 * lead)}%, var(--unclear))`;
      const told = share > 0 ? `${VERBS[role]} in ${Math.round(share * 100)} % of the fits` : "unclear";
      return { fill: lead > 0 ? colour : "var(--unclear)", mark: lead > 0 ? MARKS[role] : "", label: told };
    },
    legend: html`${Object.keys(VERBS).map((role) => html`<span class="key" key=${role}><i class=${role}></i> ${MARKS[role]} ${VERBS[role]}</span>`)}<span class="key"><i class="unclear"></i> unclear</span><span class="soft">paler where fits disagree</span>`,
    layers: roles.votes.facilitation.length, heads: roles.votes.facilitation[0].length,
  };
}

function HeadFacts({ data, model, head }) {
  const [layer, place] = head;
  const maps = data.maps.filter((map) => map.model === model && map.values.length > layer);
  const name = headName(layer, place);
  const orders = data.curves.filter((curve) => curve.model === model && curve.ranking.includes(name));
  const several = methodsIn(orders).length > 1;
  const roles = data.roles.filter((one) => one.model === model);
  return html`<div class="facts" aria-live="polite"><h3>${name} <span class="soft">of ${model}: layer ${layer}, head ${place}</span></h3>
    <${Scroll}><table class="plain"><caption class="visually-hidden">Scores of ${name}</caption>
      <thead><tr><th scope="col">Task</th><th scope="col" class="number">Score</th><th scope="col" class="number"><abbr title="standard error">Error</abbr></th><th scope="col" class="number">Rank</th><th scope="col">Method</th><th scope="col">Fill</th></tr></thead>
      <tbody>${maps.map((map, at) => html`<tr key=${at}><th scope="row">${data.panels[map.panel]?.title ?? map.task}</th>
        <td class="number">${number(map.values[layer][place], 4)}</td><td class="number">${number(map.errors[layer][place])}</td>
        <td class="number">${ranksOf(map.values)[layer][place]} of ${count(map.values.length * map.values[0].length)}</td><td>${map.method}</td><td>${map.fill || "–"}</td></tr>`)}</tbody></table><//>
    ${roles.map((one, at) => html`<p key=${at} class="small">${data.panels[one.panel]?.title ?? one.task}: ${Object.keys(VERBS).map((role) => `${VERBS[role]} ${number(one.scores[role][layer][place], 2)} (${Math.round(100 * one.votes[role][layer][place])} % of the fits)`).join(", ")}</p>`)}
    ${orders.map((curve, at) => html`<p key=${at} class="small soft">${data.panels[curve.panel]?.title ?? curve.task}, ${several ? `${curve.method}, ` : ""}${orderWords(curve.order, orders)}: comes in as number ${curve.ranking.indexOf(name) + 1}</p>`)}
  </div>`;
}

/** The order in which heads come in: that of the curve, or of roles by their mean score. */
export function rankingOf(data, curve) {
  if (!curve) return [];
  if (curve.ranking.length || curve.kind !== "change") return curve.ranking;
  const roles = data.roles.find((one) => one.model === curve.model && one.panel === curve.panel);
  const map = roles?.scores[curve.order];
  if (!map) return [];
  return map.flatMap((row, layer) => row.map((value, head) => [value, headName(layer, head)])).sort((a, b) => b[0] - a[0]).map(([, name]) => name);
}

export function Heads({ data, panel, model, curve, k }) {
  const views = useMemo(() => {
    const own = (one) => one.panel === panel && one.model === model;
    return [...data.roles.filter(own).map(roleView), ...data.maps.filter(own).map(scoreView)];
  }, [data, panel, model]);
  const [asked, setView] = useState(null);
  const [chosen, setChosen] = useState(null);
  if (!views.length) return null;
  const view = (asked && views.find((one) => one.words === asked)) ?? views.find((one) => !one.method || one.method === curve?.method) ?? views[0];
  const ranking = rankingOf(data, curve);
  const lit = new Set(curve && curve.units === "heads" ? ranking.slice(0, k) : []);
  const verb = curve?.mode === "keep" ? "kept" : "masked";
  const cell = (layer, head) => {
    const found = view.cell(layer, head), isLit = lit.has(headName(layer, head));
    return { ...found, lit: isLit, label: `${found.label}${isLit ? `, ${verb}` : ""}` };
  };
  const name = `${data.kind}-heads-${model}`;
  const rows = () => Array.from({ length: view.layers * view.heads }, (_, at) => {
    const [layer, head] = [Math.floor(at / view.heads), at % view.heads];
    return { model, layer, head, what: cell(layer, head).label };
  });
  const here = chosen && chosen[0] < view.layers && chosen[1] < view.heads ? chosen : headOf(ranking[0] ?? "a0.h0");
  return html`<section class="card" aria-labelledby="heads-title">
    <div class="row"><h2 id="heads-title" class="grow">Heads of ${model}</h2>
      <${Saves} svg=${() => saveSvg(document.getElementById("map"), name)} csv=${() => saveCsv(rows(), name)} /></div>
    <${Picks} label="Colour" id="map-view" options=${views} value=${view} onPick=${(next) => setView(next.words)} words=${(one) => one.words} />
    <div class="beside"><div>
      <${HeadGrid} id="map" layers=${view.layers} heads=${view.heads} cell=${cell} chosen=${here} onPick=${(layer, head) => setChosen([layer, head])}
        label=${`Heads of ${model}: ${view.words}. ${lit.size} of them outlined, ${verb} at k = ${k}.`} />
      <p class="small legend">${view.legend}${lit.size > 0 && html`<span class="key"><i class="outlined"></i> among the first ${k}, ${verb}</span>`}</p>
    </div><${HeadFacts} data=${data} model=${model} head=${here} /></div>
  </section>`;
}
