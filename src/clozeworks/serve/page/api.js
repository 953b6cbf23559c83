// Asks the server: JSON, streams, and events that go on by themselves.

const BASE = new URL(".", document.baseURI);
const KEY = "clozeworks.key";

/** What the server refused, in its own sentence. */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Nobody answered. */
export class Away extends Refused {}

/** What the page is told while the server is asked; app.js sets it. */
export const told = {
  away: () => {}, // nobody answers
  back: () => {}, // somebody answers again
  key: async () => null, // a key is needed: a promise of one, or of null
  sentence: (name) => name, // what is said when the server says nothing
};

let isAway = false;

function noteAway() {
  if (isAway) return;
  isAway = true;
  told.away();
  const again = async () => {
    try {
      await fetch(new URL("health", BASE), { cache: "no-store" });
      noteBack();
    } catch {
      setTimeout(again, 1000);
    }
  };
  setTimeout(again, 1000);
}

function noteBack() {
  if (!isAway) return;
  isAway = false;
  told.back();
}

function key(fresh) {
  try {
    if (fresh !== undefined) sessionStorage.setItem(KEY, fresh);
    return sessionStorage.getItem(KEY);
  } catch {
    return fresh ?? null;
  }
}

async function request(path, body, { signal, method, headers } = {}) {
  for (;;) {
    const own = { accept: "application/json", ...headers };
    if (body !== undefined) own["content-type"] = "application/json";
    if (key()) own.authorization = `Bearer ${key()}`;
    let response;
    try {
      response = await fetch(new URL(path.replace(/^\//, ""), BASE), {
        method: method ?? (body === undefined ? "GET" : "POST"),
        headers: own, signal, cache: "no-store",
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      noteAway();
      throw new Away(told.sentence("away"), 0);
    }
    noteBack();
    if (response.ok) return response;
    if (response.status === 401) {
      const given = await told.key();
      if (given) {
        key(given);
        continue;
      }
    }
    const content = await response.json().catch(() => null);
    throw new Refused(content?.error?.message ?? `${told.sentence("refused")} (${response.status})`, response.status);
  }
}

/** The answer to a question: GET without a body, POST with one. */
export async function ask(path, body, options) {
  const response = await request(path, body, options);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Away(told.sentence("away"), 0);
  }
}

/** What the server says as plain text, such as /metrics. */
export async function text(path, options) {
  return (await request(path, undefined, options)).text();
}

/** The events of an answer that comes piece by piece: {id, event, data}, data being JSON. */
export async function* stream(path, body, { signal, headers } = {}) {
  const response = await request(path, body, { signal, headers: { accept: "text/event-stream", ...headers } });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      let part;
      try {
        part = await reader.read();
      } catch (error) {
        if (error.name === "AbortError" || signal?.aborted) throw error;
        noteAway();
        throw new Away(told.sentence("away"), 0);
      }
      if (part.done) return;
      rest += part.value;
      const blocks = rest.split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const found = { id: null, event: "message", data: "" };
        for (const line of block.split(/\r?\n/)) {
          const [, name, value] = /^([a-z]*):? ?(.*)$/s.exec(line) ?? [];
          if (name === "data") found.data += (found.data && "\n") + value;
          else if (name) found[name] = value;
        }
        if (!found.data || found.data === "[DONE]") continue;
        found.data = JSON.parse(found.data);
        if (found.data?.error) throw new Refused(found.data.error.message, found.data.error.status);
        yield found;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Follows events until the signal says stop: asked again, from the last id, whenever they end. */
export async function follow(path, take, { signal, lost } = {}) {
  let last = null;
  let wait = 500;
  while (!signal.aborted) {
    try {
      const headers = last === null ? {} : { "last-event-id": last };
      for await (const event of stream(path, undefined, { signal, headers })) {
        wait = 500;
        if (event.id !== null) last = event.id;
        take(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Away) && error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
      lost?.(error);
    }
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(2 * wait, 10_000);
  }
}
