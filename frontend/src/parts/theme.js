// Light, dark, or as the system has it; remembered where the browser lets us.
import { html, useEffect, useState } from "./html.js";

const KEY = "headcount-theme";

function remembered() {
  try {
    return localStorage.getItem(KEY) || "auto";
  } catch {
    return "auto"; // a page from disk, or in a frame, may have no storage
  }
}

export function ThemeSwitch() {
  const [theme, setTheme] = useState(remembered);
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // as above
    }
  }, [theme]);
  return html`<label class="small soft no-print">
    Colours${" "}
    <select value=${theme} onChange=${(event) => setTheme(event.target.value)}>
      <option value="auto">as the system</option>
      <option value="light">light</option>
      <option value="dark">dark</option>
    </select>
  </label>`;
}
