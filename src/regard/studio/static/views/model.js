// Any model: a trace as an overview of layers × heads, and one matrix whose rows come when they are asked for.
import { choice, element, errorBox, format } from "../parts.js";
import { Overview } from "../overview.js";
import { Matrix } from "../weights.js";

export const title = "Any model";
const HELP = `import torch, regard
from regard import studio

with regard.trace(model) as seen:        # any PyTorch model
    model(**inputs)
studio.show(seen)                        # opens this page
seen.save("trace.json")                  # or later: regard studio trace.json

with studio.record(model, labels=words) as calls:   # long texts: queries and keys are kept,
    model(**inputs)                                 # rows are made when they are looked at
calls.save("trace.safetensors")`;

export function mount(root, context) {
  const { api, setState, announce } = context;
  let alive = true,
    names = [],
    trace = null,
    matrix = null,
    loading = null;
  const bar = element("div", { class: "bar" }),
    notes = element("div", {}),
    body = element("div", {});
  root.append(element("h1", {}, "Any model"), bar, notes, body);

  async function load() {
    try {
      names = (await api.get("api/traces")).traces.map((line) => line.name);
    } catch (error) {
      body.replaceChildren(errorBox(error));
      return;
    }
    if (!alive) return;
    if (!names.length) {
      const show = element("button", { type: "button", class: "primary", onclick: openExample }, "Look into a shipped translator");
      body.replaceChildren(
        element(
          "div",
          { class: "panel" },
          element("p", {}, "A trace holds what all attention layers of a model looked at. None is open yet."),
          element("p", {}, show),
          element("p", {}, "This shows the trace of any PyTorch model of yours:"),
          element("pre", { class: "scroll" }, HELP),
        ),
      );
      return;
    }
    update();
  }

  async function openExample() {
    body.replaceChildren(element("p", { class: "muted", role: "status" }, "The model translates a sentence …"));
    try {
      names = [(await api.post("api/traces/example", {})).name];
    } catch (error) {
      body.replaceChildren(errorBox(error));
      return;
    }
    if (alive) update();
  }

  async function update() {
    if (!names.length) return;
    const name = names.includes(context.state.trace) ? context.state.trace : names.at(-1);
    if (trace?.name === name) {
      drawDetail();
      return;
    }
    if (loading === name) return;
    loading = name;
    body.replaceChildren(element("p", { class: "muted" }, "The trace is being read …"));
    try {
      const made = await api.get(`api/traces/${encodeURIComponent(name)}`);
      if (!alive || loading !== name) return;
      trace = made;
      loading = null;
    } catch (error) {
      loading = null;
      body.replaceChildren(errorBox(error));
      return;
    }
    drawAll();
    announce(`${name}: ${trace.layers.length} layers.`);
  }

  function chosen() {
    const { layer, head } = context.state,
      found = trace.layers.find((each) => each.name === layer) ?? trace.layers[0];
    const number = head === "mean" ? null : head !== undefined && found.heads.includes(Number(head)) ? Number(head) : found.heads[0];
    return { layer: found, head: number };
  }
  const choose = (layer, head, options) =>
    setState({ trace: trace.name, layer: layer.name, head: head === null ? "mean" : head, row: undefined }, options);

  function drawAll() {
    bar.replaceChildren(
      choice(
        "Trace",
        names.map((name) => [name, name]),
        trace.name,
        (name) => setState({ trace: name, layer: undefined, head: undefined, row: undefined }),
      ),
    );
    notes.replaceChildren(...trace.notes.map((note) => element("p", { class: "muted small" }, note)));
    const heads = Math.max(...trace.layers.map((layer) => layer.heads.length));
    overview = new Overview(trace, context, choose, chosen);
    matrix?.destroy();
    matrix = null;
    detail.replaceChildren();
    body.replaceChildren(
      element(
        "div",
        { class: "panel" },
        element("h2", {}, `${trace.layers.length} layers × ${heads} heads`),
        element(
          "p",
          { class: "muted small" },
          "A line is a layer, a square is a head: rows look at columns. Choose one; the arrow keys move.",
        ),
        cleanestLine(),
        overview.root,
      ),
      detail,
    );
    drawDetail();
  }

  /** The head whose rows put most of their weight on one place, where the server has said how clean each is. */
  function cleanestLine() {
    let best = null;
    for (const layer of trace.layers)
      layer.clean?.forEach((clean, place) => {
        if (!best || clean > best.clean) best = { layer, head: layer.heads[place], clean };
      });
    if (!best) return null;
    const name = `${best.layer.name}, head ${best.head}`;
    return element(
      "p",
      { class: "small" },
      "The cleanest head is ",
      element("button", { type: "button", class: "plain", "data-cleanest": name, onclick: () => choose(best.layer, best.head) }, name),
      `: its rows put most of their weight on one place (${format(best.clean, 2)} in the mean).`,
    );
  }

  let overview = null;
  const detail = element("div", { class: "panel" });
  function drawDetail() {
    const { layer, head } = chosen();
    overview.draw();
    if (!matrix || matrix.layer !== layer || matrix.head !== head) {
      matrix?.destroy();
      matrix = new Matrix(trace, layer, head, context);
      const heads = [["mean", "mean of all"], ...layer.heads.map((number) => [String(number), `head ${number}`])];
      detail.replaceChildren(
        element(
          "div",
          { class: "bar" },
          choice(
            "Layer",
            trace.layers.map((each) => [each.name, each.name]),
            layer.name,
            (name) =>
              choose(
                trace.layers.find((each) => each.name === name),
                head,
              ),
          ),
          choice("Head", heads, head === null ? "mean" : String(head), (value) => choose(layer, value === "mean" ? null : Number(value))),
          matrix.buttons,
        ),
        matrix.root,
      );
    }
    matrix.update();
  }

  load();
  return {
    update,
    destroy() {
      alive = false;
      matrix?.destroy();
    },
  };
}
