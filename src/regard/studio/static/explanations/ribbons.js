// Ribbons between the words of rows and columns, as wide as their weight: the second view of a matrix.

import { weightColour } from "../colours.js";
import { largest, shown, svg, told } from "./parts.js";

const LINE = 24,
  WIDEST = 15,
  MOST = 900; // pixels of the page; ribbons that are drawn at once

/** Draws the ribbons into an element; the SVG that it made. `point` is told a word that is pointed at, `choose` one that is clicked. */
export function drawRibbons(root, { explanation, matrix, rows, columns, spot, theme, wide, point, choose }) {
  const width = Math.max(280, Math.min(760, wide)),
    gutter = Math.min(180, 0.34 * width);
  const height = LINE * Math.max(rows.length, columns.length, 1) + LINE;
  const top = largest(matrix.flat) || 1,
    columnCount = matrix.shape[1];
  const middle = (count, place) => LINE + (height - LINE) * 0.5 - (LINE * count) / 2 + LINE * (place + 0.5);
  const y = {
    row: new Map(rows.map((row, place) => [row, middle(rows.length, place)])),
    column: new Map(columns.map((column, place) => [column, middle(columns.length, place)])),
  };
  const drawn = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    tabindex: 0,
    role: "application",
    "aria-label": "words of the columns on the left, words of the rows on the right; up and down choose a row, left and right a column",
  });
  drawn.append(
    svg("text", { x: gutter - 8, y: 14, "text-anchor": "end", class: "regard-head", "font-size": 11, text: "columns" }),
    svg("text", { x: width - gutter + 8, y: 14, "font-size": 11, text: "rows" }),
  );
  const ribbons = svg("g", { fill: "none" }),
    words = [];
  const strongest = rows
    .flatMap((row) => columns.map((column) => ({ row, column, weight: matrix.flat[row * columnCount + column] })))
    .filter(({ weight }) => weight > 0.02 * top)
    .sort((a, b) => b.weight - a.weight);
  const light = (now) => {
    const chosen = now
      ? strongest.filter(({ row, column }) => (now.row === null || row === now.row) && (now.column === null || column === now.column))
      : strongest;
    ribbons.replaceChildren(
      ...chosen.slice(0, MOST).map(({ row, column, weight }) => {
        const share = weight / top,
          half = width / 2,
          [from, to] = [y.column.get(column), y.row.get(row)];
        return svg(
          "path",
          {
            d: `M${gutter} ${from}C${half} ${from} ${half} ${to} ${width - gutter} ${to}`,
            stroke: weightColour(0.45 + 0.55 * share, theme),
            "stroke-width": Math.max(0.6, WIDEST * share).toFixed(2),
            "stroke-opacity": (0.25 + 0.6 * share).toFixed(3),
            data: { row, column, weight },
          },
          svg("title", { text: `${shown(explanation.rows[row])} ← ${shown(explanation.columns[column])} ${told(weight)}` }),
        );
      }),
    );
    for (const { node, side, place } of words) node.classList.toggle("regard-chosen", now?.[side] === place);
  };
  const word = (side, place, label) => {
    const start = side === "row",
      x = start ? width - gutter + 8 : gutter - 8;
    const text = shown(label),
      room = Math.max(3, Math.floor((gutter - 14) / 7.2));
    const spotHere = { row: null, column: null, [side]: place };
    const node = svg("text", {
      x,
      y: y[side].get(place) + 4.5,
      "text-anchor": start ? "start" : "end",
      "font-size": 13,
      text: text.length > room ? `${text.slice(0, room - 1)}…` : text,
      onpointerenter: () => {
        light(spotHere);
        point(spotHere);
      },
      onpointerleave: () => {
        light(spot);
        point(null);
      },
      onclick: () => choose(spotHere),
    });
    words.push({ node, side, place });
    return node;
  };
  drawn.append(
    ribbons,
    ...columns.map((place) => word("column", place, explanation.columns[place])),
    ...rows.map((place) => word("row", place, explanation.rows[place])),
  );
  light(spot);
  const focused = root.contains(document.activeElement),
    scrolled = root.scrollTop;
  root.replaceChildren(drawn);
  root.scrollTop = scrolled;
  if (focused) drawn.focus({ preventScroll: true });
  return drawn;
}
