// Addressing of the neural Turing machine: weights by content are mixed with those before, moved along a circle of
// slots, and sharpened.

/** g · content + (1 − g) · previous. */
export const interpolate = (content, previous, gate) => previous.map((before, i) => before + gate * (content[i] - before));

/** w̃_i = Σ_o s_o w_{i−o}, for o = −1, 0, 1 or −2 … 2: the last share moves the focus to the next slots. */
export function moveFocus(weights, shares) {
  const reach = Math.floor(shares.length / 2);
  const n = weights.length;
  return weights.map((_, i) => shares.reduce((total, share, o) => total + share * weights[(((i - (o - reach)) % n) + n) % n], 0));
}

/** w_i = w̃_i^γ / Σ_j w̃_j^γ; zeros where all weights are zero. */
export function sharpen(weights, sharpness) {
  const peak = Math.max(...weights);
  if (peak === 0) return weights.map(() => 0);
  const powers = weights.map((w) => (w / peak) ** sharpness);
  const total = powers.reduce((sum, x) => sum + x, 0);
  return powers.map((x) => x / total);
}
