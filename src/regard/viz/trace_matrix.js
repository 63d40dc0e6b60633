/* The matrix of the chosen layer and head: it is drawn from 8-bit weights, moves, and comes nearer. The first script of the page. */
const get = (id) => document.getElementById(id);
const canvas = document.querySelector(".plot canvas"), pen = canvas.getContext("2d");
const NEAR = 40, FONT = "11px system-ui, sans-serif"; // the largest side of a cell
let matrix = null, view = null, pointed = null;

/* Shades of the matrix, and smaller copies of them: the largest of two by two, so that no weight is lost from sight. */
function shades() {
  const { held } = matrix, lift = get("lift").checked, byRow = get("scale").value === "row";
  const top = held.high.reduce((most, each) => Math.max(most, each), 0), data = new Uint8Array(held.bytes.length);
  const table = new Uint8Array(256);
  for (let row = 0, n = 0; row < held.count; row++) {
    const largest = (byRow ? held.high[row] : top) || 1;
    for (let step = 0; step < 256; step++) {
      const share = Math.max(0, held.low[row] + ((held.high[row] - held.low[row]) * step) / 255) / largest;
      table[step] = Math.round(255 * (lift ? Math.sqrt(share) : share));
    }
    for (const end = n + held.width; n < end; n++) data[n] = table[held.bytes[n]];
  }
  return { data, rows: held.count, columns: held.width };
}
function level(across, down) {
  const key = `${across},${down}`;
  if (!matrix.levels.has(key)) {
    const halve = (from, x, y) => { // x and y: how often the columns and rows are halved, 0 or 1
      const columns = (from.columns + x) >> x, rows = (from.rows + y) >> y, data = new Uint8Array(rows * columns), old = from.data;
      for (let row = 0, n = 0; row < from.rows; row++) {
        const start = (row >> y) * columns;
        for (let column = 0; column < from.columns; column++, n++) {
          const place = start + (column >> x), shade = old[n];
          if (shade > data[place]) data[place] = shade;
        }
      }
      return { data, rows, columns };
    };
    const made = across ? halve(level(across - 1, down), 1, 0) : down ? halve(level(0, down - 1), 0, 1) : shades();
    matrix.levels.set(key, made);
  }
  return matrix.levels.get(key);
}

/* What is seen of the matrix: the first column and row, and the width and height of a cell. */
function measure(anew) {
  const { held } = matrix, width = canvas.clientWidth, scale = devicePixelRatio || 1;
  pen.font = FONT;
  const longest = (count, word, most) => {
    let room = 0;
    for (let n = 0; n < count; n += Math.max(1, Math.floor(count / 300))) room = Math.max(room, pen.measureText(shorten(word(n))).width);
    return Math.min(most, Math.ceil(room) + 10);
  };
  const left = longest(held.count, plotRow, 110), top = longest(held.width, plotColumn, 100);
  const fitX = Math.min((width - left) / held.width, 30);
  canvas.parentElement.style.maxHeight = `${Math.ceil(top + held.count * (fitX > 10 ? fitX : 30)) + 3}px`; // no taller than its rows
  const height = canvas.clientHeight;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const fitY = Math.min((height - top) / held.count, 30);
  const even = Math.max(fitX, fitY) / Math.min(fitX, fitY) < 3 ? Math.min(fitX, fitY) : 0; // else cells need not be squares
  const fits = [even || fitX, even || fitY];
  if (anew || !view) view = { x: 0, y: 0, wide: fits[0], high: fits[1] };
  Object.assign(view, { left, top, across: width - left, down: height - top, fits, scale });
  hold();
}
function hold() {
  const { held } = matrix;
  view.wide = Math.max(view.fits[0], Math.min(Math.max(NEAR, view.fits[0]), view.wide));
  view.high = Math.max(view.fits[1], Math.min(Math.max(NEAR, view.fits[1]), view.high));
  view.x = Math.max(0, Math.min(held.width - view.across / view.wide, view.x));
  view.y = Math.max(0, Math.min(held.count - view.down / view.high, view.y));
  canvas.classList.toggle("near", view.wide > view.fits[0] || view.high > view.fits[1]);
}
function zoom(factor, x = view.left + view.across / 2, y = view.top + view.down / 2) {
  const column = view.x + (x - view.left) / view.wide, row = view.y + (y - view.top) / view.high;
  view.wide *= factor;
  view.high *= factor;
  hold();
  view.x = column - (x - view.left) / view.wide;
  view.y = row - (y - view.top) / view.high;
  hold();
  paint();
}
const shorten = (word) => (word.length > 16 ? `${word.slice(0, 15)}…` : word);
const plotRow = (row) => rowWord(matrix.layer, matrix.pooled ? Math.floor((row * matrix.layer.rows.length) / matrix.held.count) : matrix.first + row);
const plotColumn = (column) => columnWord(matrix.layer, matrix.pooled ? Math.floor((column * matrix.layer.columns) / matrix.held.width) : column);

