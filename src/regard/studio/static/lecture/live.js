// Live views of the lecture: a bench with some of its controls, or an explanation of a real model.

import { bench } from "./bench.js";
import { make } from "./dom.js";
import { resolve } from "./state.js";

/** A bench that starts from a preset; what is changed stays in the step. */
export const benchView = (preset, shown) => (root, { state, change, announce }) => {
  const own = Object.fromEntries(Object.entries(state).filter(([key]) => key !== "step"));
  const board = bench({ state: { ...own, preset }, shown: [...shown], python: false, announce, change: (patch) => change(patch) });
  root.append(board.element, make("p", { class: "more" }, playgroundLink(board, preset)));
  return { update(next) { board.update({ ...Object.fromEntries(Object.entries(next).filter(([key]) => key !== "step")), preset }); } };
};

function playgroundLink(board, preset) {
  const link = make("a", { href: `#/playground?preset=${preset}`, text: "Open this in the playground" });
  const follow = () => {
    const words = Object.entries(board.state).filter(([key, value]) => key !== "preset" && value !== resolve({ preset })[key]);
    link.href = `#/playground?${new URLSearchParams([["preset", preset], ...words])}`;
  };
  for (const kind of ["pointerenter", "focus", "click"]) link.addEventListener(kind, follow);
  return link;
}

/** A file of static/lecture/data. */
export async function load(name) {
  const answer = await fetch(new URL(`./data/${name}.json`, import.meta.url));
  if (!answer.ok) throw new Error(`the file ${name}.json of the lecture is missing`);
  return answer.json();
}
const drawings = () => import("../explanations/index.js");

/** Draws one explanation of a file; a menu chooses where there are several. */
export const explanationView = (name, { code } = {}) => (root, { state, change, announce, theme }) => {
  let drawn = null;
  let gone = false;
  const room = make("div", { class: "explanation" });
  const bar = make("div", { class: "controls" });
  const note = make("p", { class: "made" });
  root.append(bar, room, ...(code ? [make("pre", { class: "snippet" }, make("code", { text: code }))] : []), note);
  let own = { ...state };
  let content = null;

  async function show() {
    const { drawExplanation } = await drawings();
    const place = Math.min(content.explanations.length - 1, Math.max(0, Number(own.which) || 0));
    drawn?.destroy();
    if (gone) return;
    drawn = await drawExplanation(room, content.explanations[place], {
      state: own, announce, theme,
      setState(patch, how) {
        own = { ...own, ...patch };
        change(patch, how);
        drawn?.update(own);
      },
    });
    if (gone) drawn.destroy();
  }
  const ready = load(name).then(async (file) => {
    content = file;
    note.textContent = `Made by: ${file.from}`;
    if (file.explanations.length > 1) {
      file.explanations.forEach((each, i) => {
        const label = each.layer || each.question || each.title || `example ${i + 1}`;
        bar.append(make("button", {
          type: "button", text: file.explanations.some((other) => other !== each && other.title === each.title && !each.layer && !each.question) ? `example ${i + 1}` : label,
          "aria-pressed": String(i === (Number(own.which) || 0)),
          onclick(event) {
            own = { which: String(i) };
            for (const other of bar.children) other.setAttribute("aria-pressed", String(other === event.currentTarget));
            change({ which: String(i) });
            show();
          },
        }));
      });
    }
    await show();
  }).catch((error) => {
    room.replaceChildren(make("p", { class: "failed", text: `This picture cannot be shown: ${error.message}` }));
  });
  return {
    ready,
    update(next) {
      const moved = (next.which ?? "0") !== (own.which ?? "0");
      own = { ...next };
      if (!content) return;
      if (moved) show();
      else drawn?.update(own);
    },
    destroy() {
      gone = true;
      drawn?.destroy();
    },
  };
};
