// A plane with points that can be dragged: by mouse, by finger, and with the arrow keys.

import { shape } from "./dom.js";
import { plain } from "./formulas.js";

const WIDE = 400;
const HIGH = 340;
const EDGE = 30;

const STARS = {
  // half a side of a mark, as a path around 0, 0
  key: "M-6,0A6,6 0 1,0 6,0A6,6 0 1,0 -6,0",
  query: "M0,-9L9,0L0,9L-9,0Z",
  context: "M-8,-8H8V8H-8Z",
};

/** Ticks at round numbers: at most about eight. */
function ticks(low, high) {
  const rough = (high - low) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((x) => x * power).find((x) => x >= rough);
  const all = [];
  for (let x = Math.ceil(low / step) * step; x <= high + 1e-9; x += step) all.push(Number(x.toFixed(9)));
  return [all, step];
}

/**
 * plane({title, axes: [across, up], area: [x0, x1, y0, y1], move(name, [x, y]), pick(name)}) gives
 * {element, draw({points, lines, curve, marks})}. A point is {name, kind, label, at: [x, y], weight, masked, text, fixed, only}.
 */
export function plane({ title, axes, area, move, pick }) {
  let [left, right, bottom, top] = area;
  const toX = (x) => EDGE + ((x - left) / (right - left)) * (WIDE - 2 * EDGE);
  const toY = (y) => HIGH - EDGE - ((y - bottom) / (top - bottom)) * (HIGH - 2 * EDGE);
  const grid = shape("g", { class: "gridlines" });
  const under = shape("g", { class: "lines" });
  const over = shape("g", { class: "points" });
  const element = shape("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "plane", role: "group", "aria-label": title }, grid, under, over);
  const nodes = new Map();
  const places = new Map();
  let held = null;

  function drawGrid() {
    const [across, up] = [ticks(left, right)[0], ticks(bottom, top)[0]];
    const lines = [];
    for (const x of across) {
      lines.push(shape("line", { x1: toX(x), x2: toX(x), y1: EDGE, y2: HIGH - EDGE, class: x === 0 ? "zero" : "" }));
      lines.push(shape("text", { x: toX(x), y: HIGH - EDGE + 14, class: "tick", "text-anchor": "middle", text: plain(x, 0) }));
    }
    for (const y of up) {
      lines.push(shape("line", { x1: EDGE, x2: WIDE - EDGE, y1: toY(y), y2: toY(y), class: y === 0 ? "zero" : "" }));
      lines.push(shape("text", { x: EDGE - 5, y: toY(y) + 3.5, class: "tick", "text-anchor": "end", text: plain(y, 0) }));
    }
    lines.push(shape("text", { x: WIDE - EDGE, y: HIGH - 4, class: "name", "text-anchor": "end", text: axes[0] }));
    lines.push(shape("text", { x: EDGE, y: EDGE - 10, class: "name", text: axes[1] }));
    grid.replaceChildren(...lines);
  }

  const within = ([x, y]) => [Math.min(right, Math.max(left, x)), Math.min(top, Math.max(bottom, y))];
  const rounded = (xy) =>
    within(xy).map((x, i) => {
      const fine = ticks(...(i === 0 ? [left, right] : [bottom, top]))[1] / 100;
      return Number((Math.round(x / fine) * fine).toFixed(6));
    });
  function pointed(event) {
    const frame = element.getScreenCTM().inverse();
    const spot = new DOMPoint(event.clientX, event.clientY).matrixTransform(frame);
    return [
      left + ((spot.x - EDGE) / (WIDE - 2 * EDGE)) * (right - left),
      bottom + ((HIGH - EDGE - spot.y) / (HIGH - 2 * EDGE)) * (top - bottom),
    ];
  }
  const moved = (name, xy) => {
    const { only, at } = places.get(name);
    const to = rounded(xy);
    if (only === "x") to[1] = at[1];
    move(name, to);
  };

  function makePoint(point) {
    const mark = shape("path", { d: STARS[point.kind] });
    const halo = shape("circle", { class: "halo" });
    const label = shape("text", { class: "pointname", text: point.label });
    const node = shape(
      "g",
      { class: `point ${point.kind}`, "data-name": point.name },
      halo,
      shape("circle", { class: "reach", r: 16 }),
      mark,
      label,
    );
    if (!point.fixed) {
      node.setAttribute("tabindex", "0");
      node.setAttribute("role", "button");
      node.setAttribute("aria-roledescription", "point that can be moved");
      node.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        node.setPointerCapture(event.pointerId);
        node.focus({ preventScroll: true });
        const at = pointed(event);
        const start = places.get(point.name).at;
        held = { name: point.name, shift: [start[0] - at[0], start[1] - at[1]] };
        pick?.(point.name);
      });
      node.addEventListener("pointermove", (event) => {
        if (held?.name !== point.name) return;
        const at = pointed(event);
        moved(point.name, [at[0] + held.shift[0], at[1] + held.shift[1]]);
      });
      for (const end of ["pointerup", "pointercancel", "lostpointercapture"])
        node.addEventListener(end, () => {
          held = null;
        });
      node.addEventListener("keydown", (event) => {
        const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
        if (event.key === "Enter" || event.key === " ") pick?.(point.name);
        if (!way && event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        if (!way) return;
        const at = places.get(point.name).at;
        const size = [ticks(left, right)[1], ticks(bottom, top)[1]].map((x) => (event.shiftKey ? x / 2 : x / 20));
        moved(point.name, [at[0] + way[0] * size[0], at[1] + way[1] * size[1]]);
      });
    }
    over.append(node);
    return { node, halo, mark, label };
  }

  function drawPoint(point) {
    places.set(point.name, point);
    let parts = nodes.get(point.name);
    if (!parts) {
      parts = makePoint(point);
      nodes.set(point.name, parts);
    }
    const { node, halo, label } = parts;
    const [x, y] = within(point.at);
    node.setAttribute("transform", `translate(${toX(x).toFixed(2)},${toY(y).toFixed(2)})`);
    node.classList.toggle("masked", Boolean(point.masked));
    node.classList.toggle("picked", Boolean(point.picked));
    node.classList.toggle("outside", x !== point.at[0] || y !== point.at[1]);
    const weight = Math.min(1, Math.abs(point.weight ?? 0));
    halo.setAttribute("r", (6 + 20 * Math.sqrt(weight)).toFixed(2));
    halo.setAttribute("fill-opacity", (0.12 + 0.6 * weight).toFixed(3));
    halo.style.display = point.weight === undefined || weight === 0 ? "none" : "";
    label.textContent = point.label;
    const right_ = toX(x) > WIDE - 60;
    label.setAttribute("x", right_ ? -12 : 12);
    label.setAttribute("text-anchor", right_ ? "end" : "start");
    label.setAttribute("y", -8);
    node.setAttribute("aria-label", point.text);
  }

  drawGrid();
  return {
    element,
    setArea(next) {
      if (next.every((x, i) => x === [left, right, bottom, top][i])) return;
      [left, right, bottom, top] = next;
      drawGrid();
    },
    draw({ points, lines = [], curves = [] }) {
      const names = new Set(points.map((point) => point.name));
      for (const [name, { node }] of nodes) {
        if (names.has(name)) continue;
        node.remove();
        nodes.delete(name);
        places.delete(name);
      }
      points.forEach(drawPoint);
      const drawn = lines
        .filter(({ weight }) => Math.abs(weight) > 0.002)
        .map(({ from, to, weight, kind = "" }) => {
          const [[x1, y1], [x2, y2]] = [within(from), within(to)];
          return shape("line", {
            x1: toX(x1).toFixed(2),
            y1: toY(y1).toFixed(2),
            x2: toX(x2).toFixed(2),
            y2: toY(y2).toFixed(2),
            class: `tie ${kind}`,
            "stroke-width": (0.6 + 6 * Math.min(1, Math.abs(weight))).toFixed(2),
            "stroke-opacity": (0.25 + 0.6 * Math.min(1, Math.abs(weight))).toFixed(3),
          });
        });
      for (const { at, kind } of curves) {
        const d = at
          .map(([x, y], i) => `${i ? "L" : "M"}${toX(x).toFixed(1)},${toY(Math.min(top, Math.max(bottom, y))).toFixed(1)}`)
          .join("");
        drawn.unshift(shape("path", { d, class: `curve ${kind ?? ""}` }));
      }
      under.replaceChildren(...drawn);
    },
  };
}
