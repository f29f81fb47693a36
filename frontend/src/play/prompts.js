// What the model reads: a prompt, its counterfactual, the answers; typed, or taken from a task.
import { html, useState } from "../parts/html.js";
import { post } from "./api.js";
import { visible } from "./state.js";

const SEPARATOR = "|";

/** Token ids are shown as the text that they stand for; whoever edits it writes text from then on. */
function words(value, tokens) {
  return typeof value === "string" ? value : (tokens ?? []).map((token) => token.text).join("");
}

function Prompt({ id, label, value, tokens, other, onInput, rows }) {
  const uneven = other !== undefined && tokens?.length && other !== tokens.length;
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <textarea id=${id} rows=${rows} spellcheck=${false} value=${words(value, tokens)} onInput=${(event) => onInput(event.target.value)} />
    <p class="small soft">${tokens?.length ? `${tokens.length} tokens` : "no tokens yet"}${typeof value === "string" ? "" : ", taken as token ids"}${
      uneven ? html`; <strong>the prompt has ${other}</strong>` : ""}</p>
    ${tokens?.length ? html`<p class="tokens" aria-hidden="true">${tokens.map((token) => html`<span>${visible(token.text)}</span>`)}</p>` : null}
  </div>`;
}

function Answers({ id, label, value, rows, side, onInput }) {
  const known = Object.fromEntries((rows ?? []).map((row) => [row.id, row.text]));
  const text = value.map((word) => (typeof word === "string" ? word : known[word] ?? `#${word}`)).join(SEPARATOR);
  const split = (typed) => onInput(typed === "" ? [] : typed.split(SEPARATOR).map((word) => (/^#\d+$/.test(word) ? Number(word.slice(1)) : word)));
  const tokens = (rows ?? []).filter((row) => row.side === side);
  return html`<div class="field half">
    <label for=${id}>${label}</label>
    <input id=${id} type="text" autocomplete="off" spellcheck=${false} value=${text} onInput=${(event) => split(event.target.value)} />
    <p class="small soft tokens">${tokens.slice(0, 6).map((row) => html`<span>${visible(row.text)}</span>`)}${value.length > 6 ? ` and ${value.length - 6} more` : ""}</p>
  </div>`;
}

function Tasks({ facts, change, failed }) {
  const [task, setTask] = useState(facts.tasks[0].name);
  const [seed, setSeed] = useState(0);
  const [states, setStates] = useState([]);
  const draw = () => post("pairs", { task, seed }).then((found) => found && setStates(found.states), failed);
  const take = ({ prompt, other, answers, wrongs }) => change({ prompt, other, answers, wrongs, reference: task });
  const { about } = facts.tasks.find(({ name }) => name === task);
  return html`<details class="field" id="tasks">
    <summary>Take a prompt of a task</summary>
    <div class="row">
      <label>Task <select id="task" value=${task} onChange=${(event) => { setTask(event.target.value); setStates([]); }}>
        ${facts.tasks.map(({ name }) => html`<option value=${name}>${name}</option>`)}
      </select></label>
      <label>Seed <input id="seed" type="number" min="0" max="999999" value=${seed} onInput=${(event) => setSeed(Math.max(0, Number(event.target.value) | 0))} /></label>
      <button id="draw" onClick=${draw}>Show prompts</button>
    </div>
    <p class="small soft">${about}</p>
    <ul class="examples">${states.map((state, place) => html`<li><button class="example" data-example=${place} onClick=${() => take(state)}>${state.prompt_text}</button></li>`)}</ul>
  </details>`;
}

export function PromptPanel({ facts, state, change, answer, failed }) {
  return html`<section class="card prompts" aria-labelledby="prompts-title">
    <h2 id="prompts-title">Prompt</h2>
    <${Prompt} id="prompt" label="What the model reads" rows="3" value=${state.prompt} tokens=${answer?.tokens}
      onInput=${(prompt) => change({ prompt }, "typed prompt")} />
    <${Prompt} id="other" label="Counterfactual prompt, as long in tokens" rows="3" value=${state.other} tokens=${answer?.other} other=${answer?.tokens.length}
      onInput=${(other) => change({ other }, "typed other")} />
    <div class="row answers">
      <${Answers} id="answers" label="Right next token" value=${state.answers} rows=${answer?.rows} side="answer"
        onInput=${(answers) => change({ answers }, "typed answers")} />
      <${Answers} id="wrongs" label="Wrong next token" value=${state.wrongs} rows=${answer?.rows} side="wrong"
        onInput=${(wrongs) => change({ wrongs }, "typed wrongs")} />
    </div>
    <p class="small soft">With the space in front. Several are written with ${SEPARATOR} between them; the best of each side counts.</p>
    ${facts.tasks.length ? html`<${Tasks} ...${{ facts, change, failed }} />` : null}
  </section>`;
}
