// Taking it away: the address, the same in Python, a study of several prompts.
import { html, useEffect, useState } from "../parts/html.js";
import { post } from "./api.js";
import { asked } from "./state.js";

const said = (prompt) => (typeof prompt === "string" ? prompt : `token ids ${prompt.join(" ")}`);

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // a frame may not be allowed to
  }
}

export function Sharing({ facts, state, request, order, failed }) {
  const [python, setPython] = useState("");
  const [note, setNote] = useState("");
  const [shelf, setShelf] = useState([]);
  const [name, setName] = useState("my-study");
  const [saved, setSaved] = useState(null);
  useEffect(() => setPython(""), [request]);

  const copyAddress = async () => setNote((await copy(location.href)) ? "The address is copied." : "Copy the address from the browser's bar.");
  const copyPython = () => post("python", { state: request }).then(async ({ text }) => {
    setPython(text);
    setNote((await copy(text)) ? "Copied." : "Copy it from here:");
  }, failed);
  const save = () => {
    const others = shelf.filter((each) => JSON.stringify(each.prompt) !== JSON.stringify(state.prompt));
    post("study", { name, order, states: [state, ...others].map((each) => asked(each, facts.model)) }).then(setSaved, failed);
  };
  return html`<section class="card sharing" aria-labelledby="sharing-title">
    <h2 id="sharing-title">Take it away</h2>
    <div class="row"><button id="copy-address" onClick=${copyAddress}>Copy the address</button>
      <button id="copy-python" onClick=${copyPython}>Copy as Python</button><span role="status" class="small soft">${note}</span></div>
    ${python ? html`<pre id="python" tabindex="0" aria-label="The same in Python">${python}</pre>` : null}
    <h3>Save as study</h3>
    <p class="small soft">How much of these prompts do the heads carry that are on? The study keeps them as they are here, beside as many at random, and finds how few of them do.</p>
    <div class="row"><button id="shelve" onClick=${() => setShelf([...shelf, state])} disabled=${!state.prompt.length}>Put this prompt on the shelf</button>
      <span class="small">${shelf.length} on the shelf</span></div>
    ${shelf.length ? html`<ul class="shelf">${shelf.map((each, place) => html`<li><span>${said(each.prompt)}</span>
      <button aria-label=${`Take prompt ${place + 1} off the shelf`} onClick=${() => setShelf(shelf.filter((_, other) => other !== place))}>✕</button></li>`)}</ul>` : null}
    <div class="row"><label>Name <input id="study-name" type="text" maxlength="60" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
      <button id="save-study" onClick=${save}>Save</button></div>
    ${saved ? html`<p class="small" role="status">Saved in <code id="study-folder">${saved.folder}</code>. Run it: <code>${saved.command}</code></p>` : null}
  </section>`;
}
