// A matrix of weights: a map with labels that zooms and pans, ribbons between the words, and all heads side by side.

import { textOn, weightChannels, weightColour } from "../colours.js";
import { asTable, bdi, best, choice, colour, el, frame, isSpecial, largest, mean, nothing, numbers, rowOf, select, sharp, shown, slices,
  spoken, svg, tick, told, whole } from "./parts.js";
import { drawRibbons } from "./ribbons.js";

const LABEL = 12, GAP = 6, CELL = 40, TEXT_FROM = 34, LINES_FROM = 9, MOST = 48; // pixels of the page
const HIGHEST = 560, FEW = 60, TABLE = 4096; // pixels; words that may make it higher; numbers in the table of the whole matrix

export function draw(root, explanation, options) {
  const all = numbers(explanation.weights), heads = all.shape.length === 3 ? slices(all) : [all];
  const count = heads.length, [height, width] = all.shape.slice(-2);
  if (!count || !height || !width) return nothing(root, explanation, "matrix of weights");
  const several = all.shape.length === 3;
  const together = several && count > 1 ? mean(heads) : heads[0];
  const special = explanation.rows.some(isSpecial) || explanation.columns.some(isSpecial);
  const view = { zoom: 1, x: 0, y: 0 }; // x and y: the cell at the top left corner
  let pointed = null, geometry = null, measured = "", bitmap = null, key = "", drawnRibbons = null;

  const head = () => (several ? whole(at.values.head, 0, count - 1, -1) : 0);
  const matrix = () => (head() < 0 ? together : heads[head()]);
  const seen = (labels) => [...labels.keys()].filter((place) => at.values.special !== "hidden" || !isSpecial(labels[place]));
  /* The place of the largest weight of all, and that weight: looked for once for each head. */
  const tops = new Map();
  const top = () => {
    const { flat } = matrix();
    if (!tops.has(flat)) tops.set(flat, best(flat, 1)[0]);
    return { place: tops.get(flat), weight: Math.max(0, flat[tops.get(flat)]) };
  };
  const rows = () => seen(explanation.rows), columns = () => seen(explanation.columns);
  const cursor = () => {
    const row = whole(at.values.row, 0, height - 1, null), column = whole(at.values.column, 0, width - 1, null);
    return row === null && column === null ? null : { row, column };
  };
  const called = () => `matrix ${explanation.title} ${explanation.layer} ${several ? (head() < 0 ? "mean" : `head ${head()}`) : ""}`;

  const at = frame(root, explanation, options, {
    label: "matrix of weights", name: called, repaint,
    hint: "Point at a cell, or press the arrow keys. + and − zoom, dragging moves, 0 shows all; a click keeps a cell in the address.",
  });
  const facts = [explanation.layer, "rows attend to columns"].filter(Boolean).join(" · ");
  at.caption.append(el("span", { class: "regard-facts", text: `${explanation.title ? " · " : ""}${facts}` }));

  const views = choice("view", [["matrix", "matrix"], ["ribbons", "ribbons"], ...(count > 1 ? [["heads", "all heads"]] : [])],
    "matrix", (value) => at.change({ view: value === "matrix" ? undefined : value }));
  const chooser = count > 1 && select("head", [["mean", `mean of ${count} heads`], ...heads.map((_, place) => [place, `head ${place}`])],
    "mean", (value) => at.change({ head: value === "mean" ? undefined : value }));
  const hide = special && tick("special tokens", true, (on) => at.change({ special: on ? undefined : "hidden" }));
  const zooms = el("span", { class: "regard-choice", role: "group", "aria-label": "zoom" },
    el("button", { type: "button", text: "−", "aria-label": "zoom out", onclick: () => zoomBy(1 / 1.5) }),
    el("button", { type: "button", text: "+", "aria-label": "zoom in", onclick: () => zoomBy(1.5) }),
    el("button", { type: "button", text: "fit", "aria-label": "show all", onclick: () => zoomBy(0) }));
  const scale = el("canvas", { width: 64, height: 10, role: "img", "aria-label": "colours from 0 to the largest weight" });
  const end = el("span"), legend = el("span", { class: "regard-legend" }, "0", scale, end);
  at.bar.append(...[views, chooser, hide, zooms, legend].filter(Boolean));

  const canvas = el("canvas", { class: "regard-map", tabindex: 0, role: "application", "aria-roledescription": "map of weights" });
  const ribbons = el("div", { class: "regard-ribbons regard-hidden", hidden: true });
  const grid = el("div", { class: "regard-heads regard-hidden", hidden: true });
  at.stage.append(canvas, ribbons, grid);
  if (height * width <= TABLE) {
    at.figure.append(asTable("these weights as a table", ["", ...explanation.columns.map(shown)],
      () => explanation.rows.map((label, row) => [shown(label), ...[...rowOf(matrix(), row)].map(told)])));
  }

  function measure() {
    const now = [at.stage.clientWidth, at.values.special].join();
    if (now === measured) return geometry;
    measured = now;
    const pen = canvas.getContext("2d"), wide = Math.max(220, at.stage.clientWidth);
    pen.font = `${LABEL}px system-ui, sans-serif`;
    const longest = (labels, places) => {
      let most = 0;
      const step = Math.max(1, Math.floor(places.length / 300)); // of very many, a sample
      for (let n = 0; n < places.length; n += step) most = Math.max(most, pen.measureText(shown(labels[places[n]])).width);
      return most;
    };
    const [down, across] = [rows(), columns()];
    const left = Math.ceil(Math.min(longest(explanation.rows, down) + 2 * GAP, 0.32 * wide, 150));
    const above = Math.ceil(Math.min(longest(explanation.columns, across) + 2 * GAP, 120));
    const cell = Math.min(CELL, Math.max((wide - left - 1) / Math.max(1, across.length), 0.2));
    const low = Math.min(cell, HIGHEST / Math.max(1, down.length)), few = across.length <= FEW && down.length <= FEW;
    const fit = few ? Math.max(low, Math.min(cell, 18)) : low;
    return { left, above, fit, down, across, wide: Math.min(wide - left, fit * across.length), high: fit * down.length };
  }

  function clamp() {
    const { fit, down, across, wide, high } = geometry;
    view.zoom = Math.min(Math.max(1, view.zoom), Math.max(1, MOST / fit));
    const side = fit * view.zoom;
    view.x = Math.min(Math.max(0, view.x), Math.max(0, across.length - wide / side));
    view.y = Math.min(Math.max(0, view.y), Math.max(0, down.length - high / side));
  }

  /* The weights as a picture of one pixel a cell, which is drawn larger. */
  function prepare() {
    const now = [head(), at.values.special, at.theme()].join();
    if (now === key) return;
    key = now;
    const { flat } = matrix(), most = top().weight || 1, { down, across } = geometry, theme = at.theme();
    const colours = Array.from({ length: 256 }, (_, level) => weightChannels(level / 255, theme));
    const pixels = new ImageData(Math.max(1, across.length), Math.max(1, down.length));
    down.forEach((row, y) => across.forEach((column, x) => {
      const weight = Math.max(0, flat[row * width + column]);
      pixels.data.set([...colours[Math.round((255 * weight) / most)], 255], 4 * (y * across.length + x));
    }));
    bitmap = el("canvas", { width: pixels.width, height: pixels.height });
    bitmap.getContext("2d").putImageData(pixels, 0, 0);
  }

  function paint() {
    const { left, above, fit, down, across, wide, high } = geometry, side = fit * view.zoom, theme = at.theme();
    const pen = sharp(canvas, left + wide + 1, above + high + 1);
    const [ink, paper, accent] = [colour(at.figure, "r-ink", "#111"), colour(at.figure, "r-paper", "#fff"), colour(at.figure, "r-second", "#b34a00")];
    const most = top().weight || 1;
    pen.clearRect(0, 0, left + wide + 1, above + high + 1);
    pen.imageSmoothingEnabled = side < 1;
    pen.drawImage(bitmap, view.x, view.y, wide / side, high / side, left, above, wide, high);
    const first = { x: Math.floor(view.x), y: Math.floor(view.y) };
    const last = { x: Math.min(across.length, Math.ceil(view.x + wide / side)), y: Math.min(down.length, Math.ceil(view.y + high / side)) };
    const px = (x) => left + (x - view.x) * side, py = (y) => above + (y - view.y) * side;
    pen.save();
    pen.beginPath();
    pen.rect(left, above, wide, high);
    pen.clip();
    if (side >= LINES_FROM) {
      pen.strokeStyle = paper;
      pen.lineWidth = 1;
      pen.beginPath();
      for (let x = first.x; x <= last.x; x++) { pen.moveTo(px(x), above); pen.lineTo(px(x), above + high); }
      for (let y = first.y; y <= last.y; y++) { pen.moveTo(left, py(y)); pen.lineTo(left + wide, py(y)); }
      pen.stroke();
    }
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    if (side >= TEXT_FROM) {
      pen.font = `${Math.min(13, 0.32 * side)}px ui-monospace, monospace`;
      for (let y = first.y; y < last.y; y++) {
        for (let x = first.x; x < last.x; x++) {
          const weight = matrix().flat[down[y] * width + across[x]];
          pen.fillStyle = textOn(weightChannels(Math.max(0, weight) / most, theme));
          pen.fillText(weight.toFixed(2).replace(/^0/, "").replace("-", "−"), px(x + 0.5), py(y + 0.5));
        }
      }
    }
    const spot = pointed ?? cursor();
    if (spot) {
      const y = spot.row === null ? -1 : down.indexOf(spot.row), x = spot.column === null ? -1 : across.indexOf(spot.column);
      const least = Math.max(side, 3);
      const box = [px(x < 0 ? 0 : x), py(y < 0 ? 0 : y), x < 0 ? side * across.length : least, y < 0 ? side * down.length : least];
      pen.lineWidth = 4;
      pen.strokeStyle = paper;
      pen.strokeRect(...box);
      pen.lineWidth = 2;
      pen.strokeStyle = accent;
      pen.strokeRect(...box);
    }
    pen.restore();
    labels(pen, { px, py, first, last, side, ink, accent, spot });
  }

  function labels(pen, { px, py, first, last, side, ink, accent, spot }) {
    const { left, above, down, across, wide, high } = geometry, every = Math.max(1, Math.ceil((LABEL + 1) / side));
    const write = (text, chosen, room) => {
      let word = shown(text);
      pen.font = `${chosen ? 700 : 400} ${LABEL}px system-ui, sans-serif`;
      while (word.length > 2 && pen.measureText(word).width > room) word = `${word.slice(0, -2).trimEnd()}…`;
      pen.fillStyle = chosen ? accent : ink;
      return word;
    };
    pen.textAlign = "right";
    for (let y = first.y; y < last.y; y++) {
      const chosen = spot?.row === down[y], middle = py(y + 0.5);
      if ((y % every && !chosen) || middle < above || middle > above + high) continue;
      if (every > 1 && !chosen && spot && spot.row !== null && Math.abs(py(down.indexOf(spot.row) + 0.5) - middle) < LABEL) continue;
      pen.fillText(write(explanation.rows[down[y]], chosen, left - 2 * GAP), left - GAP, middle);
    }
    pen.textAlign = "left";
    for (let x = first.x; x < last.x; x++) {
      const chosen = spot?.column === across[x], middle = px(x + 0.5);
      if ((x % every && !chosen) || middle < left || middle > left + wide) continue;
      if (every > 1 && !chosen && spot && spot.column !== null && Math.abs(px(across.indexOf(spot.column) + 0.5) - middle) < LABEL) continue;
      pen.save();
      pen.translate(middle, above - GAP);
      pen.rotate(-Math.PI / 2);
      pen.fillText(write(explanation.columns[across[x]], chosen, above - 2 * GAP), 0, 0);
      pen.restore();
    }
  }

  function tell(spot, aloud = false) {
    const { flat } = matrix();
    if (!spot) {
      const { place } = top(), row = Math.floor(place / width);
      return at.say(["largest weight ", el("b", { text: told(flat[place]) }), ": ", bdi(shown(explanation.rows[row])), " ← ",
        bdi(shown(explanation.columns[place % width]))], aloud);
    }
    const { row, column } = spot;
    if (row !== null && column !== null) {
      const weight = flat[row * width + column];
      at.readout.dataset.weight = weight;
      const parts = [bdi(shown(explanation.rows[row])), " ← ", bdi(shown(explanation.columns[column])), " ", el("b", { text: told(weight) })];
      const [first] = best(rowOf(matrix(), row), 1);
      if (first !== column) parts.push(`; most of all ← `, bdi(shown(explanation.columns[first])), ` ${told(flat[row * width + first])}`);
      at.say(parts);
      if (aloud) options.announce?.(`${spoken(explanation.rows[row])} to ${spoken(explanation.columns[column])}: ${told(weight)}`);
      return undefined;
    }
    const shares = row !== null ? rowOf(matrix(), row) : Float64Array.from({ length: height }, (_, n) => flat[n * width + column]);
    const others = row !== null ? explanation.columns : explanation.rows;
    const parts = [bdi(shown(row !== null ? explanation.rows[row] : explanation.columns[column])), row !== null ? " ← " : " → "];
    best(shares).filter((place, rank) => !rank || shares[place] >= 0.0005)
      .forEach((place, rank) => parts.push(rank ? ", " : "", bdi(shown(others[place])), ` ${told(shares[place])}`));
    return at.say(parts, aloud);
  }

  function repaint() {
    const kind = ["ribbons", "heads"].includes(at.values.view) && (count > 1 || at.values.view === "ribbons") ? at.values.view : "matrix";
    views.set(kind);
    if (chooser) chooser.input.value = head() < 0 ? "mean" : head();
    if (hide) hide.input.checked = at.values.special !== "hidden";
    for (const [name, node] of [["matrix", canvas], ["ribbons", ribbons], ["heads", grid]]) {
      node.hidden = kind !== name;
      node.classList.toggle("regard-hidden", kind !== name);
    }
    zooms.hidden = at.hint.hidden = kind !== "matrix";
    const theme = at.theme();
    legendOf(theme);
    geometry = measure();
    if (kind === "matrix") {
      place();
      prepare();
      clamp();
      paint();
      canvas.classList.toggle("regard-zoomed", view.zoom > 1);
    } else if (kind === "ribbons") {
      drawnRibbons = drawRibbons(ribbons, { explanation, matrix: matrix(), rows: rows(), columns: columns(), spot: pointed ?? cursor(), theme,
        wide: at.stage.clientWidth, point: (spot) => { pointed = spot; tell(spot ?? cursor()); }, choose: (spot) => choose(spot) });
    } else thumbnails();
    tell(pointed ?? cursor());
  }

  let legendDrawn = "";
  function legendOf(theme) {
    if (legendDrawn === `${theme} ${head()}`) return;
    legendDrawn = `${theme} ${head()}`;
    const pen = scale.getContext("2d");
    for (let x = 0; x < 64; x++) {
      pen.fillStyle = weightColour(x / 63, theme);
      pen.fillRect(x, 0, 1, 10);
    }
    end.textContent = told(top().weight);
    const which = several ? `, ${head() < 0 ? "mean of heads" : `head ${head()}`}` : "";
    canvas.setAttribute("aria-label", `${height} rows by ${width} columns${which}; arrow keys move`);
  }

  /* The address knows zoom and corner; a drag that has not been written yet goes first. */
  let written = "";
  function place() {
    const said = `${at.values.zoom ?? ""},${at.values.x ?? ""},${at.values.y ?? ""}`;
    if (said === written) return;
    written = said;
    view.zoom = Number(at.values.zoom) || 1;
    view.x = Number(at.values.x) || 0;
    view.y = Number(at.values.y) || 0;
  }

  function moved() {
    clamp();
    const few = (value, digits) => (value ? String(Number(value.toFixed(digits))) : undefined);
    const patch = { zoom: view.zoom > 1 ? few(view.zoom, 3) : undefined, x: few(view.x, 2), y: few(view.y, 2) };
    written = `${patch.zoom ?? ""},${patch.x ?? ""},${patch.y ?? ""}`;
    at.change(patch, true);
  }

  function zoomBy(factor, x = geometry.left + geometry.wide / 2, y = geometry.above + geometry.high / 2) {
    const before = geometry.fit * view.zoom, inside = [Math.max(0, x - geometry.left), Math.max(0, y - geometry.above)];
    const [cellX, cellY] = [view.x + inside[0] / before, view.y + inside[1] / before];
    view.zoom = factor ? view.zoom * factor : 1;
    view.zoom = Math.min(Math.max(1, view.zoom), Math.max(1, MOST / geometry.fit));
    const side = geometry.fit * view.zoom;
    view.x = cellX - inside[0] / side;
    view.y = cellY - inside[1] / side;
    moved();
  }

  function spotAt(event) {
    const area = canvas.getBoundingClientRect(), { left, above, fit, down, across, wide, high } = geometry, side = fit * view.zoom;
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    const column = x >= left && x < left + wide ? across[Math.floor(view.x + (x - left) / side)] ?? null : null;
    const row = y >= above && y < above + high ? down[Math.floor(view.y + (y - above) / side)] ?? null : null;
    return row === null && column === null ? null : { row, column };
  }

  function choose(spot, aloud = false, later = false) {
    pointed = null;
    at.change({ row: spot?.row ?? undefined, column: spot?.column ?? undefined }, later);
    if (aloud) tell(spot, true);
  }

  const fingers = new Map();
  let dragged = null;
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
    dragged = { x: event.clientX, y: event.clientY, far: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const old = fingers.get(event.pointerId);
    if (old && fingers.size === 2) {
      const [other] = [...fingers.values()].filter((each) => each.pointerId !== event.pointerId);
      const far = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
      const area = canvas.getBoundingClientRect();
      zoomBy(far(event) / far(old), (event.clientX + other.clientX) / 2 - area.left, (event.clientY + other.clientY) / 2 - area.top);
      dragged.far = true;
    } else if (old && dragged && (view.zoom > 1 || dragged.far)) {
      dragged.far ||= Math.hypot(event.clientX - dragged.x, event.clientY - dragged.y) > 4;
      if (dragged.far) {
        const side = geometry.fit * view.zoom;
        view.x -= (event.clientX - old.clientX) / side;
        view.y -= (event.clientY - old.clientY) / side;
        pointed = null;
        moved();
      }
    } else {
      const spot = spotAt(event);
      if (spot?.row === pointed?.row && spot?.column === pointed?.column) return;
      pointed = spot;
      paint();
      tell(pointed ?? cursor());
    }
    if (old) fingers.set(event.pointerId, event);
  });
  const up = (event) => {
    if (fingers.delete(event.pointerId) && event.type === "pointerup" && dragged && !dragged.far) choose(spotAt(event));
    if (!fingers.size) dragged = null;
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => {
    if (fingers.size) return;
    pointed = null;
    paint();
    tell(cursor());
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls
    event.preventDefault();
    const area = canvas.getBoundingClientRect();
    zoomBy(Math.exp(-event.deltaY / 300), event.clientX - area.left, event.clientY - area.top);
  }, { passive: false });
  at.stage.addEventListener("keydown", (event) => {
    if (grid.contains(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const way = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -width], End: [0, width] }[event.key];
    if (way) {
      const { down, across } = geometry, spot = cursor() ?? { row: null, column: null };
      const next = (places, now, by) => {
        const from = now !== null ? places.indexOf(now) : by > 0 ? -1 : by < 0 ? places.length : 0;
        return places[Math.min(places.length - 1, Math.max(0, from + by))];
      };
      const to = { row: spot.row, column: spot.column };
      if (way[0] || to.row === null) to.row = next(down, spot.row, way[0]);
      if (way[1] || (to.column === null && canvas.contains(event.target))) to.column = next(across, spot.column, way[1]);
      if (!canvas.contains(event.target)) Object.assign(to, way[0] ? { column: null } : { row: null });
      follow(to);
      choose(to, true, true);
    } else if (["+", "="].includes(event.key)) zoomBy(1.5);
    else if (["-", "−"].includes(event.key)) zoomBy(1 / 1.5);
    else if (event.key === "0") zoomBy(0);
    else if (event.key === "Escape") choose(null);
    else return;
    event.preventDefault();
  });

  /* Moves the picture so that the cursor can be seen. */
  function follow({ row, column }) {
    const { fit, down, across, wide, high } = geometry, side = fit * view.zoom, before = [view.x, view.y];
    const [y, x] = [down.indexOf(row), across.indexOf(column)];
    if (x >= 0) view.x = Math.min(Math.max(view.x, x + 1 - wide / side), x);
    if (y >= 0) view.y = Math.min(Math.max(view.y, y + 1 - high / side), y);
    if (view.x !== before[0] || view.y !== before[1]) moved();
  }

  function thumbnails() {
    const theme = at.theme(), spread = heads.map((each) => words(each, rows(), columns())), cleanest = spread.indexOf(Math.min(...spread));
    grid.replaceChildren(...heads.map((each, place) => {
      const small = el("canvas", { width, height, "aria-hidden": "true" }), pen = small.getContext("2d"), pixels = pen.createImageData(width, height);
      const most = largest(each.flat) || 1;
      each.flat.forEach((weight, n) => pixels.data.set([...weightChannels(Math.max(0, weight) / most, theme), 255], 4 * n));
      pen.putImageData(pixels, 0, 0);
      return el("button", { type: "button", "aria-pressed": String(place === head()), onclick: () => at.change({ head: place, view: undefined }) },
        small, `head ${place}`, el("small", { text: `looks at ${spread[place].toFixed(1)} words${place === cleanest ? " · the cleanest" : ""}` }));
    }));
  }

  function picture() {
    if (at.values.view === "ribbons") return drawnRibbons;
    const { left, above, fit, down, across } = geometry, side = Math.max(fit, down.length * across.length > 4096 ? 2 : 14), theme = at.theme();
    const ink = colour(at.figure, "r-ink", "#111"), { flat } = matrix(), most = top().weight || 1;
    const [wide, high] = [left + side * across.length, above + side * down.length];
    const font = { "font-family": "system-ui, sans-serif", "font-size": LABEL };
    const drawn = svg("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, ...font });
    drawn.dataset.ground = colour(at.figure, "r-paper", "#ffffff");
    if (down.length * across.length > 4096) {
      const room = { x: left, y: above, width: wide - left, height: high - above };
      const image = svg("image", { ...room, preserveAspectRatio: "none", href: bitmap.toDataURL() });
      image.style.imageRendering = "pixelated";
      drawn.append(image);
    } else {
      down.forEach((row, y) => across.forEach((column, x) => {
        const weight = flat[row * width + column], fill = weightColour(Math.max(0, weight) / most, theme);
        drawn.append(svg("rect", { x: left + side * x, y: above + side * y, width: side - 1, height: side - 1, fill },
          svg("title", { text: `${shown(explanation.rows[row])} ← ${shown(explanation.columns[column])} ${told(weight)}` })));
      }));
    }
    const every = Math.max(1, Math.ceil((LABEL + 1) / side));
    down.forEach((row, y) => {
      const place = { x: left - GAP, y: above + side * (y + 0.5) + 4, "text-anchor": "end" };
      if (y % every === 0) drawn.append(svg("text", { ...place, fill: ink, text: shown(explanation.rows[row]) }));
    });
    across.forEach((column, x) => {
      const transform = `translate(${left + side * (x + 0.5) + 4} ${above - GAP}) rotate(-90)`;
      if (x % every === 0) drawn.append(svg("text", { transform, fill: ink, text: shown(explanation.columns[column]) }));
    });
    return drawn;
  }

  at.save(picture);
  repaint();
  return at.handle;
}

/** How many words a row looks at, in the mean: the exponent of its entropy. The head with the smallest is the cleanest. */
export function words(matrix, rows, columns) {
  let total = 0, counted = 0;
  for (const row of rows) {
    const weights = rowOf(matrix, row), shares = columns.map((column) => Math.max(0, weights[column]));
    const sum = shares.reduce((before, share) => before + share, 0);
    if (!sum) continue;
    total += shares.reduce((before, share) => before - (share ? (share / sum) * Math.log(share / sum) : 0), 0);
    counted += 1;
  }
  return counted ? Math.exp(total / counted) : 0;
}
