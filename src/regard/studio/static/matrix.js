// Pictures of weights between words: a matrix, ribbons, small squares of heads, the tree of a beam search.
import { drawn, element, format, inkOn, percent, shadeBytes, textWidth } from "./parts.js";

const LARGE = 54,
  CELL = 40,
  SMALL = 26;

// A matrix with its weights; `onPoint({row, column, weight} | null)` hears where the pointer or the keyboard is.
export function matrixPicture({ weights, rows, columns, theme, colour, label, onPoint = () => {}, onRow = () => {} }) {
  const most = Math.max(columns.length, rows.length),
    size = most > 16 ? SMALL : most > 9 ? CELL : LARGE,
    values = size !== SMALL;
  const left = Math.min(220, 14 + Math.max(0, ...rows.map((word) => textWidth(word)))),
    longest = Math.max(0, ...columns.map((word) => textWidth(word)));
  const slanted = longest > size - 6,
    top = slanted ? Math.min(150, 16 + longest * 0.75) : 26;
  const width = left + columns.length * size + (slanted ? Math.min(90, longest * 0.7) : 8),
    height = top + rows.length * size + 8;
  const picture = drawn("svg", { class: "picture", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const rowLabels = [],
    columnLabels = [];
  columns.forEach((word, column) => {
    const x = left + (column + 0.5) * size,
      y = top - 8;
    const text = drawn(
      "text",
      { x, y, "text-anchor": slanted ? "start" : "middle", ...(slanted ? { transform: `rotate(-45 ${x} ${y})` } : {}) },
      word,
    );
    columnLabels.push(text);
    picture.append(text);
  });
  rows.forEach((word, row) => {
    const text = drawn(
      "text",
      { x: left - 8, y: top + (row + 0.5) * size + 4, "text-anchor": "end", class: "label", onclick: () => onRow(row) },
      word,
    );
    rowLabels.push(text);
    picture.append(text);
    columns.forEach((_, column) => {
      const weight = weights[row][column];
      const cell = drawn("rect", {
        x: left + column * size,
        y: top + row * size,
        width: size - 1,
        height: size - 1,
        rx: 2,
        fill: colour(weight, theme),
        "data-row": row,
        "data-column": column,
        "data-weight": weight,
      });
      cell.append(drawn("title", {}, `${word} → ${columns[column]}: ${format(weight)}`));
      picture.append(cell);
      if (values && weight >= 0.005)
        picture.append(
          drawn(
            "text",
            {
              x: left + (column + 0.5) * size,
              y: top + (row + 0.5) * size + 3.5,
              "text-anchor": "middle",
              class: "value",
              style: { fill: inkOn(weight, theme) },
            },
            weight.toFixed(2).replace(/^0/, ""),
          ),
        );
    });
  });
  const mark = drawn("rect", { class: "mark", rx: 3, visibility: "hidden", height: size - 1, width: size - 1 });
  picture.append(mark);
  const point = (row, column) => {
    rowLabels.forEach((text, number) => text.classList.toggle("strong", number === row));
    columnLabels.forEach((text, number) => text.classList.toggle("strong", number === column));
    mark.setAttribute("visibility", row === null || column === null ? "hidden" : "visible");
    if (row === null || column === null) {
      onPoint(null);
      return;
    }
    mark.setAttribute("x", left + column * size);
    mark.setAttribute("y", top + row * size);
    onPoint({ row, column, weight: weights[row][column] });
  };
  const strongest = (values) => values.indexOf(Math.max(...values));
  const follow = (event) => {
    const cell = event.target.closest?.("[data-row]"),
      row = rowLabels.indexOf(event.target),
      column = columnLabels.indexOf(event.target);
    if (cell) point(Number(cell.dataset.row), Number(cell.dataset.column));
    else if (row >= 0) point(row, strongest(weights[row]));
    else if (column >= 0) point(strongest(weights.map((values) => values[column])), column);
  };
  for (const kind of ["pointermove", "pointerdown"]) picture.addEventListener(kind, follow);
  picture.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") point(null, null); // a finger leaves as soon as it is lifted
  });
  withArrows(picture, rows.length, columns.length, point);
  return { picture, point };
}

function withArrows(picture, rows, columns, point) {
  if (!rows || !columns) return;
  let row = 0,
    column = 0;
  picture.setAttribute("tabindex", "0");
  picture.addEventListener("focus", () => point(row, column));
  picture.addEventListener("blur", () => point(null, null));
  picture.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    row = Math.min(rows - 1, Math.max(0, row + move[0]));
    column = Math.min(columns - 1, Math.max(0, column + move[1]));
    point(row, column);
  });
}

