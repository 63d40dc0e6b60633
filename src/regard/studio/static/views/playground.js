// The mechanism playground: keys, values and a query that can be dragged; any score × alignment × temperature × mask.
// It asks no server: every number is computed here.

import { bench } from "../lecture/bench.js";
import { choice, loadStyle, make } from "../lecture/dom.js";
import { PRESETS } from "../lecture/presets.js";

export const title = "Playground";
const PAUSE = 150; // milliseconds after the last movement until the address is written

export function mount(root, context) {
  loadStyle();
  const titles = Object.fromEntries(Object.entries(PRESETS).map(([name, preset]) => [name, preset.title]));
  const story = make("p", { class: "story" });
  let waiting = null;
  let patch = {};

  /** The address follows the last movement: browsers refuse hundreds of addresses in a few seconds. */
  function change(words) {
    patch = { ...patch, ...words };
    clearTimeout(waiting);
    waiting = setTimeout(flush, PAUSE);
  }
  function flush() {
    clearTimeout(waiting);
    waiting = null;
    const words = patch;
    patch = {};
    if (Object.keys(words).length) context.setState(words, { replace: true });
  }
  function choose(name) {
    clearTimeout(waiting);
    waiting = null;
    patch = {};
    const cleared = Object.fromEntries(Object.keys(board.state).map((key) => [key, undefined]));
    context.setState({ ...cleared, preset: name }, { replace: false });
    board.update({ preset: name });
    tell(name);
    context.announce(PRESETS[name].title);
  }
  /** PNG, SVG and JSON of what is shown, where the page offers them. */
  async function addSaving() {
    if (!context.saveButtons) return;
    const { svgOf } = await import("../save.js");
    page.append(
      context.saveButtons(() => `playground ${board.state.preset ?? "free"}`, {
        picture: () => svgOf(board.picture),
        json: () => board.numbers,
      }),
    );
  }
  const preset = choice("start from an example", titles, "free", choose);
  const board = bench({ state: context.state, change, announce: context.announce });
  function tell(name) {
    const known = Object.hasOwn(PRESETS, name ?? "") ? name : "free";
    preset.set(known);
    story.textContent = PRESETS[known].text;
  }

  const page = make(
    "section",
    { class: "playground" },
    make("h1", { text: "Mechanism playground" }),
    make("p", {
      class: "lead",
      text: "Attention is three steps: a score for each key, weights from the scores, and the weighted sum of the values. Drag the points, or go to one by Tab and press the arrow keys.",
    }),
    preset.box,
    story,
    board.element,
  );
  root.replaceChildren(page);
  addSaving();
  tell(context.state.preset);

  return {
    update(state) {
      if (waiting !== null) return; // newer words are on their way to the address
      board.update(state);
      tell(state.preset);
    },
    destroy() {
      flush();
      root.replaceChildren();
    },
  };
}
