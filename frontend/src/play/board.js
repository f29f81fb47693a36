// The board of heads: which are cut, what they carry instead and where, and orders to cut or keep by.
import { HeadGrid } from "../parts/headgrid.js";
import { headName, number } from "../parts/format.js";
import { shareColour, signedColour } from "../parts/colours.js";
import { html, useMemo, useState } from "../parts/html.js";
import { post } from "./api.js";
import { Presets } from "./presets.js";

const FILLS = {
  zero: "zero: nothing", mean: "mean: of a task's prompts at this position", "mean-global": "mean: of a task's prompts at all positions",
  counterfactual: "counterfactual: the other prompt's value", resample: "resample: the value of a random prompt", scale: "scale: a share of itself",
};
const OF_TASK = ["mean", "mean-global", "resample"];
const POSITIONS = { all: "every token", last: "the last prompt token", generated: "the last prompt token and what is written" };

export function Board({ facts, state, change, overview, colour, setColour, head, setHead, setOrder, failed }) {
  const [ranking, setRanking] = useState(null); // the order that was loaded last
  const cut = useMemo(() => new Set(state.cut), [state.cut]);
  const everything = useMemo(() => {
    const names = [];
    for (let layer = 0; layer < facts.layers; layer++) for (let place = 0; place < facts.heads; place++) names.push(headName(layer, place));
    return names;
  }, [facts]);
  const set = (names, mark) => change({ cut: everything.filter((name) => names.has(name)) }, mark);

  /** One or many heads: all follow the first. With Shift a whole layer. */
  const paint = (heads, event) => {
    const names = event.shiftKey ? everything.filter((name) => name.startsWith(`a${heads[0][0]}.`)) : heads.map(([layer, place]) => headName(layer, place));
    const off = !cut.has(headName(...heads[0]));
    const next = new Set(cut);
    for (const name of names) off ? next.add(name) : next.delete(name);
    set(next);
  };
  const random = () => {
    const pool = [...everything];
    for (let last = pool.length - 1; last > 0; last--) {
      const other = Math.floor(Math.random() * (last + 1));
      [pool[last], pool[other]] = [pool[other], pool[last]];
    }
    set(new Set(pool.slice(0, cut.size)));
  };

  const scores = useMemo(() => ranking && Object.fromEntries(ranking.heads.map((name, place) => [name, [ranking.values[place], place + 1]])), [ranking]);
  const largest = useMemo(() => Math.max(...(colour === "writes" ? (overview?.writes ?? [[0]]).flat() : ranking?.values ?? [0]).map(Math.abs)), [colour, overview, ranking]);
  const cell = (layer, place) => {
    const name = headName(layer, place);
    const isCut = cut.has(name);
    const said = [isCut ? "cut" : "on"];
    let fill = "var(--on)";
    if (colour === "ranking" && scores) {
      fill = signedColour(scores[name][0], largest);
      said.push(`score ${number(scores[name][0])}, number ${scores[name][1]}`);
    } else if (colour === "writes" && overview?.writes) {
      fill = signedColour(overview.writes[layer][place], largest);
      said.push(`writes ${number(overview.writes[layer][place])} toward ${overview.toward}`);
    } else if (colour === "open" && overview?.open) {
      fill = shareColour(overview.open[layer][place], "var(--c2)");
      said.push(`${number(100 * overview.open[layer][place])} % of its keys open`);
    }
    return { fill: isCut && colour === "nothing" ? "var(--off)" : fill, label: said.join(", "), mark: isCut ? "✕" : "", lit: false, pressed: isCut };
  };
  const chosen = head?.match(/\d+/g).map(Number);

  return html`<section class="card board" aria-labelledby="board-title">
    <div class="row"><h2 id="board-title" class="grow">Heads</h2>
      <p class="small"><strong id="cut-count">${cut.size}</strong> of ${everything.length} cut</p></div>
    <div class="row controls">
      <label>Cut heads carry <select id="fill" value=${state.fill} onChange=${(event) => change({ fill: event.target.value })}>
        ${facts.fills.map((kind) => html`<option value=${kind}>${FILLS[kind] ?? kind}</option>`)}
      </select></label>
      ${state.fill === "scale" ? html`<label>Share <input id="share" type="number" step="0.05" value=${state.share}
        onInput=${(event) => Number.isFinite(event.target.valueAsNumber) && change({ share: event.target.valueAsNumber }, "typed share")} /></label>` : null}
      ${OF_TASK.includes(state.fill) ? html`<label>of <select id="reference" value=${state.reference} onChange=${(event) => change({ reference: event.target.value })}>
        ${facts.tasks.map(({ name }) => html`<option value=${name}>${name}</option>`)}</select></label>` : null}
      ${state.fill === "resample" ? html`<button id="another" onClick=${() => change({ seed: state.seed + 1 }, "drawn")}>Draw another</button>` : null}
      <label>at <select id="positions" value=${state.positions} onChange=${(event) => change({ positions: event.target.value })}>
        ${Object.entries(POSITIONS).map(([name, said]) => html`<option value=${name}>${said}</option>`)}
      </select></label>
    </div>
    <div class="grid-frame"><${HeadGrid} id="heads" layers=${facts.layers} heads=${facts.heads} cell=${cell} label="Heads; a selected one is cut"
      chosen=${chosen} onPaint=${paint} onHover=${(layer, place) => layer !== undefined && setHead(headName(layer, place))} /></div>
    <p class="small soft">Click a head, or press Enter on it: cut, or back on. Drag for many, Shift for a layer. The head under the pointer is looked at below.</p>
    <div class="row">
      <button id="cut-none" onClick=${() => set(new Set())} disabled=${!cut.size}>All on</button>
      <button id="cut-all" onClick=${() => set(new Set(everything))} disabled=${cut.size === everything.length}>Cut all</button>
      <button id="cut-others" onClick=${() => set(new Set(everything.filter((name) => !cut.has(name))))}>Swap</button>
      <button id="cut-random" onClick=${random} disabled=${!cut.size} title="A control: as many heads, drawn at random">As many at random</button>
      <label>Colour <select id="colour" value=${colour} onChange=${(event) => setColour(event.target.value)}>
        <option value="nothing">cut or on</option>
        <option value="writes">what they write</option>
        ${facts.sparse ? html`<option value="open">open keys</option>` : null}
        ${ranking ? html`<option value="ranking">ranking</option>` : null}
      </select></label>
    </div>
    ${colour === "writes" && overview ? html`<p class="small soft">${overview.unread || html`Direct share of the logit of ${overview.toward}: blue adds to it, orange takes from it.`}</p>` : null}
    <${Presets} ...${{ facts, everything, set, failed, onRanking: (order) => { setRanking(order); setColour("ranking"); setOrder(order.heads); } }} />
    <${Pasted} ...${{ everything, set, failed }} />
  </section>`;
}

function Pasted({ everything, set, failed }) {
  const [text, setText] = useState("");
  const apply = (keep) => post("heads", { text }).then((found) => {
    const named = new Set(found.heads);
    set(keep ? new Set(everything.filter((name) => !named.has(name))) : named);
  }).catch(failed);
  return html`<details id="paste-list"><summary>Paste a list</summary>
    <label class="visually-hidden" for="pasted">Heads, such as a3.h5, (3, 5), 3.5 or L3H5</label>
    <textarea id="pasted" rows="2" placeholder="a3.h5, (3, 5), 3.5, L3H5" value=${text} onInput=${(event) => setText(event.target.value)} />
    <div class="row"><button id="cut-pasted" onClick=${() => apply(false)}>Cut these</button><button id="keep-pasted" onClick=${() => apply(true)}>Keep these alone</button></div>
  </details>`;
}
