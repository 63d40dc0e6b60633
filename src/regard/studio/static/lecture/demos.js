// Live views that are made for one step of the lecture alone.

import { interpolate, moveFocus, sharpen, sinusoid } from "../mechanism/index.js";
import { button, make, shape, slider } from "./dom.js";
import { plain } from "./formulas.js";
import { explanationView, load } from "./live.js";

/** A row of cells: darker is more. */
function strip(label, count) {
  const cells = Array.from({ length: count }, (_, i) => shape("rect", { x: i * 40 + 1, y: 1, width: 38, height: 26, class: "cell" }));
  const numbers = cells.map((_, i) => shape("text", { x: i * 40 + 20, y: 18, "text-anchor": "middle" }));
  const picture = shape("svg", { viewBox: `0 0 ${count * 40} 28`, class: "strip", role: "img" }, ...cells, ...numbers);
  const box = make("div", { class: "stripbox" }, make("span", { class: "stripname", text: label }), picture);
  return {
    box,
    set(values) {
      values.forEach((value, i) => {
        cells[i].setAttribute("fill-opacity", Math.min(1, Math.abs(value)).toFixed(3));
        numbers[i].textContent = plain(value, 2);
        numbers[i].setAttribute("class", Math.abs(value) > 0.55 ? "light" : "");
      });
      picture.setAttribute("aria-label", `${label}: ${values.map((x) => plain(x, 2)).join(", ")}`);
      box.dataset.values = JSON.stringify(values);
    },
  };
}

const CONTENT = [0.05, 0.05, 0.1, 0.05, 0.6, 0.05, 0.05, 0.05];
const START = [0, 0.9, 0.1, 0, 0, 0, 0, 0];

/** Gate, shift and sharpness of a neural Turing machine, step after step; and the tape of a trained one. */
export function addressing(root, { state, change, announce, theme }) {
  const now = { gate: 1, shift: 0, sharpness: 1 };
  const read = (given) => {
    for (const [key, otherwise] of [
      ["gate", 1],
      ["shift", 0],
      ["sharpness", 1],
    ])
      now[key] = given[key] === undefined || !Number.isFinite(Number(given[key])) ? otherwise : Number(given[key]);
  };
  read(state);
  let previous = START;
  const [before, content, mixed, moved, sharp] = ["weights before", "by content", "mixed by the gate", "moved", "sharpened"].map((label) =>
    strip(label, 8),
  );
  const shares = () => {
    const x = Math.max(-1, Math.min(1, now.shift));
    return [Math.max(0, -x), 1 - Math.abs(x), Math.max(0, x)];
  };
  let last = START;
  function draw() {
    const w1 = interpolate(CONTENT, previous, now.gate);
    const w2 = moveFocus(w1, shares());
    last = sharpen(w2, now.sharpness);
    before.set(previous);
    content.set(CONTENT);
    mixed.set(w1);
    moved.set(w2);
    sharp.set(last);
  }
  const controls = [
    ["gate", "gate g (0: go on, 1: by content)", 0, 1, 0.05],
    ["shift", "shift (−1: back, 1: on)", -1, 1, 0.05],
    ["sharpness", "sharpness γ", 1, 20, 0.5],
  ].map(([key, label, low, high, step]) =>
    slider(label, { low, high, step }, now[key], (value) => {
      now[key] = Number(value);
      control(key).set(value);
      draw();
      change({ [key]: value });
    }),
  );
  const control = (key) => controls[["gate", "shift", "sharpness"].indexOf(key)];
  const next = button("Next time step", () => {
    previous = last;
    draw();
    announce(`the largest weight is now at slot ${last.indexOf(Math.max(...last)) + 1}`);
  });
  const again = button("Start anew", () => {
    previous = START;
    draw();
  });
  root.append(
    make("div", { class: "controls" }, ...controls.map(({ box }) => box)),
    make("div", { class: "strips" }, ...[before, content, mixed, moved, sharp].map(({ box }) => box)),
    make("div", { class: "controls" }, next, again),
  );
  draw();
  root.append(make("h3", { text: "The tape of a trained machine that copies" }));
  const below = make("div");
  root.append(below);
  const tape = explanationView("machine")(below, { state, change, announce, theme });
  return {
    ready: tape.ready,
    update(given) {
      read(given);
      controls.forEach((each, i) => each.set(String(now[["gate", "shift", "sharpness"][i]])));
      draw();
      tape.update(given);
    },
    destroy: tape.destroy,
  };
}

const WIDTH = 32;
const PLACES = 40;

