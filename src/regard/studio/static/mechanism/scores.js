// Scores: how well does each key answer the query? score(name, queries, keys, settings) gives a row for each query.
// The numbers are those of regard.score in float64.

import { distance, length, plus, product, sigmoid, sum, times } from "./arrays.js";

const unit = (vector) => {
  const peak = vector.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  if (peak === 0) return vector.map(() => 0);
  const scaled = vector.map((x) => x / peak); // its squares neither overflow nor vanish
  const norm = length(scaled);
  return scaled.map((x) => x / norm);
};
const leaky = (x, slope) => (x >= 0 ? x : slope * x);
const NEAREST = Math.sqrt(1 / Number.MAX_VALUE); // nearer than that, 1 / distance² is not a number
const inverse = (d) => (d <= NEAREST ? Infinity : 1 / d);
const squares = (q, k) => sum(q.map((x, i) => (x - k[i]) ** 2));
const additive = (q, k, v) => sum(v.map((weight, i) => weight * Math.tanh(q[i] + k[i])));

/** Each score compares one query with one key: (query, key, settings, place of the key) → number. */
export const SCORES = {
  dot: (q, k) => product(q, k),
  scaled_dot: (q, k) => product(q, k) / Math.sqrt(Math.max(1, q.length)),
  general: (q, k, { W }) => product(q, times(W, k)),
  additive: (q, k, { W, U, v }) => additive(times(W, q), times(U, k), v),
  concat: (q, k, { W, v }) => product(v, times(W, [...q, ...k]).map(Math.tanh)), // W = [W_q | W_k], side by side
  projected_additive: (q, k, { v }) => additive(q, k, v),
  cosine: (q, k, { strength = 1 }) => strength * product(unit(q), unit(k)),
  location: (q, k, { W }, place) => (place < W.length ? product(W[place], q) : -Infinity),
  inverse_distance: (q, k) => inverse(distance(q, k)),
  log_inverse_distance: (q, k) => {
    const d = distance(q, k);
    return d <= NEAREST ? Infinity : -Math.log(d);
  },
  gaussian: (q, k, { bandwidth = 1 }) => Math.exp(-squares(q, k) / (2 * bandwidth ** 2)),
  log_gaussian: (q, k, { bandwidth = 1 }) => -squares(q, k) / (2 * bandwidth ** 2),
  negative_distance: (q, k) => -distance(q, k), // of docs/lookup.md: what softmax makes of a distance
  graph_additive: (q, k, { a, slope = 0.2 }) => leaky(product(a, [...q, ...k]), slope),
  leaky_additive: (q, k, { a, slope = 0.2 }) =>
    product(
      a,
      plus(q, k).map((x) => leaky(x, slope)),
    ),
  concatenation: (q, k, { a }) => Math.max(0, product(a, [...q, ...k])),
};

export function score(name, queries, keys, settings = {}) {
  const compare = SCORES[name];
  if (!compare) throw new Error(`unknown score ${name}: one of ${Object.keys(SCORES).join(", ")}`);
  return queries.map((query) => keys.map((key, place) => compare(query, key, settings, place)));
}

/** The centre of local-p, p = S · sigmoid(vᵀ tanh(W q)), as a share of the S keys. */
export const centreShare = (query, { W, v }) => sigmoid(product(v, times(W, query).map(Math.tanh)));
