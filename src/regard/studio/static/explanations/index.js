// Draws explanations of any kind: each has a file of its own, which is fetched when it is first drawn.

import { el, select } from "./parts.js";

let styled = null;

/** Loads the style of explanations once. */
export function style() {
  styled ??= new Promise((done) => {
    const link = el("link", { rel: "stylesheet", href: new URL("./explanations.css", import.meta.url).href, onload: done, onerror: done });
    document.head.append(link);
  });
  return styled;
}

/** Draws what `Explanation.to_json()` gives in Python. `options` are `{state, setState, announce, theme}`. */
export async function drawExplanation(root, explanation, options = {}) {
  const { format, kind } = explanation ?? {};
  if (format !== "regard.explanation" || !/^[a-z_]+$/.test(kind))
    throw new Error("This is not an explanation: its format is not regard.explanation.");
  const [file] = await Promise.all([import(`./${kind}.js`).catch(() => import("./fields.js")), style()]);
  const drawn = file.draw(root, explanation, options);
  await drawn.ready;
  return drawn;
}

/** The options of one of several explanations on a page: its keys in the address begin with `prefix`. */
export function scoped(options, prefix) {
  return {
    ...options,
    state: ownState(options.state, prefix),
    setState: (patch, how) =>
      options.setState?.(Object.fromEntries(Object.entries(patch).map(([key, value]) => [`${prefix}${key}`, value])), how),
  };
}

/** The part of the address that belongs to one of several explanations. */
export function ownState(state, prefix) {
  return Object.fromEntries(
    Object.entries(state ?? {})
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, value]) => [key.slice(prefix.length), value]),
  );
}

/** Several explanations, one below the other, each with its part of the address: e0.…, e1.… */
export async function drawExplanations(root, explanations, options = {}) {
  const rooms = explanations.map(() => el("div", { class: "regard-one" }));
  root.replaceChildren(...rooms);
  const drawn = await Promise.all(explanations.map((each, place) => drawExplanation(rooms[place], each, scoped(options, `e${place}.`))));
  return {
    update(state) {
      drawn.forEach((each, place) => each.update(ownState(state, `e${place}.`)));
    },
    destroy() {
      drawn.forEach((each) => each.destroy());
      root.replaceChildren();
    },
  };
}

/** Explanations of layers, of which one is shown: a menu chooses it. `best` is the number of the layer that is shown at first. */
export async function drawLayers(root, explanations, options = {}, best = explanations.length - 1) {
  const room = el("div"),
    names = explanations.map((each, place) => each.layer || each.title || `${each.kind} ${place + 1}`);
  let drawn = null,
    current = -1,
    state = options.state ?? {};
  const chosen = () => {
    const place = Number(state.layer);
    return state.layer !== undefined && explanations[place] ? place : best;
  };
  const menu = select(
    "layer",
    names.map((name, place) => [place, name]),
    chosen(),
    (value) => {
      state = { ...state, layer: value };
      options.setState?.({ layer: value }, { replace: true });
      show();
    },
  );
  async function show() {
    const place = chosen();
    if (place === current) return;
    current = place;
    menu.input.value = place;
    drawn?.destroy();
    drawn = await drawExplanation(room, explanations[place], {
      ...options,
      state,
      setState: (patch, how) => {
        state = { ...state, ...patch };
        options.setState?.(patch, how);
      },
    });
  }
  root.replaceChildren(...(explanations.length > 1 ? [el("div", { class: "regard-bar" }, menu)] : []), room);
  await show();
  return {
    async update(next) {
      state = next ?? {};
      await show();
      drawn?.update(state);
    },
    destroy() {
      drawn?.destroy();
      root.replaceChildren();
    },
  };
}
