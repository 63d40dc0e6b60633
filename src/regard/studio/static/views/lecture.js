// The lecture: a guided path through attention. Each step has a live view, an equation, and three sentences.
// It asks no server: numbers are computed here, and explanations of models are read from static/lecture/data.

import { button, loadStyle, make } from "../lecture/dom.js";
import { math } from "../lecture/mathml.js";
import { STEPS } from "../lecture/steps.js";

export const title = "Lecture";
const PAUSE = 150; // milliseconds after the last movement until the address is written

export function mount(root, context) {
  loadStyle();
  let place = -1;
  let view = null;
  let waiting = null;
  let patch = {};
  const links = STEPS.map((step, i) =>
    make("a", {
      href: `#/lecture?step=${step.id}`,
      text: `${i + 1}. ${step.title}`,
      onclick(event) {
        event.preventDefault();
        go(i);
      },
    }),
  );
  const contents = make(
    "details",
    { class: "contents" },
    make("summary", { text: "All steps" }),
    make("ol", {}, ...links.map((link) => make("li", {}, link))),
  );
  const progress = make("progress", { max: String(STEPS.length), "aria-label": "progress of the lecture" });
  const count = make("span", { class: "count" });
  const heading = make("h1", { tabindex: "-1" });
  const source = make("p", { class: "source" });
  const sentences = make("div", { class: "sentences" });
  const equations = make("div", { class: "equations" });
  let live = make("div", { class: "live" });
  const back = button("Previous", () => go(place - 1), { class: "back" });
  const next = button("Next", () => go(place + 1), { class: "next" });
  const article = make("article", {}, heading, source, sentences, equations, live);
  root.replaceChildren(
    make(
      "section",
      { class: "lecture" },
      make("nav", { "aria-label": "steps of the lecture" }, back, progress, count, next, contents),
      article,
    ),
  );

  const number = (state) =>
    Math.max(
      0,
      STEPS.findIndex(({ id }) => id === state.step),
    );

  function flush() {
    clearTimeout(waiting);
    waiting = null;
    const words = patch;
    patch = {};
    if (Object.keys(words).length) context.setState(words, { replace: true });
  }
  /** The address follows the last movement: browsers refuse hundreds of addresses in a few seconds. */
  function change(words) {
    patch = { ...patch, ...words };
    clearTimeout(waiting);
    waiting = setTimeout(flush, PAUSE);
  }

  function go(to) {
    if (to < 0 || to >= STEPS.length || to === place) return;
    clearTimeout(waiting);
    waiting = null;
    patch = {};
    const cleared = Object.fromEntries(Object.keys(known).map((key) => [key, undefined]));
    show(to, {});
    context.setState({ ...cleared, step: STEPS[to].id }, { replace: false });
    context.announce(`Step ${to + 1} of ${STEPS.length}: ${STEPS[to].title}`);
  }

  let known = { ...context.state };
  function show(to, state) {
    place = to;
    const step = STEPS[to];
    view?.destroy?.();
    heading.textContent = step.title;
    source.textContent = step.source;
    sentences.replaceChildren(...step.sentences.map((text) => make("p", { text })));
    equations.replaceChildren(
      ...step.tex.flatMap((tex) => tex.split(/,? \\quad /)).map((tex) => make("span", {}, math(tex, { block: false }))),
    );
    const fresh = make("div", { class: "live" });
    live.replaceWith(fresh);
    live = fresh;
    view = step.view(live, { state, change, announce: context.announce, theme: context.theme });
    const shown = STEPS[to].id;
    live.dataset.ready = "no";
    Promise.resolve(view.ready)
      .catch((error) => {
        if (STEPS[place].id === shown) live.append(make("p", { class: "failed", text: `This view cannot be shown: ${error.message}` }));
      })
      .then(() => {
        fresh.dataset.ready = "yes";
      });
    progress.value = to + 1;
    count.textContent = `${to + 1} of ${STEPS.length}`;
    back.disabled = to === 0;
    next.disabled = to === STEPS.length - 1;
    links.forEach((link, i) => (i === to ? link.setAttribute("aria-current", "step") : link.removeAttribute("aria-current")));
    contents.open = false;
  }

  function keys(event) {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!way || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (live.contains(event.target) || event.target.closest?.("input, select, textarea, [contenteditable]")) return;
    event.preventDefault();
    go(place + way);
  }
  document.addEventListener("keydown", keys);
  show(number(context.state), known);

  return {
    update(state) {
      known = { ...state };
      if (waiting !== null) return; // newer words are on their way to the address
      const to = number(state);
      if (to !== place) show(to, state);
      else view.update?.(state);
    },
    destroy() {
      flush();
      document.removeEventListener("keydown", keys);
      view?.destroy?.();
      root.replaceChildren();
    },
  };
}
