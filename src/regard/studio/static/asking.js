// What the views that ask a model have in common: its menu, pictures that are handed in, answers with how sure they are.

import { drawExplanations, drawLayers, ownState, scoped, style } from "./explanations/index.js";
import { el, select } from "./explanations/parts.js";

const LOW = 0.5; // below this an answer is called unsure
const SHOWN = 5; // classes that are listed

/** A patch of the address that takes out what belongs to an earlier answer: the words of `state` that match. */
export const without = (state, pattern) =>
  Object.fromEntries(
    Object.keys(state)
      .filter((key) => pattern.test(key))
      .map((key) => [key, undefined]),
  );

/** The models of the studio that `wanted` takes, or null after saying in `room` why there are none. */
export async function modelsFor(api, room, wanted, missing) {
  const waiting = el("p", { class: "regard-facts", role: "status", text: "The models are being looked up …" });
  room.replaceChildren(waiting);
  try {
    const models = (await api.get("api/models")).models.filter(wanted);
    waiting.remove();
    if (models.length) return models;
    room.replaceChildren(el("p", { class: "regard-error", text: missing }));
  } catch (error) {
    room.replaceChildren(errorBox(error));
  }
  return null;
}

/** Loads the style that the views share with the explanations. */
export const styled = style;

/** A menu of models. */
export function modelMenu(label, models, value, change, none = "") {
  const options = models.map(({ name, title, task }) => [name, `${title ?? name} (${String(task).replaceAll("_", " ")})`]);
  return select(label, none ? [["", none], ...options] : options, value, change);
}

/** An error of the studio in full sentences: what went wrong, and what to try. */
export function errorBox(error) {
  const { got, expected, cure } = error,
    facts = [got && `got ${got}`, expected && `expected ${expected}`].filter(Boolean).join("; ");
  return el(
    "div",
    { class: "regard-error", role: "alert" },
    el("strong", { text: `${error.what ?? error.message ?? "This did not work"}${facts ? `: ${facts}` : ""}.` }),
    cure ? el("p", { text: `Try: ${cure}` }) : null,
  );
}

/** How likely an answer is, and what that number is of; null where the model does not say. */
export function certainty(prediction) {
  if (Number.isFinite(prediction.probability)) return { share: prediction.probability, of: "the answer" };
  if (Array.isArray(prediction.probabilities) && prediction.probabilities.every(Number.isFinite) && prediction.probabilities.length) {
    return { share: Math.max(...prediction.probabilities), of: "the answer" };
  }
  const words = Array.isArray(prediction.tokens) ? prediction.tokens.length + (prediction.finished === false ? 0 : 1) : 0;
  if (Number.isFinite(prediction.log_prob) && words) return { share: Math.exp(prediction.log_prob / words), of: "a word, in the mean" };
  return null;
}

/** The line that says how sure the model is; a low certainty is said in words. */
export function sureLine(prediction) {
  const sure = certainty(prediction);
  if (!sure) return null;
  const share = `${(100 * sure.share).toFixed(sure.share > 0.995 || sure.share < 0.01 ? 1 : 0)} %`;
  const low = sure.share < LOW;
  return el(
    "p",
    { class: "regard-sure", data: { share: sure.share } },
    `probability of ${sure.of}: ${share}`,
    low ? el("span", { class: "regard-unsure", text: " — the model is not sure, so do not rely on this" }) : "",
  );
}

function chances({ classes, probabilities }) {
  if (!Array.isArray(classes) || !Array.isArray(probabilities) || classes.length !== probabilities.length) return null;
  const order = [...probabilities.keys()].sort((a, b) => probabilities[b] - probabilities[a]).slice(0, SHOWN);
  return el(
    "div",
    { class: "regard-chances", role: "list", "aria-label": "the likeliest classes" },
    ...order.flatMap((place) => {
      const bar = el("i", { "aria-hidden": "true" });
      bar.style.width = `${Math.max(1, 100 * probabilities[place])}%`;
      return [
        el("span", { text: classes[place], dir: "auto" }),
        el("span", {}, bar),
        el("span", { text: probabilities[place].toFixed(3) }),
      ];
    }),
  );
}

