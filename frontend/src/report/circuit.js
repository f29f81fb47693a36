// The circuit at the chosen k: layers upward, heads side by side, MLPs on the right; focus on a node shows what it reads
// and who reads it.
import { html, useMemo, useState } from "../parts/html.js";
import { count, number } from "../parts/format.js";
import { Picks, Saves } from "../parts/picks.js";
import { saveCsv, saveSvg } from "../parts/save.js";
import { useWidth } from "../parts/width.js";
import { orderWords } from "./state.js";

const ROW = 62, NODE = [54, 20], MARGIN = 26;
const READS = { q: ["query", "var(--query)"], k: ["key", "var(--key)"], v: ["value", "var(--value)"], "": ["MLP or logits", "var(--whole)"] };

const layerOf = (name, layers) => (name === "input" ? -1 : name === "logits" ? layers : Number(/\d+/.exec(name)[0]));
const isMlp = (name) => name.startsWith("m");

/** The most heads that stand side by side. */
function widest(edges, layers) {
  const rows = new Map();
  for (const name of new Set(edges.flatMap(([writer, node]) => [writer, node]))) {
    if (!isMlp(name)) rows.set(layerOf(name, layers), (rows.get(layerOf(name, layers)) ?? 0) + 1);
  }
  return Math.max(...rows.values(), 4);
}

/** Node -> its middle: a row a layer that has nodes; heads by their number, MLPs in a column of their own. */
function layout(edges, layers, width) {
  const nodes = [...new Set(edges.flatMap(([writer, node]) => [writer, node]))];
  const used = [...new Set(nodes.map((name) => layerOf(name, layers)))].sort((a, b) => a - b);
  const height = used.length * ROW + 2 * MARGIN, places = new Map(), column = width - MARGIN - NODE[0] / 2 - 40;
  for (const layer of used) {
    const own = nodes.filter((name) => layerOf(name, layers) === layer);
    const y = height - MARGIN - NODE[1] / 2 - used.indexOf(layer) * ROW;
    const heads = own.filter((name) => !isMlp(name)).sort((a, b) => Number(a.split(".h")[1] ?? 0) - Number(b.split(".h")[1] ?? 0));
    const room = (column - NODE[0] - MARGIN - 40) / Math.max(heads.length, 1);
    heads.forEach((name, at) => places.set(name, [MARGIN + 40 + room * (at + 0.5), y]));
    for (const name of own.filter(isMlp)) places.set(name, [column, y - ROW * 0.36]);
  }
  return { places, height };
}

function path([x1, y1], [x2, y2], role, mlp) {
  const aside = { q: -14, k: 0, v: 14 }[role] ?? 0;
  const [from, to] = [y1 - NODE[1] / 2, y2 + NODE[1] / 2];
  const bend = Math.max((from - to) * 0.4, 14), bow = (mlp ? 1 : -1) * Math.min(12 + (from - to) * 0.12, 60);
  return `M${x1.toFixed(1)} ${from.toFixed(1)} C${(x1 + bow).toFixed(1)} ${(from - bend).toFixed(1)} ${(x2 + aside + bow).toFixed(1)} ${(to + bend).toFixed(1)} ${(x2 + aside).toFixed(1)} ${to.toFixed(1)}`;
}

export const edgeWords = ([writer, node, role, score]) => `${writer} to ${node}${role ? ` (${READS[role][0]})` : ""}: ${number(score)}`;

