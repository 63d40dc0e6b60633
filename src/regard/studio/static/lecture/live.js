// Live views of the lecture: a bench with some of its controls, or an explanation of a real model.

import { bench } from "./bench.js";
import { make } from "./dom.js";
import { resolve } from "./state.js";

/** A bench that starts from a preset; what is changed stays in the step. */
export const benchView =
  (preset, shown) =>
  (root, { state, change, announce }) => {
    const own = Object.fromEntries(Object.entries(state).filter(([key]) => key !== "step"));
    const board = bench({ state: { ...own, preset }, shown: [...shown], python: false, announce, change: (patch) => change(patch) });
    root.append(board.element, make("p", { class: "more" }, playgroundLink(board, preset)));
    return {
      update(next) {
        board.update({ ...Object.fromEntries(Object.entries(next).filter(([key]) => key !== "step")), preset });
      },
    };
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
export const explanationView =
  (name, { code } = {}) =>
  (root, { state, change, announce, theme }) => {
    let drawn = null;
    let gone = false;
    const room = make("div", { class: "explanation" });
    const bar = make("div", { class: "controls" });
    const note = make("p", { class: "made" });
    root.append(bar, room, ...(code ? [make("pre", { class: "snippet" }, make("code", { text: code }))] : []), note);
    let own = { ...state };
    let content = null;

    let turn = 0;
    async function show() {
      turn += 1;
      const mine = turn;
      const { drawExplanation } = await drawings();
      const place = Math.min(content.explanations.length - 1, Math.max(0, Number(own.which) || 0));
      if (gone || mine !== turn) return;
      drawn?.destroy();
      drawn = null;
      const sheet = make("div"); // each drawing has an element of its own, so that an old one clears itself alone
      room.replaceChildren(sheet);
      const one = await drawExplanation(sheet, content.explanations[place], {
        state: own,
        announce,
        theme,
        setState(patch, how) {
          own = { ...own, ...patch };
          change(patch, how);
          drawn?.update(own);
        },
      });
      if (gone || mine !== turn) one.destroy();
      else drawn = one;
    }
    const ready = load(name)
      .then(async (file) => {
        content = file;
        note.textContent = `Made by: ${file.from}`;
        if (file.explanations.length > 1) {
          const names = file.explanations.map((each) => each.layer || each.question || each.title);
          const differ = new Set(names).size === names.length && names.every(Boolean);
          file.explanations.forEach((each, i) => {
            bar.append(
              make("button", {
                type: "button",
                text: differ ? names[i] : `example ${i + 1}`,
                "aria-pressed": String(i === (Number(own.which) || 0)),
                onclick(event) {
                  own = { which: String(i) };
                  for (const other of bar.children) other.setAttribute("aria-pressed", String(other === event.currentTarget));
                  change({ which: String(i) });
                  show();
                },
              }),
            );
          });
        }
        await show();
      })
      .catch((error) => {
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
