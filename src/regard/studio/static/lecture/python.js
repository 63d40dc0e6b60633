// The lines of Python that give the numbers of the bench.

const tensor = (value) => `torch.tensor(${JSON.stringify(value)}, dtype=torch.float64)`;

const float = (x) => (Number.isInteger(x) ? `${x}.0` : String(x));

function scoreLines({ score: s, keys }) {
  const two = { inverse_distance: "inverse_distance(query, keys)", log_inverse_distance: "inverse_distance(query, keys, log=True)" };
  switch (s.name) {
    case "general":
      return { from: ["general"], code: `general(query, keys, ${tensor(s.W)})` };
    case "additive":
      return { from: ["additive"], code: `additive(query @ ${tensor(s.W)}.T, keys @ ${tensor(s.U)}.T, ${tensor(s.v)})` };
    case "concat": {
      const d = keys[0].length;
      const [left, right] = [s.W.map((line) => line.slice(0, d)), s.W.map((line) => line.slice(d))];
      return { from: ["additive"], code: `additive(query @ ${tensor(left)}.T, keys @ ${tensor(right)}.T, ${tensor(s.v)})` };
    }
    case "cosine":
      return { from: ["cosine"], code: `cosine(query, keys, ${float(s.strength)})` };
    case "location":
      return { from: ["location"], code: `location(query, ${tensor(s.W)}, num_keys=len(keys))` };
    case "gaussian":
    case "log_gaussian":
      return {
        from: ["gaussian_kernel"],
        code: `gaussian_kernel(query, keys, bandwidth=${float(s.bandwidth)}${s.name === "gaussian" ? "" : ", log=True"})`,
      };
    case "negative_distance":
      return { from: [], code: "-torch.cdist(query, keys)" };
    case "leaky_additive":
      return { from: [s.name], code: `leaky_additive(query, keys, ${tensor(s.a)})` };
    case "graph_additive": {
      const d = keys[0].length;
      return { from: [s.name], code: `graph_additive(query, keys, ${tensor([s.a.slice(0, d), s.a.slice(d)])})` };
    }
    case "concatenation": {
      const d = keys[0].length;
      const half = (part) => `torch.tensor(${JSON.stringify(part)}, dtype=torch.float64)`;
      return { from: [], code: `(query @ ${half(s.a.slice(0, d))}[:, None] + keys @ ${half(s.a.slice(d))}).relu()` };
    }
    case "inverse_distance":
    case "log_inverse_distance":
      return { from: ["inverse_distance"], code: two[s.name] };
    default:
      return { from: [s.name], code: `${s.name}(query, keys)` };
  }
}

function alignLines({ align: a, place, start, keys }, masked) {
  const scores = a.temperature === 1 ? "scores" : `scores / ${a.temperature}`;
  const given = masked ? `${scores}, mask` : scores;
  const previous = tensor(keys.map((_, j) => (j === start ? 1 : 0)));
  switch (a.name) {
    case "entmax":
      return { from: ["entmax"], code: [`weights = entmax(${given}, alpha=${float(a.alpha)})`] };
    case "sigmoid":
      return { from: ["sigmoid"], code: [`weights = sigmoid(${given}, offset=${float(a.offset)})`] };
    case "top_k":
      return { from: ["TopK"], code: [`weights = TopK(${a.k})(${given}).weights`] };
    case "hard":
      return { from: ["Hard"], code: [`weights = Hard("argmax")(${given}).weights`] };
    case "local_monotonic":
      return { from: ["LocalMonotonic"], code: [`weights = LocalMonotonic(${a.window})(${given}, step=${place}).weights`] };
    case "monotonic":
      return {
        from: ["Monotonic"],
        code: [`weights = Monotonic(offset=${float(a.offset)}, noise=0.0)(${given}, previous=${previous}).weights`],
      };
    case "local_predictive":
      return {
        from: ["LocalPredictive"],
        code: [
          `align = LocalPredictive(query.shape[-1], window=${a.window}, hidden_dim=${a.v.length}).double()`,
          `align.to_hidden.weight.data, align.to_centre.weight.data = ${tensor(a.W)}, ${tensor([a.v])}`,
          `weights = align(${given}, query=query).weights`,
        ],
      };
    default:
      return { from: [a.name], code: [`weights = ${a.name}(${given})`] };
  }
}

export function pythonLines(problem) {
  const { query, keys, values, rules, place } = problem;
  const masks = [];
  if (rules.padding !== undefined) masks.push(`Mask.padding([${rules.padding}])`);
  if (rules.causal) masks.push("Mask.causal()");
  if (rules.window) masks.push(`Mask.window(${rules.window.join(", ")})`);
  const score = scoreLines(problem);
  const align = alignLines(problem, masks.length > 0);
  const n = keys.length;
  const batch = rules.padding !== undefined ? "[0]" : "";
  return [
    "import torch",
    ...(masks.length ? ["from regard import Mask"] : []),
    ...(align.from.length ? [`from regard.align import ${align.from.join(", ")}`] : []),
    ...(score.from.length ? [`from regard.score import ${score.from.join(", ")}`] : []),
    "",
    `query = ${tensor([query])}`,
    `keys = ${tensor(keys)}`,
    `values = ${tensor(values)}`,
    `scores = ${score.code}`,
    ...(masks.length ? [`mask = (${masks.join(" & ")}).dense(${n}, ${n}, rows=torch.tensor([${place}]))${batch}`] : []),
    ...align.code,
    "context = weights @ values",
  ].join("\n");
}
