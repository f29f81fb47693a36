// What may be wider than the screen: it scrolls by itself, and where it does, the keyboard can reach it.
import { html, useEffect, useRef, useState } from "./html.js";

export function Scroll({ children, label = "Table", class: more = "" }) {
  const holder = useRef(null);
  const [over, setOver] = useState(false);
  useEffect(() => {
    const look = () => holder.current && setOver(holder.current.scrollWidth > holder.current.clientWidth || holder.current.scrollHeight > holder.current.clientHeight);
    const watch = new ResizeObserver(look);
    watch.observe(holder.current);
    if (holder.current.firstElementChild) watch.observe(holder.current.firstElementChild);
    return () => watch.disconnect();
  }, []);
  const reached = over ? { tabindex: 0, role: "region", "aria-label": label } : {};
  return html`<div ref=${holder} class=${`scroll ${more}`} ...${reached}>${children}</div>`;
}
