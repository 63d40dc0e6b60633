// Alignments: turn scores into weights. align(name, scores, allowed, settings) gives a row of weights for each query:
// exactly zero where a key is masked, and zeros for a row in which every key is. The numbers are those of regard.align.

import { gumbel, indexOfLargest, largest, sigmoid, sum } from "./arrays.js";
import { centreShare } from "./scores.js";

const LIMIT = Number.MAX_VALUE / 8; // differences of such numbers are finite, and masked keys are lowest

/** Scores that are all finite, and where attending is allowed. −∞ counts as masked; +∞ takes the row. */
export function maskedScores(row, allowed) {
  const open = row.map((x, j) => x !== -Infinity && (!allowed || allowed[j]));
  return [row.map((x, j) => (open[j] ? Math.min(LIMIT, Math.max(-LIMIT, x)) : -2 * LIMIT)), open];
}
const zeroMasked = (weights, open) => weights.map((w, j) => (open[j] ? w : 0));

function softmax(row, open) {
  const top = largest(row);
  const powers = row.map((x) => Math.exp(x - top));
  const total = sum(powers);
  return zeroMasked(
    powers.map((x) => x / total),
    open,
  );
}

function sparsemax(row, open) {
  const top = largest(row);
  const z = row.map((x) => Math.max(x - top, -2)); // nothing below the largest minus 1 has weight
  const ordered = [...z].sort((a, b) => b - a);
  let total = 0;
  let threshold = 0;
  ordered.forEach((x, place) => {
    total += x;
    if (1 + (place + 1) * x > total) threshold = (total - 1) / (place + 1);
  });
  return zeroMasked(
    z.map((x) => Math.max(x - threshold, 0)),
    open,
  );
}

/** [1 + p x]₊^(1/p): the exponential function for p → 0, a hinge for p = 1. */
const exponential = (x, p) => (p * x > -1 ? Math.exp(Math.log1p(p * x) / p) : 0);

function entmax(row, open, { alpha = 1.5 }) {
  if (!(alpha > 1 && alpha <= 2)) throw new Error(`entmax alpha ${alpha}: 1 < alpha ≤ 2`);
  if (alpha === 2) return sparsemax(row, open);
  const p = alpha - 1;
  const top = largest(row);
  const z = row.map((x) => x - top);
  let low = 0;
  let high = (1 - row.length ** -p) / p; // all keys equal
  for (let step = 0; step < 60; step += 1) {
    // the sum falls with the shift, so halving finds where it is one
    const middle = (low + high) / 2;
    if (sum(z.map((x) => exponential(x - middle, p))) >= 1) low = middle;
    else high = middle;
  }
  return zeroMasked(
    z.map((x) => exponential(x - low, p)),
    open,
  );
}

function shared(row, open, divisor, keep) {
  const hits = row.map((x, j) => open[j] && x === Infinity);
  const number = hits.filter(Boolean).length;
  if (number) return hits.map((hit) => (hit ? 1 / number : 0));
  const kept = row.map((x, j) => (open[j] ? keep(x) : 0));
  const by = divisor(kept, open);
  return kept.map((x) => (by ? x / by : 0));
}

function topK(row, open, { k = 2, base = {} }) {
  const order = row.map((x, j) => j).sort((a, b) => row[b] - row[a] || a - b);
  const best = new Set(order.slice(0, k));
  return alignRow(
    base.name ?? "softmax",
    row,
    open.map((o, j) => o && best.has(j)),
    base,
  );
}

function hard(row, open) {
  const best = indexOfLargest(row);
  return row.map((_, j) => (j === best && open[j] ? 1 : 0));
}

function localMonotonic(row, open, { window = 2, base = {} }, query) {
  const inside = open.map((o, j) => o && Math.abs(j - query.step) <= window);
  return alignRow(base.name ?? "softmax", row, inside, base);
}

/** p, between the first allowed key and the end of the last one. */
export function centre(open, share) {
  const first = open.indexOf(true);
  return first < 0 ? open.length : first + (open.lastIndexOf(true) + 1 - first) * share;
}

