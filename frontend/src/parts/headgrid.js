// The map of heads, layers upward and heads across: a grid that mouse, keyboard and screen reader can use.
import { html, useEffect, useRef, useState } from "./html.js";
import { headName } from "./format.js";

const SIDE = 22, LEFT = 30, BELOW = 18, GAP = 2;

/**
 * layers, heads   the size of the map
 * cell            (layer, head) -> {fill, label, mark, lit, pressed}: colour, what is said of the head, a letter on it,
 *                 whether it stands out, whether it is switched
 * label           what the map is, for screen readers
 * chosen          [layer, head] that is looked at
 * onPick          (layer, head, event) on click, Enter or Space
 * onPaint         ([[layer, head], ...], event): where given, dragging over heads paints them instead of picking one by one
 * onHover         (layer, head) or () when the pointer or the focus leaves
 */
export function HeadGrid({ layers, heads, cell, label, chosen, onPick, onPaint, onHover, id }) {
  const [focus, setFocus] = useState([0, 0]);
  const root = useRef(null);
  const painted = useRef(null); // the heads that the pointer has passed since it was pressed
  const [, setTrail] = useState(0); // how many those are, so that they are drawn again
  const moved = useRef(false);
  useEffect(() => {
    if (moved.current) root.current.querySelector(`[data-head="${focus.join(".")}"]`)?.focus();
    moved.current = false;
  }, [focus]);

  const isPainted = (layer, head) => painted.current?.some(([l, h]) => l === layer && h === head);
  const place = (event) => {
    const found = event.target.closest("[data-head]");
    return found && found.dataset.head.split(".").map(Number);
  };
  const step = (event) => {
    const [layer, head] = focus;
    const to = {
      ArrowUp: [layer + 1, head], ArrowDown: [layer - 1, head], ArrowRight: [layer, head + 1], ArrowLeft: [layer, head - 1],
      Home: [layer, 0], End: [layer, heads - 1], PageUp: [layers - 1, head], PageDown: [0, head],
    }[event.key];
    if (to) {
      event.preventDefault();
      moved.current = true;
      setFocus([Math.min(Math.max(to[0], 0), layers - 1), Math.min(Math.max(to[1], 0), heads - 1)]);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onPaint ? onPaint([focus], event) : onPick?.(...focus, event);
    }
  };
  const press = (event) => {
    const at = place(event);
    if (!at) return;
    setFocus(at);
    if (onPaint) {
      event.target.releasePointerCapture?.(event.pointerId); // a finger would keep all moves on the first head
      painted.current = [at];
    }
  };
  const pass = (event) => {
    const at = place(event);
    if (!at) return;
    onHover?.(...at);
    if (painted.current && !isPainted(...at)) setTrail(painted.current.push(at));
  };
  const release = (event) => {
    if (painted.current) onPaint(painted.current, event);
    painted.current = null;
  };
  useEffect(() => {
    if (!onPaint) return undefined;
    addEventListener("pointerup", release);
    return () => removeEventListener("pointerup", release);
  });

  const rows = [];
  for (let layer = layers - 1; layer >= 0; layer--) {
    const cells = [];
    for (let head = 0; head < heads; head++) {
      const { fill, label: words, mark, lit, pressed } = cell(layer, head);
      const isChosen = chosen && chosen[0] === layer && chosen[1] === head;
      const x = LEFT + head * SIDE, y = (layers - 1 - layer) * SIDE;
      cells.push(html`<g role="gridcell" data-head=${`${layer}.${head}`} key=${head} class=${`${lit ? "lit" : ""} ${isChosen || isPainted(layer, head) ? "chosen" : ""}`}
        tabindex=${focus[0] === layer && focus[1] === head ? 0 : -1} aria-selected=${String(Boolean(pressed ?? isChosen))}
        aria-label=${`${headName(layer, head)}${words ? `: ${words}` : ""}`}>
        <rect x=${x + GAP / 2} y=${y + GAP / 2} width=${SIDE - GAP} height=${SIDE - GAP} rx="3" fill=${fill} />
        ${mark ? html`<text x=${x + SIDE / 2} y=${y + SIDE / 2 + 3.5} text-anchor="middle" aria-hidden="true">${mark}</text>` : null}
      </g>`);
    }
    const every = layers > 16 ? 4 : layers > 8 ? 2 : 1;
    rows.push(html`<g role="row" key=${layer}>${cells}</g>`);
    if (layer % every === 0) rows.push(html`<text x=${LEFT - 6} y=${(layers - 1 - layer) * SIDE + SIDE / 2 + 3} text-anchor="end" aria-hidden="true">${layer}</text>`);
  }
  const across = [];
  for (let head = 0; head < heads; head += heads > 16 ? 4 : heads > 8 ? 2 : 1) {
    across.push(html`<text x=${LEFT + head * SIDE + SIDE / 2} y=${layers * SIDE + 13} text-anchor="middle" aria-hidden="true">${head}</text>`);
  }
  const width = LEFT + heads * SIDE + 2, height = layers * SIDE + BELOW;
  return html`<svg ref=${root} id=${id} class="headgrid" viewBox=${`0 0 ${width} ${height}`} style=${{ maxWidth: `${Math.round(width * (heads > 12 ? 1.5 : 2.1))}px` }}
    role="grid" aria-label=${label} aria-rowcount=${layers} aria-colcount=${heads}
    onKeyDown=${step} onPointerDown=${press} onPointerOver=${pass} onPointerLeave=${() => onHover?.()}
    onFocusIn=${(event) => { const at = place(event); if (at) onHover?.(...at); }}
    onClick=${(event) => { const at = place(event); if (at && !onPaint) onPick?.(...at, event); }}>
    ${rows}${across}
    <text x="2" y=${layers * SIDE + 13} aria-hidden="true">layer</text>
  </svg>`;
}
