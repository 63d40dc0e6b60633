// The controls of the bench: score, alignment, temperature, what these two need, masks, and draws.

import { button, check, choice, field, make, slider } from "./dom.js";
import { ALIGN_NAMES, LEARNT, SCORE_NAMES } from "./state.js";

const LEARNT_FIELDS = {
  general: ["W"],
  additive: ["V", "U", "v"],
  concat: ["V", "U", "v"],
  location: ["places"],
  graph_additive: ["a"],
  leaky_additive: ["a"],
  concatenation: ["a"],
};
const OF_SCORE = { cosine: ["strength"], gaussian: ["bandwidth"], log_gaussian: ["bandwidth"], ...LEARNT_FIELDS };
const OF_ALIGN = {
  entmax: ["alpha"],
  top_k: ["k"],
  local_monotonic: ["window", "place"],
  local_predictive: ["window", "centreW", "centreV"],
  sigmoid: ["offset"],
  monotonic: ["offset", "start"],
};
const SLIDERS = {
  temperature: ["temperature T", { low: 0.05, high: 20, scale: "log" }],
  strength: ["key strength β", { low: 0, high: 20, step: 0.1 }],
  bandwidth: ["bandwidth σ", { low: 0.05, high: 100, scale: "log" }],
  alpha: ["α", { low: 1.01, high: 2, step: 0.01 }],
  k: ["k, the keys that are kept", { low: 1, high: 12, step: 1 }],
  window: ["D, half the window", { low: 0, high: 11, step: 1 }],
  offset: ["offset b", { low: -6, high: 6, step: 0.1 }],
  place: ["t, the place of the query (first key: 0)", { low: 0, high: 11, step: 1 }],
  start: ["key where the reader stands (first: 0)", { low: 0, high: 11, step: 1 }],
  padding: ["keys that are there", { low: 0, high: 12, step: 1 }],
  near: ["keys on either side", { low: 0, high: 11, step: 1 }],
  width: ["width d", { low: 1, high: 512, step: 1 }],
  seed: ["seed", { low: 0, high: 999, step: 1 }],
};
const FIELDS = {
  W: "W",
  V: "W of the query",
  U: "U of the keys",
  v: "v",
  places: "table, a row for each place",
  a: "a",
  centreW: "W of the centre",
  centreV: "v of the centre",
};

/** controls({shown, set}) gives {element, further, draw(full, problem)}; `further` is for masks and draws. */
export function controls({ shown, set }) {
  const made = new Map();
  const wants = (name) => !shown || shown.includes(name);
  const first = make("div", { class: "controls", role: "group", "aria-label": "score and alignment" });
  const masks = make("fieldset", { class: "controls" }, make("legend", { text: "mask" }));
  const draws = make("fieldset", { class: "controls" }, make("legend", { text: "draw keys by chance" }));
  const element = make("div", { class: "choices" }, first);
  const further = make("div", { class: "choices" }, masks, draws);
  const add = (where, name, control) => {
    where.append(control.box);
    made.set(name, control);
  };

  if (wants("score"))
    add(
      first,
      "score",
      choice("score", SCORE_NAMES, "dot", (value) => set({ score: value })),
    );
  if (wants("align"))
    add(
      first,
      "align",
      choice("alignment", ALIGN_NAMES, "softmax", (value) => set({ align: value })),
    );
  for (const name of ["temperature", "strength", "bandwidth", "alpha", "k", "window", "offset", "place", "start", "width", "seed"]) {
    if (wants(name))
      add(
        first,
        name,
        slider(...SLIDERS[name], 1, (value) => set({ [name]: value })),
      );
  }
  for (const [name, label] of Object.entries(FIELDS))
    if (wants(name))
      add(
        first,
        name,
        field(label, "", (value) => set({ [name]: value })),
      );
  if (wants("masks")) {
    add(
      masks,
      "padding?",
      check("padding", false, (on) => set({ padding: on ? "3" : "off" })),
    );
    add(
      masks,
      "padding",
      slider(...SLIDERS.padding, 3, (value) => set({ padding: value })),
    );
    add(
      masks,
      "causal",
      check("causal: no later keys", false, (on) => set({ causal: on ? "1" : "off" })),
    );
    add(
      masks,
      "near?",
      check("window", false, (on) => set({ near: on ? "1" : "off" })),
    );
    add(
      masks,
      "near",
      slider(...SLIDERS.near, 1, (value) => set({ near: value })),
    );
  }
  let count = 0;
  const status = make("output", { class: "drawnote" });
  if (wants("samples")) {
    const more = (number) => () => set({ samples: String(Math.min(100000, count + number)) });
    draws.append(
      ...[1, 10, 100, 1000].map((number) => button(`draw ${number}`, more(number))),
      button("start anew", () => set({ samples: "0", seed: String((seed + 1) % 1000) })),
      status,
    );
  }
  let seed = 1;

  const show = (name, on) => {
    const control = made.get(name);
    if (control) control.box.hidden = !on;
  };
  return {
    element,
    further,
    shows: (name) => made.has(name) && !made.get(name).box.hidden,
    draw(full, problem) {
      const score = OF_SCORE[problem.score.name] ?? [];
      const align = OF_ALIGN[full.align] ?? [];
      const placed = full.causal === "1" || full.near !== "";
      const compares = (name) => full.compare.includes(`${name}=`);
      const inCompared = Object.entries(OF_ALIGN)
        .filter(([kind]) => full.compare.includes(`align=${kind}`))
        .flatMap(([, names]) => names);
      for (const name of [...Object.keys(FIELDS), "strength", "bandwidth", "alpha", "k", "window", "offset", "place", "start"]) {
        const needed =
          score.includes(name) || align.includes(name) || (inCompared.includes(name) && !compares(name)) || (name === "place" && placed);
        show(name, needed && !(problem.drawn && name in FIELDS));
      }
      show("temperature", full.align !== "hard" && full.align !== "normalize");
      show("width", problem.drawn);
      show("seed", problem.drawn || problem.samples > 0);
      show("padding", full.padding !== "");
      show("near", full.near !== "");
      for (const [name, control] of made) {
        if (name === "causal") control.set(full.causal === "1");
        else if (name.endsWith("?")) control.set(full[name.slice(0, -1)] !== "");
        else if (full[name] !== "") control.set(full[name]);
      }
      made.get("score")?.refuse(problem.drawn ? LEARNT : []);
      made.get("score")?.set(problem.score.name);
      made.get("align")?.refuse(problem.drawn ? ["local_predictive"] : []);
      made.get("align")?.set(problem.align.name);
      [count, seed] = [problem.samples, problem.seed];
      masks.hidden = !wants("masks");
      draws.hidden = !wants("samples") || problem.drawn;
      status.textContent = count ? `${count} ${count === 1 ? "draw" : "draws"} so far` : "nothing drawn yet";
    },
  };
}