export function CircuitDrawing({ data, circuit, k, title }) {
  const [holder, width] = useWidth(900);
  const [most, setMost] = useState(80);
  const [focus, setFocus] = useState(null);
  const [held, setHeld] = useState(null);
  const first = circuit.edges.slice(0, k);
  const drawn = useMemo(() => [...first].sort((a, b) => Math.abs(b[3]) - Math.abs(a[3])).slice(0, most), [circuit, k, most]);
  const wide = Math.max(width, widest(drawn, circuit.layers) * (NODE[0] + 8) + 200);
  const { places, height } = useMemo(() => layout(drawn, circuit.layers, wide), [drawn, wide]);
  const largest = Math.max(...drawn.map((edge) => Math.abs(edge[3])), 1e-12);
  const looked = focus ?? held;
  const touches = ([writer, node]) => looked === writer || looked === node;
  const own = looked ? drawn.filter(touches) : [];
  const name = `${data.kind}-circuit-${circuit.model}-${circuit.order}-${k}`;
  const whole = drawn.every(([, node, role]) => !node.startsWith("a") || !role);
  return html`<section class="card" aria-labelledby="circuit-title">
    <div class="row"><h2 id="circuit-title" class="grow">${title} <span class="soft">${circuit.task} on ${circuit.model}</span></h2>
      <${Saves} svg=${() => saveSvg(document.getElementById("circuit"), name)} csv=${() => saveCsv(first.map(([writer, node, role, score]) => ({ writer, node, role, score })), name)} /></div>
    <div class="row controls"><${Picks} label="Draw at most" id="most" options=${[40, 80, 160, 400]} value=${most} onPick=${setMost} />
      <span class="small soft" id="drawn">Drawn: the ${drawn.length} strongest of the first ${count(Math.min(k, circuit.total))} of ${count(circuit.total)} edges${circuit.order === "circuit" ? "" : `, ${orderWords(circuit.order)}`}${k > circuit.edges.length && circuit.order !== "circuit" ? `; the page knows the first ${circuit.edges.length}` : ""}.</span></div>
    <p class="small legend">${(whole ? [""] : ["q", "k", "v", ""]).map((role) => html`<span class="key" key=${role}><i class=${`reads-${role || "whole"}`}></i> ${role ? `read as ${READS[role][0]}` : whole ? "read whole" : "read by an MLP or the logits"}</span>`)}<span class="soft">dashed: negative; wide: strong</span></p>
    <div class="scroll" ref=${holder}><svg id="circuit" class=${`circuit ${looked ? "looking" : ""}`} viewBox=${`0 0 ${wide} ${height}`} width=${wide} height=${height} role="group" aria-label=${`Circuit of ${drawn.length} edges`}>
      ${drawn.map((edge, at) => html`<path key=${at} d=${path(places.get(edge[0]), places.get(edge[1]), edge[2], isMlp(edge[1]))} fill="none" stroke=${READS[edge[2]][1]}
        stroke-width=${(0.6 + 3.4 * (Math.abs(edge[3]) / largest)).toFixed(2)} stroke-dasharray=${edge[3] < 0 ? "4 3" : "none"} class=${touches(edge) ? "own" : ""}><title>${edgeWords(edge)}</title></path>`)}
      ${[...places].map(([node, [x, y]]) => html`<g key=${node} data-node=${node} tabindex="0" role="button" aria-pressed=${String(held === node)} aria-label=${`${node}: ${drawn.filter((edge) => edge[1] === node).length} edges in, ${drawn.filter((edge) => edge[0] === node).length} out`}
        class=${`node ${looked === node ? "chosen" : ""}`} onPointerEnter=${() => setFocus(node)} onPointerLeave=${() => setFocus(null)} onFocus=${() => setFocus(node)} onBlur=${() => setFocus(null)}
        onClick=${() => setHeld(held === node ? null : node)} onKeyDown=${(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); setHeld(held === node ? null : node); } }}>
        <rect x=${x - NODE[0] / 2} y=${y - NODE[1] / 2} width=${NODE[0]} height=${NODE[1]} rx="5" /><text x=${x} y=${y + 4} text-anchor="middle">${node}</text></g>`)}
    </svg></div>
    <div class="readout small" aria-live="polite" id="node-edges">${looked ? html`<b>${looked}</b> ${own.length ? own.map(edgeWords).join("; ") : "no edges"}` : html`<span class="soft">Point at a node, or move to it with Tab, to see its edges; click holds it.</span>`}</div>
  </section>`;
}

export function CircuitSection({ data, curve, k }) {
  const circuit = curve && data.circuits.find((one) => one.panel === curve.panel && one.model === curve.model && one.order === curve.order && (!one.method || one.method === curve.method));
  return circuit ? html`<${CircuitDrawing} data=${data} circuit=${circuit} k=${k} title=${`The first ${count(k)} edges`} />` : null;
}
