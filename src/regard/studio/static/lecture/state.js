// The state of the bench as words of an address, and what the mechanism is asked from it.

import { attend, draw, normal } from "../mechanism/index.js";
import { PRESETS } from "./presets.js";

export const SCORE_NAMES = {
  dot: "dot product",
  scaled_dot: "scaled dot product",
  general: "general (bilinear)",
  additive: "additive",
  concat: "concat",
  cosine: "cosine with key strength",
  location: "location",
  inverse_distance: "1 / distance",
  log_inverse_distance: "log(1 / distance)",
  gaussian: "Gaussian kernel",
  log_gaussian: "log of the Gaussian kernel",
  negative_distance: "− distance",
  graph_additive: "graph attention (GAT)",
  leaky_additive: "graph attention, second version (GATv2)",
  concatenation: "concatenation (non-local)",
};
export const ALIGN_NAMES = {
  softmax: "softmax",
  sparsemax: "sparsemax",
  entmax: "entmax",
  normalize: "divide by the sum",
  sigmoid: "sigmoid gate",
  top_k: "top-k",
  hard: "hard: the best key",
  local_monotonic: "local-m",
  local_predictive: "local-p",
  monotonic: "monotonic (expected)",
  share: "divide by the number",
};
/** Scores whose learnt numbers are for keys of one or two numbers, so random vectors cannot have them. */
export const LEARNT = ["general", "additive", "concat", "location", "graph_additive", "leaky_additive", "concatenation"];
export const MOST_KEYS = 12;
const MOST_COLUMNS = 6; // of further choices, beside the first

export const DEFAULTS = {
  keys: "3,1;1,3;-2,2;-3,-2;2,-3",
  values: "3,1;1,3;-2,2;-3,-2;2,-3",
  query: "1.2,0.8",
  area: "-4,4,-4,4",
  valueArea: "-4,4,-4,4",
  score: "scaled_dot",
  align: "softmax",
  temperature: "1",
  strength: "1",
  bandwidth: "1",
  alpha: "1.5",
  k: "2",
  window: "1",
  offset: "0",
  W: "1,0.5;0,-1",
  U: "0.25,0;0,-0.25",
  V: "0.5,0;0,0.5",
  v: "1,-1",
  a: "1,-0.5,0.5,1",
  places: "1,0;0,1;0.5,0.5;-1,0;0,-1;-0.5,0.5;0.5,-0.5;-0.5,-0.5",
  centreW: "0.5,0;0,0.5",
  centreV: "1,1",
  padding: "",
  causal: "",
  near: "",
  place: "0",
  start: "0",
  width: "",
  number: "8",
  seed: "1",
  samples: "0",
  compare: "",
  pick: "",
  preset: "free",
};

const row = (text) =>
  text
    .split(",")
    .filter((part) => part.trim() !== "")
    .map(Number);
export const matrix = (text) =>
  text
    .split(";")
    .filter((part) => part.trim() !== "")
    .map(row);
export const words = (rows) => rows.map((line) => line.map((x) => String(Number(x.toFixed(3)))).join(",")).join(";");

/** All words of a state: those of the preset, then those that differ. Words that mean nothing are left out. */
export function resolve(state) {
  const preset = Object.hasOwn(PRESETS, state.preset ?? "") ? PRESETS[state.preset] : {};
  const full = { ...DEFAULTS, ...preset.state };
  for (const [key, value] of Object.entries(state)) if (Object.hasOwn(DEFAULTS, key) && value !== undefined) full[key] = String(value);
  return sound(full);
}

const inside = (text, low, high, otherwise) => {
  const x = Number(text);
  return String(text).trim() !== "" && Number.isFinite(x) ? Math.min(high, Math.max(low, x)) : otherwise;
};
const isMatrix = (rows, width) => rows.length > 0 && rows.every((line) => line.length === width && line.every(Number.isFinite));

/** An address may have been written by hand, so each word falls back on what the bench starts with. */
function sound(full) {
  for (const name of ["padding", "causal", "near", "compare", "pick"]) if (full[name] === "off") full[name] = ""; // addresses keep no empty words
  if (!Object.hasOwn(SCORE_NAMES, full.score)) full.score = DEFAULTS.score;
  if (!Object.hasOwn(ALIGN_NAMES, full.align)) full.align = DEFAULTS.align;
  for (const name of ["area", "valueArea"])
    if (row(full[name]).length !== 4 || !row(full[name]).every(Number.isFinite)) full[name] = DEFAULTS[name];
  let keys = matrix(full.keys).slice(0, MOST_KEYS);
  const width = keys[0]?.length;
  if (!(width === 1 || width === 2) || !isMatrix(keys, width)) keys = matrix(DEFAULTS.keys);
  const query = row(full.query);
  const fits = query.length === keys[0].length && query.every(Number.isFinite);
  full.query = fits ? words([query]) : words([keys[0]]);
  full.keys = words(keys);
  const values = matrix(full.values);
  const wide = keys[0].length;
  full.values = words(keys.map((key, j) => (isMatrix([values[j] ?? []], wide) ? values[j] : key)));
  for (const [name, shape] of Object.entries({ W: 2, U: 2, V: 2, centreW: 2, places: 2 }))
    if (!isMatrix(matrix(full[name]), shape)) full[name] = DEFAULTS[name];
  for (const [name, size] of Object.entries({ v: 2, centreV: 2, a: 4 }))
    if (row(full[name]).length !== size || !row(full[name]).every(Number.isFinite)) full[name] = DEFAULTS[name];
  return full;
}

