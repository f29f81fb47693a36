// What the model says, whole beside cut: next tokens, the answer's metric, and what it writes on.
import { number } from "../parts/format.js";
import { html } from "../parts/html.js";
import { visible } from "./state.js";

const METRICS = { logit_diff: "Logit difference, right minus wrong", log_prob: "Log-probability of the right token" };
const percent = (share) => `${(100 * share).toFixed(2)} %`;

function Share({ value, side }) {
  return html`<td class="share"><span class=${`bar ${side}`} style=${{ width: `${Math.max(100 * value, 0.4)}%` }} aria-hidden="true"></span>
    <span class="number" data-value=${value} title=${value}>${percent(value)}</span></td>`;
}

function Metric({ answer }) {
  if (!answer.metric) return html`<p class="small soft">With a right answer (and a wrong one) beside the prompt, its metric stands here.</p>`;
  const explained = answer.explained === null ? null : html` That is <strong id="explained" data-value=${answer.explained}>${number(100 * answer.explained)} %</strong> of what all heads together do.`;
  return html`<div class="metric"><p>${METRICS[answer.metric]}:${" "}<strong id="metric-whole" data-value=${answer.whole}>${number(answer.whole)}</strong> whole,${" "}<strong id="metric-cut" data-value=${answer.cut}>${number(answer.cut)}</strong> cut, <span data-value=${answer.none}>${number(answer.none)}</span> with every head cut.${explained}</p></div>`;
}

export function Said({ state, change, answer, written, busy, cancel }) {
  return html`<section class="card said" aria-labelledby="said-title">
    <h2 id="said-title">What it says next</h2>
    ${answer ? html`
      <${Metric} answer=${answer} />
      <div class="scroll" tabindex="0" role="group" aria-label="Next tokens"><table class="plain" id="next-tokens">
        <thead><tr><th scope="col">next token</th><th scope="col">whole model</th><th scope="col">cut model</th></tr></thead>
        <tbody>${answer.rows.map((row) => html`<tr key=${row.id} data-token=${row.id}>
          <th scope="row"><code class="token">${visible(row.text)}</code>${row.side ? html` <span class=${`side ${row.side}`}>${row.side === "answer" ? "right" : "wrong"}</span>` : null}</th>
          <${Share} value=${row.whole} side="whole" /><${Share} value=${row.cut} side="cut" /></tr>`)}</tbody>
      </table></div>
      <p class="small soft">KL(whole ‖ cut) <span id="kl" data-value=${answer.kl}>${number(answer.kl)}</span> nats. ${
        answer.heads ? `Layers not run again: ${answer.skipped_layers}; tokens: ${answer.skipped_tokens}.` : "No head is cut."}</p>
      <h3>What it writes on</h3>
      <${Written} ...${{ state, change, written, cancel }} />`
      : html`<p class="soft">${busy ? "reading …" : "Write a prompt."}</p>`}
  </section>`;
}

function Written({ state, change, written, cancel }) {
  const line = (name, tokens, other) => html`<p class="written" id=${`written-${name}`}><span class="soft small">${name}</span>
    ${tokens.map((text, place) => html`<span class=${other && other[place] !== text ? "differs" : ""}>${text}</span>`)}</p>`;
  return html`<div class="row">
      <label>Tokens <input id="steps" type="number" min="0" max="64" value=${state.steps}
        onInput=${(event) => Number.isInteger(event.target.valueAsNumber) && change({ steps: Math.min(Math.max(event.target.valueAsNumber, 0), 64) }, "typed steps")} /></label>
      ${written?.going ? html`<progress id="writing" aria-label="Writing" max=${written.of || 1} value=${written.done} /><button id="cancel-writing" onClick=${cancel}>Cancel</button>` : null}
      ${written?.cancelled ? html`<span class="small soft">cancelled</span>` : null}
    </div>
    ${written ? html`${line("whole", written.whole)}${line("cut", written.cut, written.whole)}` : null}`;
}
