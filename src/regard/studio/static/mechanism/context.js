// The three lines of attention: score → align → context.

import { align } from "./alignments.js";
import { mask as makeMask } from "./masks.js";
import { score } from "./scores.js";

/** Context of each query: the values, each times its weight, added up. */
export function context(weights, values) {
  const width = values[0]?.length ?? 0;
  return weights.map((row) => Array.from({ length: width }, (_, d) => row.reduce((total, w, j) => total + w * values[j][d], 0)));
}

/**
 * attend({queries, keys, values, score: {name, …settings}, align: {name, temperature, …settings}, mask: rules, rows, step, previous})
 * gives {scores, allowed, weights, context}.
 */
export function attend({ queries, keys, values, score: scoring, align: aligning, mask, rows, step, previous }) {
  const scores = score(scoring.name, queries, keys, scoring);
  const allowed = mask ? makeMask(mask, queries.length, keys.length, rows) : undefined;
  const weights = align(aligning.name, scores, allowed, aligning, { queries, step, previous });
  return { scores, allowed, weights, context: context(weights, values) };
}