/** The numbers of a full state. */
export function read(full) {
  const width = full.width === "" ? 0 : Math.round(inside(full.width, 1, 1024, 64));
  const drawn = width > 0;
  const number = Math.round(inside(full.number, 2, MOST_KEYS, 8));
  const next = drawn ? normal(Number(full.seed) || 0) : null;
  const vector = () => Array.from({ length: width }, next);
  const query = drawn ? vector() : row(full.query);
  const keys = drawn ? Array.from({ length: number }, vector) : matrix(full.keys);
  const values = drawn ? keys.map((_, j) => [j]) : matrix(full.values);
  const d = query.length;
  const cut = (text) => matrix(text).map((line) => line.slice(0, d));
  const half = row(full.a);
  const scoring = drawn && LEARNT.includes(full.score) ? "scaled_dot" : full.score;
  const settings = {
    dot: {},
    scaled_dot: {},
    cosine: { strength: inside(full.strength, 0, 100, 1) },
    general: {
      W: matrix(full.W)
        .slice(0, d)
        .map((line) => line.slice(0, d)),
    },
    additive: { W: cut(full.V), U: cut(full.U), v: row(full.v) },
    concat: { W: cut(full.V).map((line, i) => [...line, ...cut(full.U)[i]]), v: row(full.v) },
    location: { W: cut(full.places) },
    gaussian: { bandwidth: inside(full.bandwidth, 0.01, 1000, 1) },
    log_gaussian: { bandwidth: inside(full.bandwidth, 0.01, 1000, 1) },
    graph_additive: { a: [...half.slice(0, d), ...half.slice(2, 2 + d)] },
    concatenation: { a: [...half.slice(0, d), ...half.slice(2, 2 + d)] },
    leaky_additive: { a: half.slice(0, d) },
  }[scoring];
  const n = keys.length;
  const window = Math.round(inside(full.window, full.align === "local_predictive" ? 1 : 0, MOST_KEYS, 1));
  const aligning = {
    name: full.align,
    temperature: inside(full.temperature, 0.01, 100, 1),
    alpha: inside(full.alpha, 1.01, 2, 1.5),
    k: Math.round(inside(full.k, 1, MOST_KEYS, 2)),
    window,
    offset: inside(full.offset, -20, 20, 0),
    W: cut(full.centreW),
    v: row(full.centreV),
  };
  if (drawn && full.align === "local_predictive") aligning.name = "softmax"; // its learnt parts are two numbers wide
  const rules = {};
  if (full.padding !== "") rules.padding = Math.round(inside(full.padding, 0, n, n));
  if (full.causal === "1") rules.causal = true;
  if (full.near !== "") rules.window = [Math.round(inside(full.near, 0, n, 1)), Math.round(inside(full.near, 0, n, 1))];
  const place = Math.round(inside(full.place, 0, n - 1, 0));
  const start = Math.round(inside(full.start, 0, n - 1, 0));
  return {
    query,
    keys,
    values,
    width,
    drawn,
    place,
    start,
    rules,
    score: { name: scoring, ...settings },
    align: aligning,
    samples: Math.round(inside(full.samples, 0, 1e5, 0)),
    seed: Math.round(inside(full.seed, 0, 1e6, 1)),
  };
}

/** Scores, weights and context, and what was drawn. */
export function solve(problem) {
  const { query, keys, values, score, align, rules, place, start } = problem;
  const previous = keys.map((_, j) => (j === start ? 1 : 0));
  const mask = Object.keys(rules).length ? rules : undefined;
  const found = attend({ queries: [query], keys, values, score, align, mask, rows: [place], step: place, previous });
  const allowed = found.allowed?.[0] ?? keys.map(() => true);
  const result = { scores: found.scores[0], weights: found.weights[0], context: found.context[0], allowed };
  if (problem.samples) {
    const row_ = result.scores.map((x) => x / align.temperature);
    result.drawn = draw(row_, allowed, problem.samples, problem.seed);
  }
  return result;
}

/** Further columns: "align=sparsemax|strength=8" gives two states that differ from this one in these words. */
export function compared(full) {
  return full.compare
    .split("|")
    .filter(Boolean)
    .slice(0, MOST_COLUMNS)
    .map((part) => {
      const patch = Object.fromEntries(
        part
          .split("&")
          .map((pair) => pair.split("="))
          .filter(([key, value]) => Object.hasOwn(DEFAULTS, key) && value !== undefined),
      );
      const other = resolve({ ...full, ...patch, compare: "", samples: "0" });
      const name = Object.entries(patch)
        .map(([key, value]) => described(key, value))
        .join(", ");
      return { name, problem: read(other) };
    });
}

function described(key, value) {
  if (key === "score") return SCORE_NAMES[value] ?? value;
  if (key === "align") return ALIGN_NAMES[value] ?? value;
  return `${{ strength: "β", alpha: "α", temperature: "T", bandwidth: "σ", window: "D", offset: "offset" }[key] ?? key} = ${value}`;
}

/** The context that each query on a line gets, for keys of one number: [[query, context], …]. */
export function curve(problem, low, high, steps = 160) {
  return Array.from({ length: steps + 1 }, (_, i) => {
    const x = low + ((high - low) * i) / steps;
    return [x, solve({ ...problem, query: [x], samples: 0 })];
  });
}
