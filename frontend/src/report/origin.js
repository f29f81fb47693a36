// Where the result comes from, how to run it again, how to cite it, and the files beside it.
import { html, useState } from "../parts/html.js";
import { linkTo } from "../parts/links.js";
import { Scroll } from "../parts/scroll.js";

function Copied({ text, label }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<div class="copied"><pre tabindex="0" aria-label=${label}>${text}</pre><button type="button" class="small no-print" onClick=${copy} aria-label=${`Copy: ${label}`}>${done ? "Copied" : "Copy"}</button></div>`;
}

const Files = ({ paths }) => html`<ul class="files small">${paths.map((path) => html`<li key=${path}><a href=${linkTo(path)}>${path}</a></li>`)}</ul>`;

export function Origin({ origin, kind }) {
  const deep = origin.files.filter((path) => path.includes("/"));
  return html`<section class="card" aria-labelledby="origin-title"><h2 id="origin-title">Where this comes from</h2>
    <h3>Run it again</h3><p class="small soft">${kind === "sparsify" ? "The text files are named as they were; add where they lie." : "In the folder of this report; study.toml has every setting written out."}</p>
    <${Copied} text=${origin.command} label="Command" />
    ${origin.toml && html`<details><summary>study.toml</summary><${Copied} text=${origin.toml} label="study.toml" /></details>`}
    <h3>Cite</h3><${Copied} text=${origin.cite} label="BibTeX" />
    ${origin.models.length > 0 && html`<h3>Models</h3><${Scroll}><table class="plain"><tbody>${origin.models.map((model, at) => html`<tr key=${at}><th scope="row">${model.name}</th><td>${Object.entries(model).filter(([key]) => key !== "name").map(([key, value]) => `${key} ${value}`).join(", ")}</td></tr>`)}</tbody></table><//>`}
    <h3>Versions</h3><p class="small">${Object.entries(origin.versions).map(([name, version]) => `${name} ${version}`).join(" · ")}</p>
    ${origin.steps.length > 0 && html`<details><summary>${origin.steps.length} steps</summary><ul class="small">${origin.steps.map((step, at) => html`<li key=${at}>${step}</li>`)}</ul></details>`}
    <h3>Files</h3><${Files} paths=${["report.json", ...origin.files.filter((path) => !path.includes("/"))]} />
    ${deep.length > 0 && html`<details><summary>${deep.length} files in folders</summary><${Files} paths=${deep} /></details>`}
  </section>`;
}
