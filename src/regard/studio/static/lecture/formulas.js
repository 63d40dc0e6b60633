// The formulas of scores and alignments as TeX, and the same with the numbers of one key put in.

const SHOWN = 4; // terms of a sum that are written out

export const number = (x, digits = 3) => {
  if (x === Infinity) return "\\infty";
  if (x === -Infinity) return "-\\infty";
  const size = Math.abs(x);
  if (size !== 0 && (size < 10 ** -digits || size >= 1e6)) {
    const [front, power] = x.toExponential(1).split("e");
    return `${front}\\cdot 10^{${Number(power)}}`;
  }
  return String(Number(x.toFixed(digits)));
};
/** A number for a table: the minus sign is as wide as a digit. */
export const plain = (x, digits = 3) => {
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 10 ** -digits || size >= 1e6) ? x.toExponential(1) : x.toFixed(digits);
  return text.replace("-", "−");
};

const short = (x) => number(x, 2);
const vector = (xs) => (xs.length > 3 ? `(${short(xs[0])}, ${short(xs[1])}, \\ldots)` : `(${xs.map(short).join(", ")})`);
const signed = (x) => (x < 0 ? `(${short(x)})` : short(x));
const products = (a, b) => {
  const terms = a.slice(0, SHOWN).map((x, i) => `${signed(x)}\\cdot ${signed(b[i])}`);
  return terms.join(" + ") + (a.length > SHOWN ? " + \\ldots" : "");
};
const table = (rows) =>
  rows.every((line) => line.length === 1) && rows.length === 1 ? short(rows[0][0]) : `[${rows.map(vector).join(", ")}]`;

/** Formula of each score, with j as the key. */
export const SCORE_TEX = {
  dot: "e_j = q \\cdot k_j",
  scaled_dot: "e_j = \\frac{q \\cdot k_j}{\\sqrt{d}}",
  general: "e_j = q^\\top W k_j",
  additive: "e_j = v^\\top \\tanh(W q + U k_j)",
  concat: "e_j = v^\\top \\tanh(W [q; k_j])",
  cosine: "e_j = \\beta \\frac{q \\cdot k_j}{\\lvert q \\rvert \\, \\lvert k_j \\rvert}",
  location: "e_j = w_j \\cdot q",
  inverse_distance: "e_j = \\frac{1}{\\lvert q - k_j \\rvert}",
  log_inverse_distance: "e_j = \\log \\frac{1}{\\lvert q - k_j \\rvert}",
  gaussian: "e_j = \\exp ( - \\frac{\\lvert q - k_j \\rvert^2}{2 \\sigma^2} )",
  log_gaussian: "e_j = - \\frac{\\lvert q - k_j \\rvert^2}{2 \\sigma^2}",
  negative_distance: "e_j = - \\lvert q - k_j \\rvert",
  graph_additive: "e_j = \\LeakyReLU(a^\\top [q; k_j])",
  leaky_additive: "e_j = a^\\top \\LeakyReLU(q + k_j)",
  concatenation: "e_j = \\ReLU(a^\\top [q; k_j])",
};

/** What stands behind the sign of equality, with numbers. */
function scoreNumbers({ query: q, keys, score: s }, j) {
  const k = keys[j];
  const apart = () => Math.hypot(...q.map((x, i) => x - k[i]));
  switch (s.name) {
    case "dot":
      return products(q, k);
    case "scaled_dot":
      return `\\frac{${products(q, k)}}{\\sqrt{${q.length}}}`;
    case "general":
      return `${vector(q)}^\\top ${table(s.W)} ${vector(k)}`;
    case "additive":
      return `${vector(s.v)}^\\top \\tanh( ${vector(mix(s.W, q))} + ${vector(mix(s.U, k))} )`;
    case "concat":
      return `${vector(s.v)}^\\top \\tanh ${vector(mix(s.W, [...q, ...k]))}`;
    case "cosine":
      return `${short(s.strength)} \\cdot \\frac{${products(q, k)}}{${short(Math.hypot(...q))} \\cdot ${short(Math.hypot(...k))}}`;
    case "location":
      return j < s.W.length ? products(s.W[j], q) : "-\\infty";
    case "inverse_distance":
      return `\\frac{1}{${short(apart())}}`;
    case "log_inverse_distance":
      return `\\log \\frac{1}{${short(apart())}}`;
    case "gaussian":
      return `\\exp ( - \\frac{${short(apart())}^2}{2 \\cdot ${short(s.bandwidth)}^2} )`;
    case "log_gaussian":
      return `- \\frac{${short(apart())}^2}{2 \\cdot ${short(s.bandwidth)}^2}`;
    case "negative_distance":
      return `- ${short(apart())}`;
    case "graph_additive":
      return `\\LeakyReLU( ${products(s.a, [...q, ...k])} )`;
    case "leaky_additive":
      return `${vector(s.a)}^\\top \\LeakyReLU ${vector(q.map((x, i) => x + k[i]))}`;
    default:
      return `\\ReLU( ${products(s.a, [...q, ...k])} )`;
  }
}
const mix = (rows, x) => rows.map((line) => line.reduce((total, w, i) => total + w * x[i], 0));

