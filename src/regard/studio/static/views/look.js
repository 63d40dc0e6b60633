// Look: a picture goes in, and every word or glimpse shows where it looked; two models can stand side by side.

import { errorBox, fromDataAddress, modelMenu, modelsFor, pictureInput, samples, showAnswer, styled, without } from "../asking.js";
import { digitPad } from "../digit.js";
import { ownState, scoped } from "../explanations/index.js";
import { el } from "../explanations/parts.js";

export const title = "Look";
export const TASKS = ["captioning", "classification", "word_reading", "word_finding", "picture_generation"];
const WAIT = 450; // milliseconds after the last stroke of a digit
const FIRST = "Choose an example, or give a picture.";
const MISSING =
  "No model here takes pictures. Start the studio with one: regard studio RUN, where RUN is the folder of a trained captioner or classifier.";
const LEAD =
  "Give a picture to a model, and see where it looked. A second model can look at the same picture beside it, such as soft beside hard attention.";

export function mount(root, context) {
  let state = context.state ?? {},
    models = [],
    examples = [],
    picture = null,
    name = "",
    run = 0,
    timer = 0,
    alive = true;
  const sides = [
    { key: "model", prefix: "a." },
    { key: "second", prefix: "b." },
  ];
  const menus = el("div", { class: "regard-row" }),
    found = el("div"),
    results = el("div", { class: "regard-sides" }),
    status = el("p", { role: "status", class: "regard-sure", text: FIRST });
  const preview = el("img", { class: "regard-small", alt: "the picture that was given", hidden: true });
  const zone = pictureInput((file) => give(file, file.name || "your picture", undefined));
  const ask = el("button", { type: "button", class: "primary", text: "Ask", onclick: () => askAll() });
  const drawing = digitPad(el, (small, ink) => {
    clearTimeout(timer);
    if (ink) timer = setTimeout(() => small.toBlob((blob) => alive && give(blob, "your digit", undefined)), WAIT);
  });
  const byHand = el(
    "details",
    {},
    el("summary", { text: "or draw a digit by hand" }),
    el(
      "div",
      { class: "regard-row" },
      drawing.pad,
      el(
        "div",
        {},
        el("p", { class: "regard-sure", text: "The model gets this: cropped and centred as the digits of MNIST were." }),
        drawing.small,
        el("p", {}, el("button", { type: "button", text: "Clear", onclick: drawing.clear })),
      ),
    ),
  );
  byHand.hidden = true;
  root.replaceChildren(
    el("h1", { text: title }),
    el("p", { text: LEAD }),
    el(
      "div",
      { class: "regard-beside" },
      el("div", { class: "regard-ask" }, menus, found, zone, byHand, el("div", { class: "regard-row" }, preview, ask, status)),
      results,
    ),
  );
  ask.disabled = true;

  const chosen = (key) => models.find((each) => each.name === state[key]) ?? (key === "model" ? models[0] : undefined);

  async function begin() {
    await styled();
    models = (await modelsFor(context.api, found, ({ task }) => TASKS.includes(task), MISSING)) ?? [];
    if (!alive || !models.length) return undefined;
    const change = (patch) => context.setState({ ...patch, ...cleared() }, {});
    menus.replaceChildren(
      modelMenu("model", models, chosen("model").name, (value) => change({ model: value, example: undefined })),
      ...(models.length > 1
        ? [modelMenu("beside it", models, state.second ?? "", (value) => change({ second: value || undefined }), "none")]
        : []),
    );
    return loadExamples();
  }

  /* What belongs to the explanations of an earlier answer leaves the address. */
  const cleared = () => without(state, /^[ab]\./);

  async function loadExamples() {
    const model = chosen("model");
    byHand.hidden = !sides.some(({ key }) => chosen(key)?.task === "classification");
    found.replaceChildren(el("p", { class: "regard-sure", text: "Examples are being fetched …" }));
    try {
      ({ examples } = await context.api.get(`api/examples?model=${encodeURIComponent(model.name)}`));
    } catch (error) {
      examples = [];
      return found.replaceChildren(errorBox(error));
    }
    if (!alive || model !== chosen("model")) return undefined;
    const offered = examples.filter((each) => each.picture || model.task === "picture_generation");
    const box = samples(offered, (place) => context.setState({ example: place, ...cleared() }, {}));
    found.replaceChildren(
      offered.length
        ? box
        : el("p", { class: "regard-sure", text: "There are no examples for this model on this machine: give it a picture of your own." }),
    );
    examples = offered;
    return take();
  }

  /* The example that the address names. */
  function take() {
    const place = state.example === undefined ? -1 : Number(state.example);
    found.firstChild?.set?.(place);
    if (!examples[place]) return picture ? askAll() : undefined;
    const { picture: address, text } = examples[place];
    return address ? give(fromDataAddress(address), `example ${place + 1}`, place) : askAll({ text });
  }

  function give(blob, called, place) {
    if (!blob.type.startsWith("image/")) {
      results.replaceChildren(
        errorBox({
          what: "this file is not a picture",
          got: blob.type || "a file of an unknown kind",
          cure: "give a PNG, a JPEG or another picture",
        }),
      );
      return undefined;
    }
    picture = blob;
    name = called;
    if (preview.src) URL.revokeObjectURL(preview.src);
    preview.src = URL.createObjectURL(blob);
    preview.hidden = false;
    ask.disabled = false;
    if (place === undefined && state.example !== undefined) context.setState({ example: undefined, ...cleared() }, { replace: true });
    return askAll();
  }

  async function askAll(given = null) {
    if (!picture && !given) return;
    const number = ++run,
      asked = sides.filter(({ key }) => chosen(key));
    status.textContent = `${name || "The model"}: being looked at …`;
    ask.disabled = true;
    const rooms = asked.map(({ key }) => {
      const body = el("div");
      return { body, box: el("section", { "aria-label": chosen(key).name }, el("h2", { text: chosen(key).name }), body) };
    });
    sides.forEach((side) => {
      side.drawn?.destroy();
      side.drawn = null;
    });
    results.replaceChildren(...rooms.map(({ box }) => box));
    for (const [place, side] of asked.entries()) {
      // one after the other: the studio has one queue
      const model = chosen(side.key),
        options = scoped({ ...context, state }, side.prefix);
      try {
        const answer = given
          ? await context.api.post("api/predict", { model: model.name, ...given, settings: {} })
          : await context.api.upload("api/predict-picture", picture, { model: model.name, settings: "{}" });
        if (number !== run || !alive) return;
        side.drawn = await showAnswer(rooms[place].body, answer, options);
        context.announce?.(`${model.name}: ${answer.predictions[0]?.text ?? ""}`);
      } catch (error) {
        if (number !== run || !alive) return;
        rooms[place].body.replaceChildren(errorBox(error));
      }
    }
    status.textContent = picture && !given ? name : "";
    ask.disabled = !picture;
  }

  const ready = begin();
  return {
    ready,
    async update(next) {
      const before = state;
      state = next ?? {};
      await ready;
      if (!models.length) return;
      menus.querySelectorAll("select").forEach((menu, place) => {
        menu.value = chosen(sides[place].key)?.name ?? "";
      });
      if (before.model !== state.model) await loadExamples();
      else if (before.example !== state.example && state.example !== undefined) await take();
      else if (before.second !== state.second) {
        byHand.hidden = !sides.some(({ key }) => chosen(key)?.task === "classification");
        await askAll();
      } else sides.forEach(({ drawn, prefix }) => drawn?.update(ownState(state, prefix)));
    },
    destroy() {
      alive = false;
      clearTimeout(timer);
      zone.destroy();
      sides.forEach(({ drawn }) => drawn?.destroy());
      root.replaceChildren();
    },
  };
}
