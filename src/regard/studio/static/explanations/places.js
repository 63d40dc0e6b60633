// Weights over the places of a picture: the overlay of each word of a caption, or of the place that is pointed at.

import {
  asTable,
  bdi,
  best,
  choice,
  el,
  frame,
  largest,
  nothing,
  numbers,
  shown,
  slices,
  slider,
  spoken,
  tick,
  told,
  whole,
} from "./parts.js";
import { loadPicture, overlay, paint, ring, scaleOf } from "./picture.js";

const BUTTONS = 60; // words that have a button each; of more, a slider chooses

export const draw = (root, explanation, options) => drawPlaces(root, explanation, options);

/** Draws places; `seen` are the cells of each that could be looked at, where that is not the whole grid. */
export function drawPlaces(root, explanation, options, seen = null) {
  const grids = slices(numbers(explanation.weights)),
    count = grids.length;
  const label = seen ? "blocks of a picture" : "places of a picture";
  if (!count || !grids[0].flat.length) return nothing(root, explanation, label);
  const [down, across] = grids[0].shape,
    labels = explanation.labels ?? [],
    raster = explanation.grid ?? null;
  const name = (place) =>
    labels.length
      ? shown(labels[place])
      : raster
        ? `row ${Math.floor(place / raster[1]) + 1}, column ${(place % raster[1]) + 1}`
        : `place ${place + 1}`;
  let picture = null,
    spots = null,
    box = null,
    scale = 1,
    pointed = null,
    here = null;
  const first = raster && !labels.length ? Math.floor(raster[0] / 2) * raster[1] + Math.floor(raster[1] / 2) : 0;
  const chosen = () => pointed ?? whole(at.values.word, 0, count - 1, first);

  const at = frame(root, explanation, options, {
    label,
    repaint,
    name: () => `${explanation.kind} ${explanation.title} ${name(chosen())}`,
    hint:
      raster || explanation.points
        ? "Point at the picture, or press the arrow keys: yellow is where the ringed place looks."
        : "Point at a word, or press the arrow keys: yellow over the grey picture is where it looks. Point at the picture to read a weight.",
  });
  const smooth = tick("smooth", false, (on) => at.change({ smooth: on ? "yes" : undefined }));
  const canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": `picture; arrow keys choose what looks` });
  const board = el("div", { class: "regard-picture" }, canvas);
  const choose = (place, later = false) => {
    pointed = null;
    at.change({ word: place }, later);
    options.announce?.(spoken(at.readout.textContent));
  };
  let words = null;
  if (count > 1 && count <= BUTTONS && (labels.length || !raster)) {
    words = choice(
      "words",
      labels.length ? labels.map((text, place) => [place, shown(text)]) : grids.map((_, place) => [place, String(place + 1)]),
      0,
      (place) => choose(Number(place)),
    );
    words.classList.add("regard-words");
    [...words.children].forEach((button, place) => {
      button.dir = "auto";
      button.addEventListener("pointerenter", () => {
        pointed = place;
        repaint();
      });
      button.addEventListener("pointerleave", () => {
        pointed = null;
        repaint();
      });
    });
    at.stage.append(words);
  } else if (count > 1) {
    words = slider("place", [0, count - 1], 0, name, (place) => choose(place, true));
    at.bar.append(words);
  }
  at.bar.append(smooth);
  at.stage.append(board);
  at.figure.append(
    asTable("the weights of this one as a table", ["", ...Array.from({ length: across }, (_, n) => `column ${n + 1}`)], () =>
      Array.from({ length: down }, (_, row) => [
        `row ${row + 1}`,
        ...[...grids[chosen()].flat.slice(row * across, (row + 1) * across)].map(told),
      ]),
    ),
  );

  function shares(place) {
    const { flat } = grids[place],
      even = raster && !flat.some((value) => value < 0) ? flat.reduce((sum, value) => sum + value, 0) / flat.length : 0;
    const above = flat.map((value) => Math.max(0, value - even)),
      top = largest(above);
    return above.map((value) => (top > 1e-9 * Math.abs(even) ? value / top : 0));
  }

  function repaint() {
    if (!picture) return;
    const place = chosen();
    scale = scaleOf(picture, at.stage);
    const pen = paint(canvas, picture.grey, scale),
      area = { x: box[0] * scale, y: box[1] * scale, width: box[2] * scale, height: box[3] * scale };
    if (seen) {
      pen.fillStyle = "rgba(0, 0, 0, .55)";
      const [wide, high] = [area.width / across, area.height / down];
      seen[place].flat.forEach(
        (known, n) => known || pen.fillRect(area.x + (n % across) * wide, area.y + Math.floor(n / across) * high, wide, high),
      );
    }
    overlay(pen, shares(place), [down, across], area, at.values.smooth === "yes");
    if (spots) ring(pen, (spots[place][1] + 0.5) * scale, (spots[place][0] + 0.5) * scale);
    if (here !== null) {
      pen.strokeStyle = "#ffffff";
      pen.lineWidth = 1.5;
      pen.strokeRect(
        area.x + ((here % across) * area.width) / across,
        area.y + (Math.floor(here / across) * area.height) / down,
        area.width / across,
        area.height / down,
      );
    }
    words?.set(place);
    smooth.input.checked = at.values.smooth === "yes";
    tell(place);
  }

  function tell(place) {
    const { flat } = grids[place],
      [most] = best(flat, 1),
      where = (cell) => `row ${Math.floor(cell / across) + 1}, column ${(cell % across) + 1}`;
    at.readout.dataset.weight = flat[most];
    const parts = [
      bdi(name(place)),
      ` (${place + 1} of ${count}) looks most at ${where(most)} of ${down} × ${across}: `,
      el("b", { text: told(flat[most]) }),
    ];
    if (seen)
      parts.push(`; it sees ${Math.round((100 * seen[place].flat.reduce((sum, one) => sum + one, 0)) / flat.length)} % of the picture`);
    if (here !== null) parts.push(`; here, at ${where(here)}, `, el("b", { text: told(flat[here]) }));
    at.say(parts);
  }

  function nearest(x, y) {
    let [found, far] = [null, Infinity];
    spots.forEach(([row, column], place) => {
      const distance = (row + 0.5 - y) ** 2 + (column + 0.5 - x) ** 2;
      if (distance < far) [found, far] = [place, distance];
    });
    return found;
  }
  function under(event) {
    const area = canvas.getBoundingClientRect();
    return [(event.clientX - area.left) / scale, (event.clientY - area.top) / scale];
  }
  canvas.addEventListener("pointermove", (event) => {
    if (!picture) return;
    const [x, y] = under(event);
    if (spots) pointed = nearest(x, y);
    else {
      const [column, row] = [Math.floor(((x - box[0]) / box[2]) * across), Math.floor(((y - box[1]) / box[3]) * down)];
      here = column >= 0 && row >= 0 && column < across && row < down ? row * across + column : null;
    }
    repaint();
  });
  canvas.addEventListener("pointerleave", () => {
    pointed = here = null;
    repaint();
  });
  canvas.addEventListener("click", (event) => {
    if (spots) choose(nearest(...under(event)));
  });
  canvas.addEventListener("keydown", (event) => {
    const wide = raster ? raster[1] : 1,
      now = whole(at.values.word, 0, count - 1, first);
    const way = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide, Home: -now, End: count - 1 - now }[event.key];
    if (way === undefined) return;
    event.preventDefault();
    if (raster && Math.abs(way) === 1 && Math.floor((now + way) / wide) !== Math.floor(now / wide)) return;
    if (now + way >= 0 && now + way < count) choose(now + way, true);
  });

  at.save();
  at.handle.ready = loadPicture(explanation.image).then((made) => {
    picture = made;
    const [top, left, high, wide] = explanation.box ?? [0, 0, made.height, made.width];
    box = [left, top, wide, high];
    if (explanation.points)
      spots = numbers(explanation.points).flat.length ? slices(numbers(explanation.points)).map(({ flat }) => [...flat]) : [];
    else if (raster) {
      spots = Array.from({ length: count }, (_, place) => [
        top + ((Math.floor(place / raster[1]) + 0.5) * high) / raster[0] - 0.5,
        left + (((place % raster[1]) + 0.5) * wide) / raster[1] - 0.5,
      ]);
    }
    repaint();
  });
  return at.handle;
}