const heated = (align) => (align.temperature === 1 ? "e_j" : "e_j / T");
/** Formula of each alignment. */
export function alignTex(align) {
  const e = heated(align);
  const soft = `\\frac{\\exp(${e})}{\\sum_i \\exp(${e.replace("j", "i")})}`;
  return {
    softmax: `w_j = ${soft}`,
    sparsemax: `w_j = \\max(${e} - \\tau, 0), \\quad \\sum_j w_j = 1`,
    entmax: `w_j = \\max(1 + (\\alpha - 1)(${e} - \\mu), 0)^{1 / (\\alpha - 1)}, \\quad \\sum_j w_j = 1`,
    normalize: "w_j = \\frac{\\max(e_j, 0)}{\\sum_i \\max(e_i, 0)}",
    share: `w_j = \\frac{${e}}{n}`,
    sigmoid: `w_j = \\frac{1}{1 + \\exp(-${e} - b)}`,
    top_k: `w_j = ${soft}\\ \\text{over the best k keys}`,
    hard: "w_j = 1\\ \\text{for the key of the largest}\\ e_j,\\ \\text{else}\\ 0",
    local_monotonic: `w_j = ${soft}\\ \\text{over}\\ t - D \\le j \\le t + D`,
    local_predictive:
      "w_j = \\softmax(e)_j \\cdot \\exp( - \\frac{(j - p)^2}{2 \\sigma^2} ), \\quad \\sigma = D / 2, \\quad p = S \\cdot \\sigma(v^\\top \\tanh(W q))".replace(
        "S \\cdot \\sigma(",
        "S \\cdot \\text{sigmoid}(",
      ),
    monotonic: `w_j = p_j \\cdot r_j, \\quad r_j = (1 - p_{j-1}) r_{j-1} + w^{\\text{before}}_j, \\quad p_j = \\text{sigmoid}(${e} + b)`,
  }[align.name];
}

function alignNumbers({ align }, { scores, weights, allowed }, j, centre) {
  const hot = scores.map((x) => x / align.temperature);
  const among = hot.filter((x, i) => allowed[i] && x !== -Infinity);
  if (!allowed[j]) return "0 \\quad \\text{(masked)}";
  const sumOf = (term, list) => list.slice(0, SHOWN).map(term).join(" + ") + (list.length > SHOWN ? " + \\ldots" : "");
  switch (align.name) {
    case "softmax":
      return `\\frac{\\exp(${short(hot[j])})}{${sumOf((x) => `\\exp(${short(x)})`, among)}}`;
    case "sparsemax":
      return weights[j] > 0 ? `${short(hot[j])} - ${signed(hot[j] - weights[j])}` : "0";
    case "normalize":
      return Number.isFinite(scores[j])
        ? `\\frac{${number(Math.max(scores[j], 0))}}{${sumOf(
            (x) => number(Math.max(x, 0)),
            scores.filter((x, i) => allowed[i]),
          )}}`
        : "";
    case "share":
      return `\\frac{${short(hot[j])}}{${among.length}}`;
    case "sigmoid":
      return `\\frac{1}{1 + \\exp(${short(-hot[j])} - ${signed(align.offset)})}`;
    case "local_predictive":
      return Math.abs(j - centre) <= align.window
        ? `\\softmax(e)_j \\cdot \\exp( - \\frac{(${j} - ${short(centre)})^2}{2 \\cdot ${short(align.window / 2)}^2} )`
        : "0";
    default:
      return "";
  }
}

/** Three equations of one key, each as [with letters, with numbers]. */
export function equations(problem, result, j, centre) {
  const name = problem.score.name;
  const at = (tex) => tex.replaceAll("_j", `_{${j + 1}}`).replace(/k_\{(\d+)\}/g, "k_{$1}");
  const filled = scoreNumbers(problem, j);
  const weights = alignNumbers(problem, result, j, centre);
  const order = result.weights
    .map((w, i) => [w, i])
    .filter(([w]) => w !== 0)
    .sort((a, b) => b[0] - a[0]);
  const one = result.context.length === 1;
  const value = (i) => (one ? signed(problem.values[i][0]) : vector(problem.values[i]));
  const terms = order
    .slice(0, SHOWN)
    .sort((a, b) => a[1] - b[1])
    .map(([w, i]) => `${number(w)}${one ? " \\cdot " : "\\, "}${value(i)}`);
  const total = one ? number(result.context[0]) : `(${result.context.map((x) => number(x)).join(", ")})`;
  return [
    ["score", SCORE_TEX[name], `${at("e_j")} = ${filled} = ${number(Math.abs(result.scores[j]) < 1e-12 ? 0 : result.scores[j])}`],
    ["align", alignTex(problem.align), `${at("w_j")} = ${weights ? `${weights} = ` : ""}${number(result.weights[j])}`],
    [
      "context",
      "c = \\sum_j w_j v_j",
      `c = ${terms.length ? `${terms.join(" + ")}${order.length > SHOWN ? " + \\ldots" : ""} = ` : ""}${total}`,
    ],
  ];
}
