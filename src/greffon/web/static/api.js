// Requests to the server. A busy server is asked again; every failure is an Error with one sentence.

const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

async function ask(path, options) {
  for (let tries = 0; ; tries++) {
    let response;
    try {
      response = await fetch(path, options);
    } catch (problem) {
      if (problem.name === "AbortError") throw problem;
      throw new Error("The server does not answer. Is greffon still running in its terminal?");
    }
    if (response.status === 503 && tries < 5) {
      await pause(Number(response.headers.get("Retry-After") ?? 1));
      continue;
    }
    if (!response.ok) {
      const said = await response.json().catch(() => ({}));
      throw new Error(sentence(said.error ?? `The server answered ${response.status}.`));
    }
    return response;
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");

const posted = (question, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(question),
  signal,
});

export const get = async (path) => (await ask(path)).json();

export const post = async (name, question, signal) => (await ask(`/api/${name}`, posted(question, signal))).json();

// One object per line, as they arrive.
export async function* lines(name, question, signal) {
  const response = await ask(`/api/${name}`, posted(question, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) {
      const line = JSON.parse(part);
      if (line.error) throw new Error(sentence(line.error));
      yield line;
    }
  }
}

// A name that nobody else has; unlike randomUUID it also works where the page is reached over a local network.
export const unique = () => [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
