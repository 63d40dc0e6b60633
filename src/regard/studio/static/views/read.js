// Read and remember: any model that does not translate gets a text, bits, a node, a picture or a clip, and shows what it attended to.

import { errorBox, fromDataAddress, modelMenu, modelsFor, pictureInput, samples, showAnswer, styled, without } from "../asking.js";
import { el } from "../explanations/parts.js";
import { TASKS as PICTURES } from "./look.js";

// The order of models in the menu: those that are typed to come first, pictures, which have a view of their own, last.
const TYPED = [
  "question_answering",
  "text_classification",
  "language_modelling",
  "algorithmic",
  "node_classification",
  "action_recognition",
];
const place = (task) => (TYPED.includes(task) ? TYPED.indexOf(task) : TYPED.length);

export const title = "Read and remember";
const CLIPS = ["action_recognition"]; // given by their number among the examples: a page may name no file
const HINTS = {
  text_classification: "Write a text. If the model reads pairs, write ||| between the two.",
  question_answering: "Write a story, sentence by sentence, and a question at its end.",
  language_modelling: "Write a beginning; the model goes on.",
  algorithmic: "Write vectors of bits, or ask for random ones: seed=7 length=10.",
  node_classification: "Write the name of a node of the graph.",
  picture_generation: "Write seed=7 for a new picture, or give one to complete.",
};
const MISSING =
  "Only translators are open. Start the studio with another model: regard studio RUN, where RUN is the folder of a trained one.";
const LEAD =
  "Texts, stories, bits, graphs, pictures and clips: choose a model and an example, or write one of your own, and see what the model attended to.";
const KNOBS = {
  language_modelling: [
    ["max_tokens", "words", 40, 1, 400, 1],
    ["temperature", "temperature", "", 0.1, 5, 0.1],
  ],
};

export function mount(root, context) {
  let state = context.state ?? {},
    models = [],
    examples = [],
    drawn = null,
    zone = null,
    run = 0,
    alive = true;
  const menu = el("div", { class: "regard-row" }),
    inputs = el("div", { class: "regard-ask" }),
    found = el("div"),
    result = el("div"),
    status = el("p", { role: "status", class: "regard-sure" });
  root.replaceChildren(
    el("h1", { text: title }),
    el("p", { text: LEAD }),
    el("div", { class: "regard-ask" }, menu, inputs, found, status),
    result,
  );
  const model = () => models.find((each) => each.name === state.model) ?? models[0];
  const cleared = () => without(state, /^(e\d+\.|l\.|layers$)/);

  async function begin() {
    await styled();
    models = (await modelsFor(context.api, result, ({ task, verb }) => task && verb !== "translate", MISSING)) ?? [];
    models.sort((one, other) => place(one.task) - place(other.task));
    if (!alive || !models.length) return undefined;
    menu.replaceChildren(
      modelMenu("model", models, model().name, (value) =>
        context.setState({ model: value, text: undefined, example: undefined, ...settings(true), ...cleared() }, {}),
      ),
    );
    return prepare();
  }

  /* The settings of the address; `away` clears them. */
  function settings(away = false) {
    return Object.fromEntries(
      Object.values(KNOBS)
        .flat()
        .map(([key]) => key)
        .filter((key) => away || (state[key] !== undefined && state[key] !== ""))
        .map((key) => [key, away ? undefined : Number(state[key])]),
    );
  }

  async function prepare() {
    const { name, task } = model();
    zone?.destroy();
    zone = null;
    drawn?.destroy();
    drawn = null;
    result.replaceChildren();
    const text = el("textarea", { id: "regard-text", rows: task === "question_answering" ? 5 : 3, dir: "auto", spellcheck: "false" });
    const go = () => context.setState({ text: text.value, example: undefined, ...cleared() }, {});
    const knobs = (KNOBS[task] ?? []).map(([key, label, otherwise, min, max, step]) => {
      const onchange = () => context.setState({ [key]: box.value || undefined }, { replace: true });
      const value = state[key] ?? otherwise;
      const box = el("input", { type: "number", min, max, step, value, placeholder: "likeliest", onchange });
      return el("label", { class: "regard-field" }, el("span", { text: label }), box);
    });
    const typed = !PICTURES.includes(task) || task === "picture_generation";
    text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) go();
    });
    text.value = state.text ?? "";
    if (PICTURES.includes(task)) zone = pictureInput((file) => ask({ picture: file }));
    inputs.replaceChildren(
      ...[
        zone,
        typed && !CLIPS.includes(task)
          ? el("label", { for: "regard-text", text: HINTS[task] ?? "Write what the model shall read." })
          : null,
        typed && !CLIPS.includes(task) ? text : null,
        typed && !CLIPS.includes(task)
          ? el(
              "div",
              { class: "regard-row" },
              ...knobs,
              el("button", { type: "button", class: "primary", text: "Ask", onclick: go }),
              el("span", { class: "regard-sure", text: "or Ctrl+Enter" }),
            )
          : null,
      ].filter(Boolean),
    );
    found.replaceChildren(el("p", { class: "regard-sure", text: "Examples are being fetched …" }));
    try {
      ({ examples } = await context.api.get(`api/examples?model=${encodeURIComponent(name)}`));
    } catch (error) {
      examples = [];
      found.replaceChildren(errorBox(error));
      return take();
    }
    if (!alive || model()?.name !== name) return undefined;
    found.replaceChildren(
      examples.length
        ? samples(examples, (place) => context.setState({ example: place, text: undefined, ...cleared() }, {}))
        : el("p", { class: "regard-sure", text: "There are no examples for this model on this machine." }),
    );
    return take();
  }

  /* Asks what the address says: an example, or a text. */
  function take() {
    const place = state.example === undefined ? -1 : Number(state.example),
      each = examples[place];
    found.firstChild?.set?.(place);
    if (each?.picture) return ask({ picture: fromDataAddress(each.picture) });
    if (each && each.example !== undefined) return ask({ example: each.example });
    const text = each?.text ?? state.text,
      box = inputs.querySelector("textarea");
    if (box && text !== undefined) box.value = text;
    return text ? ask({ text }) : undefined;
  }

  async function ask(given) {
    const number = ++run,
      { name, task } = model();
    status.textContent = "The model is asked …";
    try {
      const body = { model: name, ...given, settings: settings() };
      const answer = given.picture
        ? await context.api.upload("api/predict-picture", given.picture, { model: name, settings: JSON.stringify(settings()) })
        : await context.api.post("api/predict", body);
      if (number !== run || !alive) return;
      drawn?.destroy();
      const layered = given.text !== undefined && task !== "picture_generation";
      drawn = await showAnswer(
        result,
        answer,
        { ...context, state },
        { layers: layered ? () => context.api.post("api/layers", body) : null },
      );
      context.announce?.(answer.predictions[0]?.text ?? "");
      status.textContent = "";
    } catch (error) {
      if (number !== run || !alive) return;
      status.textContent = "";
      drawn?.destroy();
      drawn = null;
      result.replaceChildren(errorBox(error));
    }
  }

  const ready = begin();
  return {
    ready,
    async update(next) {
      const before = state;
      state = next ?? {};
      await ready;
      if (!models.length) return;
      menu.querySelector("select").value = model().name;
      const changed = [
        "text",
        "example",
        ...Object.values(KNOBS)
          .flat()
          .map(([key]) => key),
      ].some((key) => before[key] !== state[key]);
      if (before.model !== state.model) await prepare();
      else if (changed) await take();
      else drawn?.update(state);
    },
    destroy() {
      alive = false;
      zone?.destroy();
      drawn?.destroy();
      root.replaceChildren();
    },
  };
}
