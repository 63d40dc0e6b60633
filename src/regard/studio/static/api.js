// How the page asks its server, or, on a web space without one, the files that an export wrote.

export class StudioError extends Error {
  // an error of the studio: what went wrong, what was got and expected, and what to try
  constructor(fields, status) {
    super(fields.what);
    Object.assign(this, { what: null, got: null, expected: null, cure: null }, fields);
    this.status = status;
  }
  get sentence() {
    const facts = [this.got && `got ${this.got}`, this.expected && `expected ${this.expected}`].filter(Boolean);
    return this.what + (facts.length ? `: ${facts.join("; ")}` : "") + ".";
  }
}

const unreachable = () =>
  new StudioError({ what: "the studio does not answer", cure: "look whether `regard studio` still runs in its terminal" }, 0);

async function failed(response) {
  try {
    const { error } = await response.json();
    if (error) return new StudioError(error, response.status);
  } catch {
    /* an answer without JSON: the sentence below */
  }
  return new StudioError({ what: "the studio could not do this", got: `status ${response.status}`, cure: "try it again" }, response.status);
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
  if (!response.ok) throw await failed(response);
  return response;
}

const asJson = (json) => ({ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(json) });

export function live() {
  return {
    async get(path, options = {}) {
      return (await ask(path, options)).json();
    },
    async post(path, json, options = {}) {
      return (await ask(path, { ...asJson(json), ...options })).json();
    },
    async upload(path, blob, fields = {}, options = {}) {
      const form = new FormData();
      for (const [name, value] of Object.entries(fields)) form.append(name, typeof value === "string" ? value : JSON.stringify(value));
      form.append("file", blob, blob.name || "picture");
      return (await ask(path, { method: "POST", body: form, ...options })).json();
    },
    async stream(path, json, onEvent, { signal } = {}) {
      const response = await ask(path, { ...asJson(json), signal });
      const reader = response.body.getReader(),
        decoder = new TextDecoder();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read().catch((error) => {
          throw error.name === "AbortError" ? error : unreachable();
        });
        const lines = (rest + decoder.decode(value ?? new Uint8Array(), { stream: !done })).split("\n");
        rest = lines.pop();
        for (const line of lines) if (line.trim()) emit(JSON.parse(line), onEvent);
        if (done) return;
      }
    },
  };
}

function emit(event, onEvent) {
  if (event.kind === "error") throw new StudioError(event.error, 400);
  onEvent(event);
}

// ── files in place of a server ──────────────────────────────────────────────────────────────────────────────────────

// The same text in Python: regard.studio.export.key. Keys in order, without spaces.
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value && typeof value === "object") {
    return `{${Object.keys(value)
      .sort()
      .filter((key) => value[key] !== undefined)
      .map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`)
      .join(",")}}`;
  }
  return JSON.stringify(value);
}

export function fileKey(path, json) {
  return hashed(new TextEncoder().encode(`${path} ${canonical(json ?? {})}`));
}

export function hashed(bytes) {
  // two simple hashes of 32 bits: the names of files need no secrecy
  let first = 0x811c9dc5,
    second = 0x9e3779b9;
  for (const byte of bytes) {
    first = Math.imul(first ^ byte, 0x01000193) >>> 0;
    second = Math.imul(second ^ byte, 0x85ebca6b) >>> 0;
  }
  return first.toString(16).padStart(8, "0") + second.toString(16).padStart(8, "0");
}

export function fromFiles(index) {
  const known = new Set(index.answers);
  async function find(path, json) {
    const { settings, ...rest } = json ?? {}; // an example was prepared with the settings of the page, or with none
    const key = [fileKey(path, json), fileKey(path, rest)].find((each) => known.has(each));
    if (!key) {
      throw new StudioError(
        {
          what: "this page has prepared examples only",
          got: "another input",
          cure: "choose one of the examples, or run `regard studio` on your own machine",
        },
        404,
      );
    }
    return (await ask(`answers/${key}.json`)).json();
  }
  return {
    get: (path) => find(path),
    post: (path, json) => find(path, json),
    upload: async (path, blob, fields) => find(path, { ...fields, bytes: hashed(new Uint8Array(await blob.arrayBuffer())) }),
    async stream(path, json, onEvent, { signal } = {}) {
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      for (const event of await find(path, json)) {
        if (signal?.aborted) throw new DOMException("stopped", "AbortError");
        if (!calm) await new Promise((next) => setTimeout(next, 60));
        emit(event, onEvent);
      }
    },
  };
}