/** The sinusoids as a picture, and the product of two places by their distance. */
export function positions(root, { state, change }) {
  const table = Array.from({ length: PLACES }, (_, place) => sinusoid(place, WIDTH));
  const picture = shape("svg", {
    viewBox: `0 0 ${PLACES * 12} ${WIDTH * 6}`,
    class: "sinusoids",
    role: "img",
    "aria-label": `${WIDTH} numbers of ${PLACES} positions: fast waves at the top, slow ones at the bottom`,
  });
  table.forEach((row, place) =>
    row.forEach((x, i) => {
      picture.append(
        shape("rect", {
          x: place * 12,
          y: i * 6,
          width: 12,
          height: 6,
          class: x < 0 ? "below" : "above",
          "fill-opacity": Math.abs(x).toFixed(2),
        }),
      );
    }),
  );
  const marks = ["with", "without"].map((kind) => shape("rect", { y: 0, width: 12, height: WIDTH * 6, class: `placemark ${kind}` }));
  picture.append(...marks);
  const note = make("p", { class: "note", "aria-live": "polite" });
  const at = { first: 5, apart: 4 };
  const wave = shape("svg", {
    viewBox: "0 0 480 120",
    class: "chart",
    role: "img",
    "aria-label": "product of two positions by their distance",
  });
  const products = Array.from({ length: PLACES }, (_, apart) => table[0].reduce((total, x, i) => total + x * table[apart][i], 0));
  wave.append(
    shape("path", {
      class: "curve",
      d: products.map((x, i) => `${i ? "L" : "M"}${i * 12 + 6},${(100 - (x / (WIDTH / 2)) * 85).toFixed(1)}`).join(""),
    }),
  );
  const dot = shape("circle", { r: 5, class: "dot" });
  wave.append(
    dot,
    shape("text", { x: 6, y: 116, class: "tick", text: "distance 0" }),
    shape("text", { x: 474, y: 116, "text-anchor": "end", class: "tick", text: `distance ${PLACES - 1}` }),
  );
  function draw() {
    const second = Math.min(PLACES - 1, at.first + at.apart);
    marks[0].setAttribute("x", at.first * 12);
    marks[1].setAttribute("x", second * 12);
    const product = table[at.first].reduce((total, x, i) => total + x * table[second][i], 0);
    const apart = second - at.first;
    dot.setAttribute("cx", apart * 12 + 6);
    dot.setAttribute("cy", 100 - (products[apart] / (WIDTH / 2)) * 85);
    note.textContent = `PE(${at.first}) · PE(${second}) = ${plain(product)}: the places are ${apart} apart.`;
    note.dataset.value = String(product);
  }
  const controls = [
    ["first", "first place", 0, 30],
    ["apart", "distance", 0, 9],
  ]
    .map(([key, label, low, high]) =>
      slider(label, { low, high, step: 1 }, at[key], (value) => {
        at[key] = Math.round(Number(value));
        controls.find(([name]) => name === key)[1].set(value);
        draw();
        change({ [key]: value });
      }),
    )
    .map((each, i) => [["first", "apart"][i], each]);
  const take = (given) => {
    for (const [key, each] of controls) {
      const x = Number(given[key]);
      at[key] =
        given[key] !== undefined && Number.isInteger(x) && x >= 0 && x <= (key === "first" ? 30 : 9) ? x : { first: 5, apart: 4 }[key];
      each.set(String(at[key]));
    }
    draw();
  };
  root.append(make("div", { class: "controls" }, ...controls.map(([, { box }]) => box)), picture, note, wave);
  take(state);
  return { update: take };
}

/** Layers × heads as small squares; the chosen one is drawn large. */
export function headGrid(root, { state, change, announce, theme }) {
  const grid = make("div", { class: "headgrid", role: "group", "aria-label": "layers and heads" });
  const room = make("div", { class: "explanation" });
  const note = make("p", { class: "made" });
  root.append(grid, room, note);
  let drawn = null;
  let gone = false;
  let content = null;
  let own = { ...state };
  const place = () => [Math.min(content.explanations.length - 1, Math.max(0, Number(own.layer) || 0)), Math.max(0, Number(own.head) || 0)];
  let turn = 0;
  async function show() {
    turn += 1;
    const mine = turn;
    const [layer, head] = place();
    const whole = content.explanations[layer];
    const one = {
      ...whole,
      weights: { shape: whole.weights.shape.slice(1), values: whole.weights.values[head] ?? whole.weights.values[0] },
      title: `${whole.layer}, head ${head}`,
    };
    for (const each of grid.querySelectorAll("button"))
      each.setAttribute("aria-pressed", String(each.dataset.place === `${layer}.${head}`));
    const { drawExplanation } = await import("../explanations/index.js");
    if (gone || mine !== turn) return;
    drawn?.destroy();
    drawn = null;
    const sheet = make("div");
    room.replaceChildren(sheet);
    const made = await drawExplanation(sheet, one, { state: {}, setState() {}, announce, theme });
    if (gone || mine !== turn) made.destroy();
    else drawn = made;
  }
  const ready = load("heads").then(async (file) => {
    content = file;
    note.textContent = `Made by: ${file.from}, then model.layers(model.translate("I lost my keys."))`;
    file.explanations.forEach((each, layer) => {
      const row = make("div", { class: "headrow" }, make("span", { class: "stripname", text: `layer ${layer}` }));
      each.weights.values.forEach((rows, head) => {
        const [high, wide] = [rows.length, rows[0].length];
        const square = shape("svg", { viewBox: `0 0 ${wide * 6} ${high * 6}`, "aria-hidden": "true" });
        rows.forEach((row_, i) =>
          row_.forEach((w, j) =>
            square.append(shape("rect", { x: j * 6, y: i * 6, width: 6, height: 6, class: "cell", "fill-opacity": w.toFixed(3) })),
          ),
        );
        const best = Math.max(...rows.flat());
        row.append(
          make(
            "button",
            {
              type: "button",
              class: "head",
              "data-place": `${layer}.${head}`,
              "aria-label": `layer ${layer}, head ${head}, largest weight ${plain(best, 2)}`,
              onclick() {
                own = { ...own, layer: String(layer), head: String(head) };
                change({ layer: String(layer), head: String(head) });
                show();
              },
            },
            square,
          ),
        );
      });
      grid.append(row);
    });
    await show();
  });
  return {
    ready,
    update(next) {
      own = { ...next };
      if (content) show();
    },
    destroy() {
      gone = true;
      drawn?.destroy();
    },
  };
}
