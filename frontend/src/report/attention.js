// Attention edges of one prompt: what stands at a token on the left reaches a token on the right through a head.
import { html, useState } from "../parts/html.js";
import { MODEL_COLOURS } from "../parts/colours.js";
import { headName, number } from "../parts/format.js";
import { Saves } from "../parts/picks.js";
import { saveCsv, saveSvg } from "../parts/save.js";
import { useWidth } from "../parts/width.js";

const ROW = 20, TOP = 26;
const visible = (token) => token.replaceAll("\n", "⏎").replace(/^ /, "·") || "∅";

export function AttentionEdges({ data, curve, k, prompt }) {
  const [holder, width] = useWidth(760);
  const [head, setHead] = useState("");
  const [focus, setFocus] = useState(null);
  const edges = curve?.attention?.[prompt];
  const tokens = curve?.asked !== null && curve?.asked !== undefined ? data.prompts[curve.asked].prompts[prompt]?.tokens : null;
  if (!edges || !tokens?.length) return null;
  const first = edges.slice(0, k);
  const heads = [...new Set(first.map(([layer, at]) => headName(layer, at)))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const shown = first.filter(([layer, at]) => !head || headName(layer, at) === head);
  const layers = [...new Set(first.map(([layer]) => layer))].sort((a, b) => a - b);
  const largest = Math.max(...first.map((edge) => Math.abs(edge[4])), 1e-12);
  const wide = Math.min(Math.max(width, 420), 900), height = TOP + tokens.length * ROW + 10;
  const [left, right] = [wide * 0.34, wide * 0.66];
  const y = (at) => TOP + at * ROW + ROW / 2;
  const words = ([layer, at, query, key, score]) => `${headName(layer, at)}: from "${tokens[key]}" (${key}) to "${tokens[query]}" (${query}), ${number(score)}`;
  const touches = ([, , query, key]) => focus && (focus[0] === "key" ? key === focus[1] : query === focus[1]);
  const name = `${data.kind}-prompt-${prompt + 1}-k-${k}`;
  const own = focus ? shown.filter(touches) : [];
  const side = (which, x, anchor) => tokens.map((token, at) => html`<g key=${`${which}${at}`} tabindex="0" role="button" data-token=${`${which}-${at}`} aria-label=${`${which === "key" ? "From" : "To"} token ${at}, ${token}: ${shown.filter((edge) => edge[which === "key" ? 3 : 2] === at).length} edges`}
    class=${`token ${focus && focus[0] === which && focus[1] === at ? "chosen" : ""}`} onPointerEnter=${() => setFocus([which, at])} onPointerLeave=${() => setFocus(null)} onFocus=${() => setFocus([which, at])} onBlur=${() => setFocus(null)}>
    <rect x=${anchor === "end" ? 0 : right} y=${TOP + at * ROW} width=${anchor === "end" ? left : wide - right} height=${ROW} fill="transparent" /><text x=${x} y=${y(at) + 4} text-anchor=${anchor}>${visible(token)}</text></g>`);
  return html`<section class="card" aria-labelledby="attention-title">
    <div class="row"><h2 id="attention-title" class="grow">Attention edges of prompt ${prompt + 1} <span class="soft">on ${curve.model}</span></h2>
      <${Saves} svg=${() => saveSvg(document.getElementById("attention"), name)} csv=${() => saveCsv(shown.map(([layer, at, query, key, score]) => ({ layer, head: at, query, key, from: tokens[key], to: tokens[query], score })), name)} /></div>
    <div class="row controls"><label class="small">Head${" "}<select id="attention-head" value=${head} onChange=${(event) => setHead(event.target.value)}><option value="">all (${heads.length})</option>${heads.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <span class="small soft" id="attention-drawn">Drawn: ${shown.length} edges, of the first ${Math.min(k, edges.length)}${k > edges.length ? ` that the page knows of the first ${k}` : ""}.</span></div>
    <p class="small legend">${layers.map((layer) => html`<span class="key" key=${layer}><i class=${`c${layer % MODEL_COLOURS.length}`}></i> layer ${layer}</span>`)}</p>
    <div class="scroll" ref=${holder}><svg id="attention" class=${`attention ${focus ? "looking" : ""}`} viewBox=${`0 0 ${wide} ${height}`} width=${wide} height=${height} role="group" aria-label=${`${shown.length} attention edges between ${tokens.length} tokens`}>
      <text x=${left} y="14" text-anchor="end" class="name">from (key)</text><text x=${right} y="14" class="name">to (query)</text>
      ${shown.map((edge, at) => html`<path key=${at} class=${touches(edge) ? "own" : ""} d=${`M${left + 4} ${y(edge[3])} C${left + 90} ${y(edge[3])} ${right - 90} ${y(edge[2])} ${right - 4} ${y(edge[2])}`} fill="none" stroke=${MODEL_COLOURS[edge[0] % MODEL_COLOURS.length]}
        stroke-width=${(0.7 + 3.3 * (Math.abs(edge[4]) / largest)).toFixed(2)} stroke-dasharray=${edge[4] < 0 ? "4 3" : "none"}><title>${words(edge)}</title></path>`)}
      ${side("key", left - 2, "end")}${side("query", right + 2, "start")}
    </svg></div>
    <div class="readout small" aria-live="polite">${focus ? (own.length ? own.map(words).join("; ") : "No edges here.") : html`<span class="soft">Point at a token, or move to it with Tab, to see its edges. Wide: strong.</span>`}</div>
  </section>`;
}
