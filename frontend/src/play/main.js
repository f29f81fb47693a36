// The switchboard: switch heads off by hand and watch what the model says.
import "../parts/theme.css";
import "./play.css";
import { html, render } from "../parts/html.js";
import { get } from "./api.js";
import { App } from "./app.js";

const page = document.getElementById("page");
get("facts").then(
  (facts) => render(html`<${App} facts=${facts} />`, page),
  (error) => render(html`<main><p role="alert" class="warning">${error.message}</p></main>`, page),
);
