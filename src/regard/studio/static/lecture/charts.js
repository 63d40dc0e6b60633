// Measured figures as charts with their tables: BLEU by length, and the table of costs.

import { make, shape, slider } from "./dom.js";
import { load } from "./live.js";
import { plain } from "./formulas.js";

function told(content) {
  return make("p", { class: "made", text: `Measured by: ${content.command} (${content.machine})` });
}
const tableOf = (titles, rows) =>
  make(
    "div",
    { class: "sideways" },
    make(
      "table",
      { class: "figures" },
      make("thead", {}, make("tr", {}, ...titles.map((text) => make("th", { scope: "col", text })))),
      make(
        "tbody",
        {},
        ...rows.map((row) =>
          make("tr", {}, ...row.map((text, i) => make(i ? "td" : "th", { ...(i ? {} : { scope: "row" }), text: String(text) }))),
        ),
      ),
    ),
  );

/** Two bars for each length. */
export function bleuByLength(root) {
  const ready = load("bleu_by_length").then((content) => {
    const rows = content.rows.filter(({ words }) => words !== "all");
    const [wide, high, floor] = [520, 250, 210];
    const y = (bleu) => floor - (bleu / 70) * 180;
    const chart = shape("svg", {
      viewBox: `0 0 ${wide} ${high}`,
      class: "chart",
      role: "img",
      "aria-label": "BLEU by length of the sentence, with and without attention; the numbers are in the table below",
    });
    for (const tick of [0, 20, 40, 60]) {
      chart.append(
        shape("line", { x1: 34, x2: wide - 10, y1: y(tick), y2: y(tick), class: "rule" }),
        shape("text", { x: 28, y: y(tick) + 4, "text-anchor": "end", class: "tick", text: tick }),
      );
    }
    rows.forEach((row, i) => {
      const left = 55 + i * 118;
      ["with", "without"].forEach((key, j) => {
        chart.append(shape("rect", { x: left + j * 40, width: 36, y: y(row[key]), height: floor - y(row[key]), class: key }));
        chart.append(shape("text", { x: left + j * 40 + 18, y: y(row[key]) - 4, "text-anchor": "middle", text: row[key].toFixed(1) }));
      });
      chart.append(shape("text", { x: left + 38, y: floor + 17, "text-anchor": "middle", text: `${row.words} words` }));
    });
    chart.append(
      shape("rect", { x: 40, y: high - 14, width: 11, height: 11, class: "with" }),
      shape("text", { x: 56, y: high - 4, text: "with attention" }),
      shape("rect", { x: 160, y: high - 14, width: 11, height: 11, class: "without" }),
      shape("text", { x: 176, y: high - 4, text: "without attention" }),
      shape("text", { x: 6, y: 16, class: "tick", text: "BLEU" }),
    );
    root.append(
      chart,
      tableOf(
        ["words of the source", "sentences", "with attention", "without", "gap"],
        content.rows.map((row) => [row.words, row.sentences, row.with.toFixed(1), row.without.toFixed(1), row.gap.toFixed(1)]),
      ),
      told(content),
    );
  });
  return { ready };
}

const WORK = {
  // multiplications of a layer, by Vaswani et al., table 1
  "self-attention": ({ n, d }) => n * n * d,
  recurrent: ({ n, d }) => n * d * d,
  convolution: ({ n, d, k }) => k * n * d * d,
  "restricted attention": ({ n, d, r }) => r * n * d,
};
const STEPS = { "self-attention": () => 1, recurrent: ({ n }) => n, convolution: () => 1, "restricted attention": () => 1 };
const PATH = {
  "self-attention": () => 1,
  recurrent: ({ n }) => n,
  convolution: ({ n, k }) => Math.ceil(Math.log(n) / Math.log(k)),
  "restricted attention": ({ n, r }) => Math.ceil(n / r),
};

const amount = (x) => (x >= 1e9 ? `${plain(x / 1e9, 1)} G` : x >= 1e6 ? `${plain(x / 1e6, 1)} M` : `${plain(x / 1e3, 1)} k`);

export function costTable(root, { state, change }) {
  const size = { n: Number(state.n) || 64, d: Number(state.d) || 512, k: 3, r: 16 };
  const body = make("tbody");
  const summary = make("p", { class: "note", "aria-live": "polite" });
  const bars = make(
    "table",
    { class: "bars costs" },
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        ...["layer", "work", "", "steps one after another", "longest way between two words"].map((text) =>
          make("th", { scope: "col", text }),
        ),
      ),
    ),
    body,
  );
  function drawWork() {
    const all = Object.entries(WORK).map(([name, work]) => [name, work(size), STEPS[name](size), PATH[name](size)]);
    const most = Math.max(...all.map(([, work]) => work));
    body.replaceChildren(
      ...all.map(([name, work, steps, path]) => {
        const fill = make("span", { class: "fill main" });
        fill.style.width = `${(100 * work) / most}%`;
        const cell = make("td", { class: "weightbar" }, make("span", { class: "track wide" }, fill));
        cell.dataset.value = String(work);
        return make(
          "tr",
          {},
          make("th", { scope: "row", text: name }),
          make("td", { class: "score", text: amount(work) }),
          cell,
          make("td", { text: String(steps) }),
          make("td", { text: String(path) }),
        );
      }),
    );
    const ratio = size.n / size.d;
    summary.textContent = `With n = ${size.n} and d = ${size.d}, self-attention does ${ratio < 1 ? `1 / ${plain(1 / ratio, 1)}` : plain(ratio, 1)} of the work of a recurrent layer. Kernel k = ${size.k}, window r = ${size.r}.`;
  }
  const controls = ["n", "d"].map((name) => {
    const control = slider(name === "n" ? "length n, words" : "width d", { low: 8, high: 4096, scale: "log" }, size[name], (value) => {
      size[name] = Math.round(Number(value));
      control.set(String(size[name]));
      drawWork();
      change({ [name]: String(size[name]) });
    });
    return control;
  });
  drawWork();
  const measured = make("div");
  root.append(
    make("div", { class: "controls" }, ...controls.map(({ box }) => box)),
    make("div", { class: "sideways" }, bars),
    summary,
    measured,
  );
  const ready = load("costs").then((content) => {
    measured.append(
      make("h3", { text: "Measured exponents" }),
      tableOf(
        ["layer", "theory", "of n", "of d", "of k", "of r"],
        content.rows.map((row) => [
          row.layer,
          row.theory,
          ...["n", "d", "k", "r"].map((axis) => (row[axis] === undefined ? "" : row[axis].toFixed(2))),
        ]),
      ),
      told(content),
    );
  });
  return {
    ready,
    update(next) {
      [size.n, size.d] = [Number(next.n) || 64, Number(next.d) || 512];
      controls.forEach((control, i) => control.set(String([size.n, size.d][i])));
      drawWork();
    },
  };
}
