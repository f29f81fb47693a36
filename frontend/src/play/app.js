// The whole page: its state, what is asked of the server when it changes, and where things stand.
import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { ThemeSwitch } from "../parts/theme.js";
import { post, stream } from "./api.js";
import { Board } from "./board.js";
import { LookPanel } from "./look.js";
import { PromptPanel } from "./prompts.js";
import { Said } from "./said.js";
import { Sharing } from "./sharing.js";
import { asked, changed, EMPTY, fromAddress, redone, toAddress, undone } from "./state.js";

const PAUSE = 250; // ms without typing before a prompt is read
const HOVER = 90; // ms that the pointer rests on a head before it is looked at

export function App({ facts }) {
  const opened = useMemo(() => fromAddress(location.hash), []);
  const [history, setHistory] = useState({ past: [], now: opened?.state ?? { ...EMPTY, ...facts.start }, future: [], mark: null });
  const [answer, setAnswer] = useState(null);
  const [written, setWritten] = useState(null);
  const [overview, setOverview] = useState(null);
  const [look, setLook] = useState(null);
  const [head, setHead] = useState(null);
  const [order, setOrder] = useState([]); // of the ranking that was loaded last
  const [colour, setColour] = useState("nothing");
  const [error, setError] = useState("");
  const [answered, setAnswered] = useState(null); // the request that the answer, or the error, belongs to
  const [model, setModel] = useState(opened?.model || facts.model);
  const writing = useRef(null);
  const state = history.now;
  const request = useMemo(() => asked(state, model), [state, model]);
  const change = (changes, mark) => { setModel(facts.model); setHistory((before) => changed(before, { ...before.now, ...changes }, mark)); };
  const go = (how) => setHistory((before) => how(before) ?? before);
  const failed = (problem) => { if (problem.name !== "AbortError") setError(problem.message); };

  useEffect(() => {
    if (!opened && !facts.start.prompt && facts.tasks.length) {
      post("pairs", { task: facts.tasks[0].name, seed: 0 }).then(({ states: [first] }) => {
        const { prompt, other, answers, wrongs } = first;
        setHistory((before) => ({ ...before, now: { ...before.now, prompt, other, answers, wrongs } }));
      }, failed);
    }
    const keys = (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || event.target.closest("input, textarea")) return;
      event.preventDefault();
      go(event.shiftKey ? redone : undone);
    };
    const moved = () => { const found = fromAddress(location.hash); if (found) { setModel(found.model || facts.model); setHistory((before) => changed(before, found.state)); } };
    addEventListener("keydown", keys);
    addEventListener("hashchange", moved);
    return () => { removeEventListener("keydown", keys); removeEventListener("hashchange", moved); };
  }, []);

  // Every change asks anew; what is under way for the state before is dropped, here and on the server.
  useEffect(() => {
    window.history.replaceState(null, "", toAddress(state, model));
    writing.current?.abort();
    if (!state.prompt.length) { setAnswer(null); setWritten(null); return undefined; }
    const ask = async () => {
      try {
        const found = await post("answer", { state: request });
        if (!found) return;
        setError("");
        setAnswer(found);
        setAnswered(request);
        if (colour === "writes" || colour === "open") post("overview", { state: request }).then((seen) => seen && setOverview(seen), failed);
        write();
      } catch (problem) {
        setAnswered(request);
        setAnswer(null);
        setWritten(null);
        failed(problem);
      }
    };
    const timer = setTimeout(ask, history.mark?.startsWith("typed") ? PAUSE : 0);
    return () => clearTimeout(timer);
  }, [request]);

  const write = () => {
    writing.current?.abort();
    const own = new AbortController();
    writing.current = own;
    setWritten({ done: 0, of: 2 * state.steps, whole: [], cut: [], going: true });
    stream("continue", { state: request }, (event) => { if (!own.signal.aborted) setWritten({ ...event, going: event.done < event.of }); }, own.signal).catch(failed);
  };
  const cancel = () => { writing.current?.abort(); setWritten((before) => before && { ...before, going: false, cancelled: true }); };

  useEffect(() => {
    if (!answer || !(colour === "writes" || colour === "open")) return;
    post("overview", { state: request }).then((seen) => seen && setOverview(seen), failed);
  }, [colour]);

  useEffect(() => {
    if (!head || !answer) { setLook(null); return undefined; }
    const timer = setTimeout(() => post("look", { state: request, head }).then((seen) => seen && setLook(seen), (problem) => { setLook({ head, failed: problem.message }); }), HOVER);
    return () => clearTimeout(timer);
  }, [head, answer]);

  const busy = state.prompt.length > 0 && answered !== request;
  const size = `${facts.layers} layers of ${facts.heads} heads${facts.sparse ? ", sparse attention" : ""}`;
  return html`<header class="row top">
      <h1>headcount play</h1>
      <p class="grow"><strong>${facts.model}</strong> <span class="soft">${facts.class}, ${size}</span></p>
      <button id="undo" onClick=${() => go(undone)} disabled=${!history.past.length}>Undo</button>
      <button id="redo" onClick=${() => go(redone)} disabled=${!history.future.length}>Redo</button>
      <${ThemeSwitch} />
    </header>
    <main class="panels" aria-busy=${String(busy || Boolean(written?.going))}>
      <p id="error" role="alert" class=${error ? "warning wide" : "visually-hidden"}>${error}</p>
      <${PromptPanel} ...${{ facts, state, change, answer, failed }} />
      <${Board} ...${{ facts, state, change, answer, overview, colour, setColour, head, setHead, setOrder, failed }} />
      <${Said} ...${{ state, change, answer, written, busy, cancel }} />
      <${LookPanel} ...${{ look, head, answer }} />
      <${Sharing} ...${{ facts, state, request, order, failed }} />
    </main>`;
}