function localPredictive(row, open, { window = 2, base = {}, W, v }, query) {
  const middle = centre(open, centreShare(query.vector, { W, v }));
  const inside = open.map((o, j) => o && Math.abs(j - middle) <= window);
  const weights = alignRow(base.name ?? "softmax", row, inside, base);
  return weights.map((w, j) => w * Math.exp(-((j - middle) ** 2) / (2 * (window / 2) ** 2)));
}

/** The expected place where a reader stops who goes left to right from where `previous` says. */
function monotonic(row, open, { offset = -1, hardStops = false }, query) {
  let reach = 0;
  let left = 0;
  return row.map((x, j) => {
    const energy = x + offset;
    const stop = open[j] ? (hardStops ? Number(energy > 0) : sigmoid(energy)) : 0;
    reach = left + query.previous[j];
    const weight = stop * reach;
    left = reach - weight;
    return weight;
  });
}

const RAW = new Set(["normalize", "share", "identity"]); // these must tell an infinite score from a large one
const ROWS = {
  softmax,
  sparsemax,
  entmax,
  normalize: (row, open) =>
    shared(
      row,
      open,
      (kept) => sum(kept),
      (x) => Math.max(x, 0),
    ),
  share: (row, open) =>
    shared(
      row,
      open,
      (kept, o) => o.filter(Boolean).length,
      (x) => x,
    ),
  identity: (row, open) =>
    shared(
      row,
      open,
      () => 1,
      (x) => x,
    ),
  sigmoid: (row, open, { offset = 0 }) =>
    zeroMasked(
      row.map((x) => sigmoid(x + offset)),
      open,
    ),
  top_k: topK,
  hard,
  local_monotonic: localMonotonic,
  local_predictive: localPredictive,
  monotonic,
};
export const ALIGNS = Object.keys(ROWS);

function alignRow(name, row, allowed, settings, query) {
  const compute = ROWS[name];
  if (!compute) throw new Error(`unknown alignment ${name}: one of ${ALIGNS.join(", ")}`);
  const [filled, open] = maskedScores(row, allowed);
  if (!open.includes(true)) return row.map(() => 0);
  return compute(RAW.has(name) ? row : filled, open, settings, query);
}

/** Scores divided by the temperature. The largest one is taken away first, as a large score must stay finite. */
export const cooled = (row, temperature) => (temperature === 1 ? row : row.map((x) => x / temperature));

/**
 * Weights of each query. `allowed` is a matrix of booleans or undefined; `temperature` divides the scores.
 * `queries` are the vectors (for local_predictive), `step` is the time of the first query (for local_monotonic) and
 * `previous` the weights of the query before (for monotonic: the first key, unless told).
 */
export function align(name, scores, allowed, settings = {}, { queries, step = 0, previous } = {}) {
  let before = previous;
  return scores.map((row, i) => {
    before = before ?? row.map((_, j) => (j === 0 ? 1 : 0));
    const query = { vector: queries?.[i], step: step + i, previous: before };
    const weights = alignRow(name, cooled(row, settings.temperature ?? 1), allowed?.[i], settings, query);
    before = weights;
    return weights;
  });
}

/** Keys drawn from the softmax of one row, `number` of them: how often each one came, the last choice, and what REINFORCE needs. */
export function draw(row, allowed, number, seed) {
  const [filled, open] = maskedScores(row, allowed);
  const weights = open.includes(true) ? softmax(filled, open) : row.map(() => 0);
  const counts = row.map(() => 0);
  const noise = gumbel(seed);
  const top = largest(filled);
  let choice = -1;
  for (let i = 0; i < number && open.includes(true); i += 1) {
    choice = indexOfLargest(filled.map((x, j) => (open[j] ? x - top + noise() : -Infinity)));
    counts[choice] += 1;
  }
  const entropy = -sum(weights.map((w) => (w > 0 ? w * Math.log(w) : 0)));
  return { counts, choice, logProb: choice < 0 ? 0 : Math.log(weights[choice]), entropy, weights };
}
