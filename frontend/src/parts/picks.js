// A choice among a few things: buttons where there is room, a list where there are many.
import { html } from "./html.js";

export function Picks({ label, options, value, onPick, words = String, id }) {
  if (options.length < 2) return null;
  if (options.length > 5 || options.some((option) => words(option).length > 28)) {
    return html`<label class="small">${label}${" "}
      <select id=${id} value=${options.indexOf(value)} onChange=${(event) => onPick(options[Number(event.target.value)])}>
        ${options.map((option, place) => html`<option key=${place} value=${place}>${words(option)}</option>`)}
      </select></label>`;
  }
  return html`<div class="row picks" role="group" aria-label=${label} id=${id}><span class="small soft">${label}</span>
    ${options.map((option) => html`<button key=${words(option)} type="button" class="small" aria-pressed=${String(option === value)} onClick=${() => onPick(option)}>${words(option)}</button>`)}
  </div>`;
}

/** Save the drawing of a card as SVG, its numbers as CSV. */
export function Saves({ svg, csv }) {
  return html`<span class="row saves no-print">
    ${svg && html`<button type="button" class="small" onClick=${svg}>SVG</button>`}
    ${csv && html`<button type="button" class="small" onClick=${csv}>CSV</button>`}
  </span>`;
}
