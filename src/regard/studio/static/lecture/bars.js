// Keys, scores and weights as rows of numbers with bars; further columns compare other choices; shares of what was drawn.

import { make } from "./dom.js";
import { plain } from "./formulas.js";

function bar(kind) {
  const fill = make("span", { class: `fill ${kind}` });
  const number = make("span", { class: "amount" });
  const cell = make("td", { class: "weightbar" }, make("span", { class: "track" }, fill), number);
  return {
    cell,
    set(x, share = x) {
      if (cell.dataset.value === String(x)) return;
      fill.style.width = `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%`;
      number.textContent = plain(x);
      cell.dataset.value = String(x);
    },
  };
}

/** bars({pick(j), edit(name, j, axis, x)}) gives {element, draw(…)}; without `edit` the numbers of keys and values are text. */
export function bars({ pick, edit }) {
  const head = make("tr");
  const body = make("tbody");
  const table = make("table", { class: "bars" }, make("thead", {}, head), body);
  const element = make("div", { class: "sideways", tabindex: "0", role: "region", "aria-label": "scores and weights of all keys" }, table);
  let built = "";
  let rows = [];

  function vectorCell(name, j, vector, editable) {
    if (!editable) {
      const cell = make("td", { class: "vector" });
      return {
        cell,
        set(next) {
          cell.textContent = next.length > 2 ? "…" : next.map((x) => plain(x, 2).replace(/\.?0+$/, "")).join(", ");
        },
      };
    }
    const inputs = vector.map((_, axis) => {
      const label = `${name === "keys" ? "key" : "value"} ${j + 1}, number ${axis + 1}`;
      const input = make("input", { type: "number", step: "any", "aria-label": label });
      input.addEventListener("input", () => Number.isFinite(input.valueAsNumber) && edit(name, j, axis, input.valueAsNumber));
      return input;
    });
    return {
      cell: make("td", { class: "vector" }, ...inputs),
      set(next) {
        inputs.forEach((input, axis) => {
          if (document.activeElement !== input && input.value !== String(next[axis])) input.value = String(next[axis]);
        });
      },
    };
  }

  function build(problem, columns, withDraws) {
    const narrow = matchMedia("(max-width: 40rem)").matches; // then the numbers of keys and values stand last
    const titles = ["score", "weight", ...(withDraws ? ["share of the draws"] : []), ...columns.map(({ name }) => name)];
    titles[narrow ? "push" : "unshift"]("key", "value");
    titles.unshift("");
    head.replaceChildren(...titles.map((text) => make("th", { scope: "col", text })));
    rows = problem.keys.map((key, j) => {
      const name = make("button", {
        type: "button",
        class: "rowname",
        text: String(j + 1),
        onclick: () => pick(j),
        "aria-label": `show the formula of key ${j + 1}`,
      });
      const keyCell = vectorCell("keys", j, key, edit && !problem.drawn);
      const valueCell = vectorCell("values", j, problem.values[j], edit && !problem.drawn);
      const score = make("td", { class: "score" });
      const weight = bar("main");
      const share = withDraws ? bar("drawn") : null;
      const others = columns.map((_, i) => bar(`other other${i}`));
      const cells = [score, weight.cell, ...(share ? [share.cell] : []), ...others.map(({ cell }) => cell)];
      cells[narrow ? "push" : "unshift"](keyCell.cell, valueCell.cell);
      const row = make("tr", {}, make("td", {}, name), ...cells);
      return { row, keyCell, valueCell, score, weight, share, others, name };
    });
    const footer = make(
      "tr",
      { class: "sum" },
      make("td", { colspan: narrow ? "2" : "4", text: "context" }),
      make("td"),
      ...(withDraws ? [make("td")] : []),
      ...columns.map(() => make("td")),
    );
    body.replaceChildren(...rows.map(({ row }) => row), footer);
  }

  return {
    element,
    draw({ problem, result, columns, picked }) {
      const withDraws = Boolean(result.drawn);
      const shape = JSON.stringify([problem.keys.length, problem.query.length, problem.drawn, withDraws, columns.map(({ name }) => name)]);
      if (shape !== built) build(problem, columns, withDraws);
      built = shape;
      rows.forEach((parts, j) => {
        parts.row.classList.toggle("masked", !result.allowed[j]);
        parts.row.classList.toggle("picked", j === picked);
        parts.name.setAttribute("aria-pressed", String(j === picked));
        parts.keyCell.set(problem.keys[j]);
        parts.valueCell.set(problem.values[j]);
        parts.score.textContent = result.allowed[j] ? plain(Math.abs(result.scores[j]) < 1e-12 ? 0 : result.scores[j]) : "masked";
        parts.score.dataset.value = String(result.scores[j]);
        parts.weight.set(result.weights[j]);
        parts.share?.set(result.drawn.counts[j] / problem.samples);
        parts.others.forEach((other, i) => other.set(columns[i].result.weights[j]));
      });
      const cells = [...body.lastElementChild.children].slice(1);
      const drawnMean = withDraws
        ? [
            problem.values[0].map((_, d) =>
              result.drawn.counts.reduce((sum, n, j) => sum + (n / problem.samples) * problem.values[j][d], 0),
            ),
          ]
        : [];
      const contexts = [result.context, ...drawnMean, ...columns.map((column) => column.result.context)];
      contexts.forEach((context, i) => {
        cells[i].textContent = problem.drawn ? "" : context.map((x) => plain(x)).join(", ");
      });
    },
  };
}
