// Sums and products of plain arrays of numbers, and a generator of random numbers that a seed repeats.

export const sum = (row) => row.reduce((total, x) => total + x, 0);
export const product = (a, b) => a.reduce((total, x, i) => total + x * b[i], 0);
export const times = (matrix, vector) => matrix.map((row) => product(row, vector)); // W x
export const plus = (a, b) => a.map((x, i) => x + b[i]);
export const length = (vector) => Math.hypot(...vector);
export const distance = (a, b) => length(a.map((x, i) => x - b[i]));
export const largest = (row) => row.reduce((best, x) => (x > best ? x : best), -Infinity);
export const indexOfLargest = (row) => row.reduce((best, x, i) => (x > row[best] ? i : best), 0); // the first of equal ones
export const sigmoid = (x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));

/** A generator of numbers in [0, 1) (mulberry32): the same seed gives the same numbers in every browser. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}

/** Normal numbers of mean 0 and variance 1, by the method of Box and Muller. */
export function normal(seed) {
  const uniform = random(seed);
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** Noise g of which argmax(e + g) is a draw from softmax(e). */
export function gumbel(seed) {
  const uniform = random(seed);
  return () => -Math.log(-Math.log(1 - uniform()) || Number.MIN_VALUE);
}