/** Shows the answers of a model, best first, with the explanations of the best. `layers()` fetches those by layer, where there are any. */
export async function showAnswer(root, answer, options, { layers = null } = {}) {
  const [first, ...others] = answer.predictions ?? [];
  if (!first) {
    root.replaceChildren(el("p", { text: "The model gave no answer." }));
    return {
      update() {},
      destroy() {
        root.replaceChildren();
      },
    };
  }
  const room = el("div"),
    more = el("div"),
    seconds = Number.isFinite(answer.seconds) ? `answered in ${answer.seconds.toFixed(2)} s` : "";
  const facts = [seconds, answer.queue ? `${answer.queue} before it in the queue` : "", first.reference ? `right: ${first.reference}` : ""]
    .filter(Boolean)
    .join(" · ");
  root.replaceChildren(
    ...[
      el("p", { class: "regard-lead", text: "The model answers:" }),
      el("p", { class: "regard-answer", dir: "auto", data: { answer: first.text }, text: first.text || "(nothing)" }),
      sureLine(first),
      chances(first),
      others.length
        ? el(
            "details",
            {},
            el("summary", { text: `${others.length} more answers` }),
            el("ol", {}, ...others.map(({ text }) => el("li", { dir: "auto", text }))),
          )
        : null,
      facts ? el("p", { class: "regard-sure", text: facts }) : null,
      room,
      more,
    ].filter(Boolean),
  );
  let drawn = null,
    byLayer = null;
  if (first.explanations.length) drawn = await drawExplanations(room, first.explanations, options);
  else
    room.replaceChildren(
      el("p", { class: "regard-sure", text: "This answer carries no explanation: the model does not attend, or says it by layer alone." }),
    );
  if (layers) {
    const show = async () => {
      more.replaceChildren(el("p", { class: "regard-sure", role: "status", text: "The layers are being computed …" }));
      try {
        const { explanations } = await layers();
        if (!explanations.length) more.replaceChildren(el("p", { class: "regard-sure", text: "This model has no more layers to show." }));
        else byLayer = await drawLayers(more, explanations, scoped(options, "l."));
      } catch (error) {
        more.replaceChildren(errorBox(error));
      }
    };
    const button = el("button", {
      type: "button",
      text: "by layer and head",
      onclick: () => {
        options.setState?.({ layers: "yes" }, { replace: true });
        show();
      },
    });
    more.append(button);
    if (options.state?.layers === "yes") await show();
  }
  return {
    update(state) {
      drawn?.update(state);
      byLayer?.update(ownState(state, "l."));
    },
    destroy() {
      drawn?.destroy();
      byLayer?.destroy();
      root.replaceChildren();
    },
  };
}

/** Ways to hand in a picture: drop it, paste it, choose a file. `take` is given a file. The result stops listening when it is destroyed. */
export function pictureInput(take) {
  const file = el("input", { type: "file", accept: "image/*", onchange: () => file.files[0] && take(file.files[0]) });
  const zone = el(
    "div",
    { class: "regard-drop" },
    el("label", { class: "regard-row" }, el("span", { text: "Drop a picture here, paste one (Ctrl+V), or choose a file:" }), file),
  );
  const pictures = (list) => [...(list ?? [])].filter(({ type }) => type.startsWith("image/"));
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.dataset.over = "";
  });
  zone.addEventListener("dragleave", () => delete zone.dataset.over);
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    delete zone.dataset.over;
    const [first] = pictures(event.dataTransfer.files);
    if (first) take(first);
  });
  const paste = (event) => {
    const [first] = pictures(event.clipboardData?.files);
    if (first) {
      event.preventDefault();
      take(first);
    }
  };
  document.addEventListener("paste", paste);
  return Object.assign(zone, { destroy: () => document.removeEventListener("paste", paste) });
}

/** The bytes of a picture that an example carries as a data address. */
export function fromDataAddress(address) {
  const [head, body] = address.split(","),
    bytes = Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0));
  return new Blob([bytes], { type: head.slice(5).split(";")[0] });
}

/** Examples as buttons: thumbnails of pictures, beginnings of texts. `take` is given the number of one. */
export function samples(examples, take) {
  const buttons = examples.map((each, place) => {
    const right = each.target ? ` (right: ${each.target})` : "",
      label = `example ${place + 1}${right}`;
    return each.picture
      ? el(
          "button",
          { type: "button", class: "regard-pictured", title: label, "aria-label": label, onclick: () => take(place) },
          el("img", { src: each.picture, alt: "" }),
        )
      : el("button", {
          type: "button",
          title: `${each.text}${right}`,
          dir: "auto",
          text: each.text.length > 60 ? `${each.text.slice(0, 59)}…` : each.text,
          onclick: () => take(place),
        });
  });
  const heading = el("p", { class: "regard-lead", text: "Choose an example:" });
  const box = el("div", {}, heading, el("div", { class: "regard-samples", role: "group", "aria-label": "examples" }, ...buttons));
  return Object.assign(box, {
    set: (now) => buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === now))),
  });
}
