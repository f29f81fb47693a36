// Requests to the switchboard's server. The token stands in the page's address.
const TOKEN = new URLSearchParams(location.search).get("token") ?? "";
const CLIENT = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
let last = 0;

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(`/api/${path}`, { ...options, headers: { "X-Headcount-Token": TOKEN } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The switchboard does not answer. Is headcount play still running?");
  }
  return answer;
}

async function read(answer) {
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok || body.error) throw new Error(body.error ?? `The server said ${answer.status}.`);
  return body;
}

export const get = async (path) => read(await ask(path));

/** One answer; null where a newer request of this page has overtaken it. */
export async function post(path, body) {
  const found = await read(await ask(path, { method: "POST", body: JSON.stringify({ client: CLIENT, id: ++last, ...body }) }));
  return found.overtaken ? null : found;
}

/** Long work, told line by line: `tell` gets every event. Aborting `signal` cancels it on the server too. */
export async function stream(path, body, tell, signal) {
  const answer = await ask(path, { method: "POST", body: JSON.stringify({ client: CLIENT, id: ++last, ...body }), signal });
  if (!answer.ok) await read(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const event = JSON.parse(line);
      if (event.error) throw new Error(event.error);
      tell(event);
    }
  }
}
