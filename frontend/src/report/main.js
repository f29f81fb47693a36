// The report of a study: everything that its JSON says, to be looked at.
import "../parts/theme.css";
import "./report.css";
import { html, render } from "../parts/html.js";
import { ThemeSwitch } from "../parts/theme.js";

const data = JSON.parse(document.getElementById("data").textContent);
render(html`<main><h1>${data.title}</h1><${ThemeSwitch} /></main>`, document.getElementById("page"));
