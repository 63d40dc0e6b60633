// The bench: keys, values and a query that can be moved; scores, weights and context beside them; the formulas with numbers.
// The playground has all of its controls, steps of the lecture some of them.

import { centre, centreShare } from "../mechanism/index.js";
import { bars } from "./bars.js";
import { controls } from "./controls.js";
import { button, make } from "./dom.js";
import { equations, plain } from "./formulas.js";
import { math } from "./mathml.js";
import { plane } from "./plane.js";
import { pythonLines } from "./python.js";
import { compared, curve, matrix, MOST_KEYS, read, resolve, solve, words } from "./state.js";

const numbers = (xs) => xs.map((x) => plain(x, 2)).join(", ");

/**
 * bench({state, change(patch, {lasting}), shown, announce}) gives {element, update(state)}. `change` is told each new
 * word of the state; `lasting` is false while a point is being dragged. `shown` names the controls; all, unless told.
 */
export function bench({ state, change, shown, python = true, announce = () => {} }) {
  let given = { ...state };
  let full = resolve(given);
  const element = make("div", { class: "bench" });
  const planes = make("div", { class: "planes" });
  const formula = make("div", { class: "formulas", "aria-label": "formulas with the numbers put in" });
  const stages = [0, 1, 2].map(() => {
    const parts = { name: make("span", { class: "stage" }), cells: [make("span"), make("span")] };
    formula.append(make("div", { class: "formula" }, parts.name, ...parts.cells));
    return parts;
  });
  const note = make("p", { class: "note", role: "status" });
  const temper = make("p", { class: "temper", role: "status" });
  const code = make("code");
  const edits = make("div", { class: "edits" }, button("Add a key", addKey), button("Take the last key away", dropKey));
  const panel = controls({ shown, set });
  const table = bars({ pick: (j) => set({ pick: String(j) }), edit: shown ? undefined : edit });
  let views = null;
  let line = false;

  function set(patch, { lasting = true } = {}) {
    given = { ...given, ...patch };
    for (const [key, value] of Object.entries(given)) if (value === undefined) delete given[key];
    draw();
    change(patch, { lasting });
  }

  const put = (name, j, point) => {
    const rows = matrix(full[name]);
    rows[j] = point;
    return words(rows);
  };
  /** A number of the table was typed. */
  function edit(name, j, at, x) {
    const rows = matrix(full[name]);
    rows[j][at] = x;
    set({ [name]: words(rows) });
  }
  function move(name, [x, y]) {
    const [kind, j] = [name[0], Number(name.slice(1))];
    if (kind === "q") set({ query: words([line ? [x] : [x, y]]) });
    else if (line) set({ keys: put("keys", j, [x]), values: put("values", j, [y]) });
    else set({ [kind === "k" ? "keys" : "values"]: put(kind === "k" ? "keys" : "values", j, [x, y]) });
  }
  const pick = (name) => name[0] !== "q" && set({ pick: name.slice(1) });

  function makePlanes() {
    const area = full.area.split(",").map(Number);
    views = line
      ? [plane({ title: "keys along the line, values upwards", axes: ["key", "value"], area, move, pick })]
      : [
          plane({ title: "keys and query", axes: ["keys and query", ""], area, move, pick }),
          plane({ title: "values and context", axes: ["values and context", ""], area: full.valueArea.split(",").map(Number), move, pick }),
        ];
    planes.replaceChildren(...views.map((view) => view.element));
  }

  function addKey() {
    const keys = matrix(full.keys);
    if (keys.length >= MOST_KEYS) return announce(`There are ${MOST_KEYS} keys, and no more fit`);
    const [x0, x1] = full.area.split(",").map(Number);
    const spot = (j) => Number((x0 + (x1 - x0) * ((0.37 * (j + 1)) % 1)).toFixed(2));
    const key = keys[0].map((_, i) => spot(keys.length + 2 * i));
    const value = line ? [matrix(full.values)[keys.length - 1][0]] : key;
    return set({ keys: words([...keys, key]), values: words([...matrix(full.values), value]) });
  }
  function dropKey() {
    const keys = matrix(full.keys);
    if (keys.length <= 1) return;
    set({ keys: words(keys.slice(0, -1)), values: words(matrix(full.values).slice(0, -1)), pick: undefined });
  }

  const pointText = (what, j, at, weight, masked) =>
    `${what} ${j + 1} at ${numbers(at)}, ${masked ? "masked" : `weight ${plain(weight)}`}; the arrow keys move it`;

  function drawLine(problem, result, picked) {
    const [low, high] = full.area.split(",").map(Number);
    const points = problem.keys.map((key, j) => ({
      name: `k${j}`,
      kind: "key",
      label: String(j + 1),
      at: [key[0], problem.values[j][0]],
      weight: result.weights[j],
      masked: !result.allowed[j],
      picked: j === picked,
      text: pointText("key and value", j, [key[0], problem.values[j][0]], result.weights[j], !result.allowed[j]),
    }));
    const [x0, , bottom] = full.area.split(",").map(Number);
    const base = bottom;
    points.push({
      name: "q",
      kind: "query",
      label: "query",
      at: [problem.query[0], base],
      only: "x",
      text: `query at ${numbers(problem.query)}; the arrow keys move it`,
    });
    points.push({
      name: "c",
      kind: "context",
      label: `context ${plain(result.context[0], 2)}`,
      at: [problem.query[0], result.context[0]],
      fixed: true,
      text: `context ${plain(result.context[0])}`,
    });
    const context = [problem.query[0], result.context[0]];
    const lines = problem.keys.map((key, j) => ({ from: context, to: [key[0], problem.values[j][0]], weight: result.weights[j] }));
    lines.push({ from: [problem.query[0], base], to: context, weight: 0.08, kind: "plumb" });
    const path = curve(problem, low, high).map(([x, found]) => [x, found.context[0]]);
    views[0].draw({ points, lines, curves: [{ at: path }] });
    return x0;
  }

  function drawPlanes(problem, result, picked) {
    const { keys, values, query } = problem;
    const keyPoints = keys.map((at, j) => ({
      name: `k${j}`,
      kind: "key",
      label: `k${j + 1}`,
      at,
      weight: result.weights[j],
      masked: !result.allowed[j],
      picked: j === picked,
      text: pointText("key", j, at, result.weights[j], !result.allowed[j]),
    }));
    keyPoints.push({ name: "q", kind: "query", label: "query", at: query, text: `query at ${numbers(query)}; the arrow keys move it` });
    const valuePoints = values.map((at, j) => ({
      name: `v${j}`,
      kind: "key",
      label: `v${j + 1}`,
      at,
      weight: result.weights[j],
      masked: !result.allowed[j],
      picked: j === picked,
      text: pointText("value", j, at, result.weights[j], !result.allowed[j]),
    }));
    valuePoints.push({
      name: "c",
      kind: "context",
      label: "context",
      at: result.context,
      fixed: true,
      text: `context at ${numbers(result.context)}`,
    });
    views[0].draw({ points: keyPoints, lines: keys.map((at, j) => ({ from: query, to: at, weight: result.weights[j] })) });
    views[1].draw({ points: valuePoints, lines: values.map((at, j) => ({ from: result.context, to: at, weight: result.weights[j] })) });
  }

  function drawFormula(problem, result, picked) {
    const middle = problem.align.name === "local_predictive" ? predicted(problem, result) : undefined;
    equations(problem, result, picked, middle).forEach(([name, ...lines], i) => {
      stages[i].name.textContent = name;
      lines.forEach((tex, j) => {
        const cell = stages[i].cells[j];
        if (cell.dataset.tex === tex) return;
        cell.dataset.tex = tex;
        cell.replaceChildren(math(tex, { block: false }));
      });
    });
  }
  const predicted = ({ query, align }, { allowed, scores }) =>
    centre(
      allowed.map((open, j) => open && scores[j] !== -Infinity),
      centreShare(query, align),
    );

  function draw() {
    full = resolve(given);
    const problem = read(full);
    const result = solve(problem);
    const picked = full.pick !== "" && Number(full.pick) < problem.keys.length ? Number(full.pick) : best(result.weights);
    const oneLine = !problem.drawn && problem.query.length === 1;
    planes.hidden = problem.drawn;
    edits.hidden = problem.drawn;
    if (!problem.drawn) {
      if (!views || oneLine !== line) {
        line = oneLine;
        makePlanes();
      }
      views[0].setArea(full.area.split(",").map(Number));
      views[1]?.setArea(full.valueArea.split(",").map(Number));
      (line ? drawLine : drawPlanes)(problem, result, picked);
    }
    const columns = compared(full).map(({ name, problem: other }) => ({ name, result: solve(other), problem: other }));
    table.draw({ problem, result, columns, picked, full });
    drawFormula(problem, result, picked);
    panel.draw(full, problem);
    const total = result.weights.reduce((sum, w) => sum + w, 0);
    const empty = result.weights.every((w) => w === 0);
    note.textContent = empty
      ? "No key may be looked at, so all weights and the context are zero."
      : `The weights add up to ${plain(total)}${problem.align.name === "local_predictive" ? `; the predicted centre is at key ${plain(predicted(problem, result) + 1, 2)}` : ""}.${problem.drawn ? "" : ` Context: ${numbers3(result.context)}.`}`;
    const hot = panel.shows("temperature");
    temper.hidden = !hot || empty;
    if (hot) temper.textContent = temperatureLine(result);
    element.dataset.result = JSON.stringify({ ...result, scores: result.scores.map(String), drawn: undefined });
    if (code.closest("details")?.open) code.textContent = pythonLines(problem);
    return problem;
  }
  /** What the temperature has done to the largest weight. */
  function temperatureLine(result) {
    const most = ({ weights }) => plain(Math.max(...weights)),
      told = "A temperature below 1 makes the weights sharper, one above 1 more even.";
    if (Number(full.temperature) === 1) return `${told} The largest weight is ${most(result)}.`;
    const before = most(solve(read({ ...full, temperature: "1" })));
    return `${told} The largest weight was ${before} with T = 1, and is ${most(result)} with T = ${full.temperature}.`;
  }
  const numbers3 = (xs) => xs.map((x) => plain(x)).join(", ");
  const best = (weights) => weights.reduce((top, w, j) => (w > weights[top] ? j : top), 0);

  const details = make(
    "details",
    {
      class: "python",
      ontoggle: () => {
        code.textContent = pythonLines(read(full));
      },
    },
    make("summary", { text: "The same in Python" }),
    make("pre", {}, code),
  );
  element.append(panel.element, temper, planes, table.element, note, formula, panel.further);
  if (!shown) element.append(edits);
  if (python) element.append(details);
  draw();

  return {
    element,
    update(next) {
      given = { ...next };
      draw();
    },
    get state() {
      return { ...given };
    },
    /** What a picture of the bench shows: the planes, or the table where vectors are too wide for them. */
    get picture() {
      return planes.hidden ? table.element : planes;
    },
    get numbers() {
      return { state: { ...full }, ...solve(read(full)) };
    },
  };
}