// Two lines of words, with ribbons as wide as the weights; the pointer on a word shows its ribbons alone.
export function ribbonPicture({ weights, rows, columns, label, onPoint = () => {}, onRow = () => {} }) {
  const font = "15px system-ui, sans-serif",
    gap = 18;
  const line = (words) => {
    let x = 10;
    return words.map((word) => {
      const wide = textWidth(word, font),
        place = { x: x + wide / 2, wide };
      x += wide + gap;
      return place;
    });
  };
  const above = line(columns),
    below = line(rows),
    end = (places) => (places.length ? places.at(-1).x + places.at(-1).wide / 2 + 10 : 0);
  const width = Math.max(end(above), end(below), 120),
    height = 200;
  const shift = (places) => {
    const more = (width - end(places)) / 2;
    for (const place of places) place.x += more;
  };
  shift(above);
  shift(below);
  const picture = drawn("svg", { class: "picture", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const ribbons = [];
  weights.forEach((values, row) =>
    values.forEach((weight, column) => {
      if (weight < 0.02) return;
      const from = above[column].x,
        to = below[row].x;
      const path = drawn("path", {
        class: "ribbon",
        d: `M${from} 34 C${from} 110 ${to} 90 ${to} 166`,
        "stroke-width": Math.max(0.8, 14 * weight),
        "data-row": row,
        "data-column": column,
        "data-weight": weight,
        style: { stroke: "var(--accent)" },
      });
      path.append(drawn("title", {}, `${rows[row]} → ${columns[column]}: ${format(weight)}`));
      ribbons.push({ path, row, column, weight });
      picture.append(path);
    }),
  );
  const words = [];
  const show = (row, column) => {
    for (const each of ribbons) {
      const chosen = (row === null || each.row === row) && (column === null || each.column === column);
      each.path.style.opacity = chosen ? 0.25 + 0.6 * each.weight : 0.04;
    }
    for (const { text, row: own, column: other } of words)
      text.classList.toggle("strong", (row !== null && own === row) || (column !== null && other === column));
    if (row !== null) {
      const best = weights[row].indexOf(Math.max(...weights[row]));
      onPoint({ row, column: best, weight: weights[row][best] });
    } else if (column !== null) {
      const values = weights.map((each) => each[column]),
        best = values.indexOf(Math.max(...values));
      onPoint({ row: best, column, weight: values[best] });
    } else onPoint(null);
  };
  const write = (places, list, y, of) =>
    places.forEach((place, number) => {
      const own = of(number);
      const text = drawn(
        "text",
        {
          x: place.x,
          y,
          "text-anchor": "middle",
          class: "label",
          style: { fontSize: "15px" },
          tabindex: 0,
          role: "button",
          "aria-label": `${list[number]}: show where it looks`,
          onpointerenter: () => show(own.row, own.column),
          onpointerleave: () => show(null, null),
          onfocus: () => show(own.row, own.column),
          onblur: () => show(null, null),
          onclick: () => {
            if (own.row !== null) onRow(own.row);
          },
        },
        list[number],
      );
      words.push({ text, ...own });
      picture.append(text);
    });
  write(above, columns, 26, (number) => ({ row: null, column: number }));
  write(below, rows, 186, (number) => ({ row: number, column: null }));
  show(null, null);
  return { picture, point: (row) => show(row, null) };
}

// A line for each layer, a small square for each head, below its number. `chosen` and `cleanest` are "layer/head".
export function headSquares({ layers, chosen, cleanest, theme, onChoose }) {
  const most = Math.max(...layers.map((layer) => layer.heads.length));
  const numbers = Array.from({ length: most }, (_, head) => element("i", { "aria-hidden": "true" }, String(head)));
  const grid = element(
    "div",
    { class: "heads", role: "group", "aria-label": "Layers and heads" },
    element("div", { class: "row" }, element("span", {}, "head"), numbers),
  );
  for (const layer of layers) {
    const heads = layer.heads.map((weights, head) => {
      const key = `${layer.name}/${head}`,
        clean = key === cleanest,
        name = `${layer.name}, head ${head}${clean ? ", the cleanest" : ""}`;
      const canvas = element("canvas", {
        width: weights[0].length,
        height: weights.length,
        "aria-hidden": "true",
      });
      paint(canvas, weights, theme);
      return element(
        "button",
        {
          type: "button",
          title: name,
          "aria-label": name,
          "aria-pressed": String(key === chosen),
          "data-head": key,
          class: clean ? "clean" : null,
          onclick: () => onChoose(key),
        },
        canvas,
      );
    });
    grid.append(element("div", { class: "row" }, element("span", { title: layer.name }, layer.name), heads));
  }
  return grid;
}

export function paint(canvas, weights, theme) {
  const height = weights.length,
    width = weights[0]?.length ?? 0,
    largest = Math.max(1e-9, ...weights.map((row) => Math.max(0, ...row)));
  const context = canvas.getContext("2d"),
    image = context.createImageData(Math.max(1, width), Math.max(1, height));
  weights.forEach((row, y) => row.forEach((value, x) => image.data.set([...shadeBytes(value / largest, theme), 255], 4 * (y * width + x))));
  context.putImageData(image, 0, 0);
}

// How clean a head is: the mean of the largest weight of each row. 1 where each word looks at one word alone.
export const cleanness = (weights) => weights.reduce((total, row) => total + Math.max(...row), 0) / Math.max(1, weights.length);

// The tree of a beam search: a column for each step, the prefixes that were followed, the best path strong.
export function treePicture({ steps, best, word }) {
  const wide = 92,
    high = 40,
    places = new Map([[0, { x: 20, y: 0 }]]);
  const tallest = Math.max(1, ...steps.map((step) => step.prefixes.length)),
    height = tallest * high + 30,
    width = 60 + steps.length * wide;
  places.get(0).y = height / 2;
  const picture = drawn("svg", {
    class: "picture",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `Beam search: ${steps.length} steps, up to ${tallest} prefixes`,
  });
  const parents = new Set(steps.flatMap((step) => step.prefixes.map((prefix) => prefix.parent)));
  const edges = [],
    nodes = [];
  steps.forEach((step, number) => {
    const sorted = [...step.prefixes].sort((one, two) => two.log_prob - one.log_prob);
    sorted.forEach((prefix, place) => {
      const x = 20 + (number + 1) * wide,
        y = 24 + place * high + ((tallest - sorted.length) * high) / 2;
      places.set(prefix.node, { x, y });
      const from = places.get(prefix.parent) ?? places.get(0),
        strong = best.has(prefix.node);
      edges.push([
        strong,
        drawn("path", {
          class: `edge${strong ? " best" : ""}`,
          d: `M${from.x + 2} ${from.y} C${from.x + wide / 2} ${from.y} ${x - wide / 2} ${y} ${x - 34} ${y}`,
        }),
      ]);
      const dead = !parents.has(prefix.node) && number < steps.length - 1 && !strong;
      nodes.push(
        drawn(
          "g",
          { class: `node-of-tree${dead ? " dead" : ""}`, "data-node": prefix.node, "data-log-prob": prefix.log_prob },
          drawn("rect", {
            class: `node${strong ? " best" : ""}${dead ? " dead" : ""}`,
            x: x - 34,
            y: y - 15,
            width: 70,
            height: 30,
            rx: 6,
          }),
          drawn("text", { x: x + 1, y: y - 1, "text-anchor": "middle", style: { fontSize: "12px" } }, shorten(word(prefix.token), 10)),
          drawn(
            "text",
            { x: x + 1, y: y + 11, "text-anchor": "middle", class: "axis", style: { fontSize: "9.5px" } },
            format(prefix.log_prob, 2),
          ),
          drawn("title", {}, `${word(prefix.token)}: log-probability ${format(prefix.log_prob)}`),
        ),
      );
    });
  });
  edges.sort((one, two) => one[0] - two[0]);
  picture.append(
    ...edges.map(([, edge]) => edge),
    drawn("circle", { cx: 18, cy: height / 2, r: 4, style: { fill: "var(--muted)" } }),
    ...nodes,
  );
  return picture;
}

const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// Bars of BLEU by the length of the source, one colour for each model.
export function barPicture({ groups, series, colours }) {
  const bar = 16,
    wide = series.length * bar + 24,
    height = 190,
    floor = 150,
    width = 50 + groups.length * wide;
  const most = Math.max(1, ...series.flatMap((each) => each.values.filter((value) => value !== null)));
  const picture = drawn("svg", {
    class: "picture",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "BLEU by words of the source",
  });
  groups.forEach((label, group) => {
    series.forEach((each, number) => {
      const value = each.values[group];
      if (value === null || value === undefined) return;
      const tall = (value / most) * 120,
        x = 40 + group * wide + number * bar;
      picture.append(
        drawn(
          "rect",
          { x, y: floor - tall, width: bar - 2, height: tall, rx: 2, style: { fill: colours[number] }, "data-value": value },
          drawn("title", {}, `${each.name}, ${label} words: BLEU ${format(value, 1)}`),
        ),
        drawn(
          "text",
          { x: x + bar / 2 - 1, y: floor - tall - 4, "text-anchor": "middle", class: "value", style: { fill: "var(--ink)" } },
          value.toFixed(0),
        ),
      );
    });
    picture.append(
      drawn("text", { x: 40 + group * wide + (series.length * bar) / 2, y: floor + 16, "text-anchor": "middle", class: "axis" }, label),
    );
  });
  picture.append(drawn("text", { x: 40, y: height - 6, class: "axis" }, "words of the source → BLEU"));
  return picture;
}

export { percent };
