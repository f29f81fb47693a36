// How wide an element is, so that drawings have letters of one size on every screen.
import { useEffect, useRef, useState } from "./html.js";

export function useWidth(start = 640) {
  const ref = useRef(null);
  const [width, setWidth] = useState(start);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(Math.round(entry.contentRect.width), 240)));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return [ref, width];
}