let asked = false;
function paint() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    if (matrix && view) draw();
  });
}
function draw() {
  const { held } = matrix, { left, top, wide, high, scale } = view;
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  const seenX = Math.min(view.across, held.width * wide), seenY = Math.min(view.down, held.count * high);
  const width = Math.floor(seenX * scale), height = Math.floor(seenY * scale);
  const smaller = (cell) => Math.max(0, Math.floor(Math.log2(1 / (cell * scale))));
  const acrossLevel = smaller(wide), downLevel = smaller(high);
  if (width > 0 && height > 0 && held.width && held.count) {
    const grid = level(acrossLevel, downLevel), picture = pen.createImageData(width, height), pixels = new Uint32Array(picture.data.buffer);
    const place = (first, cell, size, steps, count) => Int32Array.from({ length: size }, (_, n) =>
      Math.min(count - 1, Math.floor((first + (n + 0.5) / scale / cell) / 2 ** steps)));
    const columns = place(view.x, wide, width, acrossLevel, grid.columns), rows = place(view.y, high, height, downLevel, grid.rows);
    for (let y = 0, n = 0; y < height; y++) {
      if (y && rows[y] === rows[y - 1]) {
        pixels.copyWithin(n, n - width, n);
        n += width;
        continue;
      }
      const start = rows[y] * grid.columns;
      for (let x = 0; x < width; x++, n++) pixels[n] = inks.colours[grid.data[start + columns[x]]];
    }
    pen.putImageData(picture, Math.round(left * scale), Math.round(top * scale));
  }
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  const lastX = Math.min(held.width, Math.ceil(view.x + view.across / wide)), lastY = Math.min(held.count, Math.ceil(view.y + view.down / high));
  pen.strokeStyle = inks.paper;
  pen.beginPath();
  if (wide >= 9) for (let n = Math.ceil(view.x); n < lastX; n++) { const x = left + (n - view.x) * wide; pen.moveTo(x, top); pen.lineTo(x, top + seenY); }
  if (high >= 9) for (let n = Math.ceil(view.y); n < lastY; n++) { const y = top + (n - view.y) * high; pen.moveTo(left, y); pen.lineTo(left + seenX, y); }
  pen.stroke();
  label(Math.floor(view.x), lastX, view.x, wide, true);
  label(Math.floor(view.y), lastY, view.y, high, false);
  pen.save();
  pen.beginPath();
  pen.rect(left - 1.5, top - 1.5, seenX + 3, seenY + 3);
  pen.clip();
  const box = (colour, x, y, across, down) => { pen.strokeStyle = colour; pen.lineWidth = 1.5; pen.strokeRect(x, y, across, down); };
  if (matrix.layer.kept) box(inks.mark, left, top + (state.row - matrix.first - view.y) * high, seenX, Math.max(high, 2));
  if (pointed) box(inks.ink, left + (pointed[1] - view.x) * wide, top + (pointed[0] - view.y) * high, Math.max(wide, 3), Math.max(high, 3));
  pen.restore();
}
/* Labels of columns, above and upright, or of rows, at the left: as many as there is room for. */
function label(first, last, start, cell, above) {
  const step = [1, 2, 5].flatMap((n) => [n, 10 * n, 100 * n, 1000 * n, 10000 * n]).sort((a, b) => a - b).find((n) => n * cell >= 12) ?? 1e6;
  pen.font = FONT;
  pen.textBaseline = "middle";
  for (let n = Math.ceil(first / step) * step; n < last; n += step) {
    const place = (n + (cell < 12 ? 0 : 0.5) - start) * cell;
    if (place < 0 || place > (above ? view.across : view.down)) continue;
    const lit = pointed && pointed[above ? 1 : 0] === n;
    pen.fillStyle = lit ? inks.ink : inks.soft;
    pen.save();
    pen.translate(above ? view.left + place : view.left - 6, above ? view.top - 5 : view.top + place);
    if (above) pen.rotate(-Math.PI / 2);
    pen.textAlign = above ? "left" : "right";
    pen.fillText(shorten(above ? plotColumn(n) : plotRow(n)), 0, 0, above ? view.top - 8 : view.left - 8);
    pen.restore();
  }
}
function cellAt(event) {
  const row = Math.floor(view.y + (event.offsetY - view.top) / view.high), column = Math.floor(view.x + (event.offsetX - view.left) / view.wide);
  const { held } = matrix, inX = event.offsetX >= view.left;
  return row >= 0 && row < held.count && event.offsetY >= view.top ? [row, inX && column < held.width ? column : null] : null;
}

/* What a hand does. */
canvas.addEventListener("keydown", (event) => move(event, { ArrowUp: -1, ArrowDown: 1 }, (by) => chooseRow(state.row + by)));
canvas.addEventListener("keydown", (event) => move(event, { "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 1e-9 }, (by) => zoom(by)));
canvas.addEventListener("wheel", (event) => {
  if (!matrix || !(event.ctrlKey || event.metaKey || document.activeElement === canvas)) return; // else the page scrolls
  event.preventDefault();
  zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
}, { passive: false });
let held = null;
canvas.addEventListener("pointerdown", (event) => { held = matrix && { x: event.offsetX, y: event.offsetY, from: [view.x, view.y], moved: false, id: event.pointerId }; });
canvas.addEventListener("pointermove", (event) => {
  if (!matrix) return;
  if (held && event.buttons) {
    const across = event.offsetX - held.x, down = event.offsetY - held.y;
    if (!held.moved && Math.hypot(across, down) > 4) { held.moved = true; canvas.setPointerCapture(held.id); }
    if (held.moved) { view.x = held.from[0] - across / view.wide; view.y = held.from[1] - down / view.high; hold(); return paint(); }
  }
  pointed = cellAt(event);
  tell();
  return paint();
});
canvas.addEventListener("pointerup", (event) => {
  const cell = held && !held.moved && cellAt(event);
  held = null;
  if (cell && !matrix.pooled) chooseRow(matrix.first + cell[0]);
});
canvas.addEventListener("pointercancel", () => { held = null; });
canvas.addEventListener("pointerleave", () => { pointed = null; if (matrix) { tell(); paint(); } });
get("closer").addEventListener("click", () => zoom(1.6));
get("farther").addEventListener("click", () => zoom(1 / 1.6));
get("fit").addEventListener("click", () => { measure(true); paint(); });
new ResizeObserver(() => { if (matrix) { measure(false); paint(); } }).observe(canvas.parentElement);
