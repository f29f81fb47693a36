// Orders of heads: saved scores and roles, detectors, and methods that score heads here and now.
import { html, useRef, useState } from "../parts/html.js";
import { stream } from "./api.js";

const KINDS = { saved: "Saved results", detector: "Detectors", method: "Score here and now" };

export function Presets({ facts, everything, set, failed, onRanking }) {
  const [name, setName] = useState(facts.rankings[0]?.name ?? "");
  const [task, setTask] = useState(facts.tasks[0]?.name ?? "");
  const [found, setFound] = useState(null);
  const [place, setPlace] = useState(0);
  const [k, setK] = useState(1);
  const [progress, setProgress] = useState(null);
  const under = useRef(null);
  const source = facts.rankings.find((each) => each.name === name);
  const order = found?.orders[place];

  const choose = (ranking, which) => {
    const next = ranking.orders[which];
    setPlace(which);
    setK(next.high);
    onRanking(next);
  };
  const load = () => {
    under.current?.abort();
    const own = new AbortController();
    under.current = own;
    setProgress({ done: 0, of: 0 });
    stream("ranking", { name, task }, (event) => {
      if (!event.ranking) return setProgress(event);
      setFound(event.ranking);
      choose(event.ranking, 0);
    }, own.signal).catch(failed).finally(() => under.current === own && setProgress(null));
  };
  const cancel = () => { under.current?.abort(); setProgress(null); };
  const apply = (keep, count = k) => set(new Set(keep ? order.heads.slice(count) : order.heads.slice(0, count)), "slid");

  return html`<details id="presets"><summary>Keep or cut by a ranking</summary>
    <div class="row">
      <label>Ranking <select id="ranking" value=${name} onChange=${(event) => setName(event.target.value)}>
        ${Object.entries(KINDS).map(([kind, label]) => {
          const listed = facts.rankings.filter((each) => each.kind === kind);
          return listed.length ? html`<optgroup label=${label}>${listed.map((each) => html`<option value=${each.name}>${each.name}</option>`)}</optgroup>` : null;
        })}
      </select></label>
      ${source?.kind === "method" ? html`<label>on <select id="ranking-task" value=${task} onChange=${(event) => setTask(event.target.value)}>
        ${facts.tasks.map((each) => html`<option value=${each.name}>${each.name}</option>`)}</select></label>` : null}
      ${progress ? html`<button id="cancel-ranking" onClick=${cancel}>Cancel</button>` : html`<button id="load-ranking" onClick=${load} disabled=${!name}>Load</button>`}
    </div>
    <p class="small soft">${source?.about}</p>
    ${progress ? html`<progress id="ranking-progress" aria-label="Scoring heads" max=${progress.of || 1} value=${progress.of ? progress.done : undefined} />` : null}
    ${order && html`<div class="row">
        <label>Order <select id="order" value=${place} onChange=${(event) => choose(found, Number(event.target.value))}>
          ${found.orders.map((each, which) => html`<option value=${which}>${each.name}</option>`)}</select></label>
        <label class="grow">First <output id="k">${k}</output> of ${everything.length}
          <input id="k-slider" type="range" min="0" max=${everything.length} value=${k} onInput=${(event) => setK(Number(event.target.value))} /></label>
      </div>
      <div class="row"><button id="keep-top" onClick=${() => apply(true)}>Keep these alone</button><button id="cut-top" onClick=${() => apply(false)}>Cut these</button>
        <span class="small soft">${found.about}</span></div>`}
  </details>`;
}
