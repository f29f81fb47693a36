// A closer look at one head: where it looks, token by token, and what it writes toward the next tokens.
import { number } from "../parts/format.js";
import { html, useEffect, useRef, useState } from "../parts/html.js";
import { visible } from "./state.js";

const RUNS = { whole: "whole model", cut: "cut model", other: "counterfactual prompt", difference: "difference, whole minus counterfactual" };

/** All queries against all keys: the further right, the later the key; the further down, the later the query. */
function Pattern({ weights, label, chosen, onChoose }) {
  const canvas = useRef(null);
  const size = weights.length;
  useEffect(() => {
    const side = Math.max(Math.floor(220 / size), 2);
    const drawing = canvas.current;
    drawing.width = drawing.height = side * size;
    const style = getComputedStyle(drawing);
    const brush = drawing.getContext("2d");
    weights.forEach((row, query) => row.forEach((weight, key) => {
      brush.fillStyle = weight < 0 ? style.outlineColor : style.color;
      brush.globalAlpha = Math.min(Math.abs(weight), 1) ** 0.6;
      brush.fillRect(key * side, query * side, side, side);
    }));
    brush.globalAlpha = 1;
    brush.strokeStyle = style.outlineColor;
    brush.strokeRect(0.5, chosen * side + 0.5, side * size - 1, side - 1);
  });
  const pick = (event) => {
    const box = canvas.current.getBoundingClientRect();
    onChoose(Math.min(Math.floor(((event.clientY - box.top) / box.height) * size), size - 1));
  };
  return html`<figure class="pattern"><canvas ref=${canvas} role="img" aria-label=${`Attention of the ${label}, ${size} queries down, ${size} keys across`} onPointerMove=${pick} onClick=${pick} />
    <figcaption class="small soft">${label}</figcaption></figure>`;
}

function Keys({ run, weights, tokens, query, gated }) {
  const row = weights[query];
  const open = row.filter((weight) => weight > 0).length, shut = (key) => gated && row[key] === 0;
  return html`<p class="keys" data-run=${run}><span class="soft small">${RUNS[run]}${gated ? `: ${open} of ${row.length} keys open` : ""}</span>
    ${tokens.slice(0, query + 1).map((token, key) => html`<span class=${`key ${shut(key) ? "shut" : row[key] < 0 ? "less" : ""}`} data-weight=${row[key]}
      title=${`${row[key].toFixed(6)}${shut(key) ? ", gate shut" : ""}`} style=${{ "--weight": `${Math.round(100 * Math.min(Math.abs(row[key]), 1) ** 0.6)}%` }}>${visible(token.text)}</span>`)}</p>`;
}

function Pushes({ title, rows, id }) {
  return html`<div class="pushes"><h4>${title}</h4><table class="plain" id=${id}><thead><tr><th scope="col">token</th><th scope="col" class="number">whole</th><th scope="col" class="number">cut</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.id} data-token=${row.id}><th scope="row"><code class="token">${visible(row.text)}</code></th>
      <td class="number" data-value=${row.whole}>${number(row.whole)}</td><td class="number" data-value=${row.cut}>${number(row.cut)}</td></tr>`)}</tbody></table></div>`;
}

export function LookPanel({ look, head, answer }) {
  const [chosen, setChosen] = useState(null);
  useEffect(() => setChosen(null), [answer?.tokens.length]);
  const title = html`<h2 id="look-title">${look?.head ? html`Head <span id="looked-at">${look.head}</span>` : "A closer look"}</h2>`;
  if (!answer || !look || look.failed || look.whole.length !== answer.tokens.length) {
    return html`<section class="card look" aria-labelledby="look-title">${title}
      <p class="soft">${look?.failed ?? (head ? "looking …" : "Point at a head of the board, or go to it with the arrow keys.")}</p></section>`;
  }
  const query = Math.min(chosen ?? look.whole.length - 1, look.whole.length - 1);
  const difference = look.other && look.whole.map((row, at) => row.map((weight, key) => weight - look.other[at][key]));
  const seen = { ...look, difference }, runs = Object.keys(RUNS).filter((run) => seen[run]);
  return html`<section class="card look" aria-labelledby="look-title">${title}
    <p class="small soft">Where it looks from <strong>${visible(answer.tokens[query].text)}</strong> (token ${query + 1}). Point at a row of a drawing, or choose a token:
      ${" "}<label class="visually-hidden" for="query">Token that looks</label><select id="query" value=${query} onChange=${(event) => setChosen(Number(event.target.value))}>
        ${answer.tokens.map((token, place) => html`<option value=${place}>${place + 1} ${visible(token.text)}</option>`)}</select></p>
    <div class="look-columns">
      <div class="patterns">${runs.map((run) => html`<${Pattern} weights=${seen[run]} label=${RUNS[run]} chosen=${query} onChoose=${setChosen} />`)}</div>
      <div class="strips">${runs.map((run) => html`<${Keys} ...${{ run, weights: seen[run], query, gated: look.gated && run !== "difference" }} tokens=${run === "other" ? answer.other : answer.tokens} />`)}</div>
    </div>
    <h3>What it writes into the logits of the next token</h3>
    ${look.unread ? html`<p class="soft">${look.unread}</p>` : html`<div class="row three">
      <${Pushes} id="toward" title="toward the tokens above" rows=${look.toward} />
      <${Pushes} id="most" title="most" rows=${look.most} />
      <${Pushes} id="least" title="least" rows=${look.least} />
    </div>
    <p class="small soft">Its direct share of each logit, past all later layers, with the scale of the final norm held.</p>`}
  </section>`;
}
