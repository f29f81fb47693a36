// Any view as a file: a drawing as SVG that stands alone, a table as CSV.
const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "fill-opacity", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];

export function saveText(text, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Rows are objects with the same keys, or follow `columns`. */
export function csvText(rows, columns = Object.keys(rows[0] ?? {})) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows.map((row) => columns.map((key) => row[key]))].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

export function saveCsv(rows, name) {
  saveText(csvText(rows), `${name}.csv`, "text/csv");
}

/** Colours of other spaces as the plain ones that every program reads. */
function plainColour() {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();
  return (colour) => {
    if (colour === "none" || colour.startsWith("rgb")) return colour;
    if (!known.has(colour)) {
      brush.clearRect(0, 0, 1, 1);
      brush.fillStyle = colour;
      brush.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
      known.set(colour, `rgba(${r}, ${g}, ${b}, ${(a / 255).toFixed(3)})`);
    }
    return known.get(colour);
  };
}

/** The drawing with its styles written out, on the page's background. */
export function svgText(svg) {
  const copy = svg.cloneNode(true);
  const plain = plainColour();
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, place) => {
    const style = getComputedStyle(originals[place]);
    for (const name of DRAWN) {
      const value = style.getPropertyValue(name);
      if (value) element.setAttribute(name, name === "fill" || name === "stroke" ? plain(value) : value);
    }
    for (const name of ["class", "style", "tabindex"]) element.removeAttribute(name);
  });
  for (const extra of copy.querySelectorAll("[data-not-saved]")) extra.remove();
  const { width, height } = svg.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ width: "100%", height: "100%", fill: plain(getComputedStyle(document.body).backgroundColor) })) back.setAttribute(name, value);
  copy.prepend(back);
  return new XMLSerializer().serializeToString(copy);
}

export function saveSvg(svg, name) {
  saveText(svgText(svg), `${name}.svg`, "image/svg+xml");
}
