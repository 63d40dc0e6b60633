// Any model: a trace as an overview of layers × heads, and one matrix whose rows come when they are asked for.
import { bytesOf, choice, element, errorBox, format, shadeBytes } from "../parts.js";

export const title = "Any model";
const SIDE = 560; // pixels of the matrix
const HELP = `import torch, regard
from regard import studio

with regard.trace(model) as seen:        # any PyTorch model
    model(**inputs)
studio.show(seen)                        # opens this page
seen.save("trace.json")                  # or later: regard studio trace.json

with studio.record(model, labels=words) as calls:   # long texts: queries and keys are kept,
    model(**inputs)                                 # rows are made when they are looked at
calls.save("trace.safetensors")`;

export function mount(root, context) {
  const { api, setState, announce } = context;
  let alive = true, names = [], trace = null, matrix = null, loading = null;
  const bar = element("div", { class: "bar" }), notes = element("div", {}), body = element("div", {});
  root.append(element("h1", {}, "Any model"), bar, notes, body);

  async function load() {
    try { names = (await api.get("api/traces")).traces.map((line) => line.name); } catch (error) { body.replaceChildren(errorBox(error)); return; }
    if (!alive) return;
    if (!names.length) {
      body.replaceChildren(element("div", { class: "panel" }, element("p", {}, "No trace is open. A trace holds what the attention layers of a model looked at; this shows one of any PyTorch model:"), element("pre", { class: "scroll" }, HELP)));
      return;
    }
    update();
  }

  async function update() {
    if (!names.length) return;
    const name = names.includes(context.state.trace) ? context.state.trace : names.at(-1);
    if (trace?.name === name) { drawDetail(); return; }
    if (loading === name) return;
    loading = name;
    body.replaceChildren(element("p", { class: "muted" }, "The trace is being read …"));
    try {
      const made = await api.get(`api/traces/${encodeURIComponent(name)}`);
      if (!alive || loading !== name) return;
      trace = made; loading = null;
    } catch (error) { loading = null; body.replaceChildren(errorBox(error)); return; }
    drawAll();
    announce(`${name}: ${trace.layers.length} layers.`);
  }

  function chosen() {
    const { layer, head } = context.state, found = trace.layers.find((each) => each.name === layer) ?? trace.layers[0];
    const number = head === "mean" ? null : head !== undefined && found.heads.includes(Number(head)) ? Number(head) : found.heads[0];
    return { layer: found, head: number };
  }
  const choose = (layer, head, options) => setState({ trace: trace.name, layer: layer.name, head: head === null ? "mean" : head, row: undefined }, options);

  function drawAll() {
    bar.replaceChildren(choice("Trace", names.map((name) => [name, name]), trace.name, (name) => setState({ trace: name, layer: undefined, head: undefined, row: undefined })));
    notes.replaceChildren(...trace.notes.map((note) => element("p", { class: "muted small" }, note)));
    const heads = Math.max(...trace.layers.map((layer) => layer.heads.length));
    overview = new Overview(trace, context, choose, chosen);
    matrix?.destroy(); matrix = null;
    detail.replaceChildren();
    body.replaceChildren(element("div", { class: "panel" }, element("h2", {}, `${trace.layers.length} layers × ${heads} heads`),
      element("p", { class: "muted small" }, "A line is a layer, a square is a head: rows look at columns. Choose one; the arrow keys move."), overview.root), detail);
    drawDetail();
  }

  let overview = null;
  const detail = element("div", { class: "panel" });
  function drawDetail() {
    const { layer, head } = chosen();
    overview.draw();
    if (!matrix || matrix.layer !== layer || matrix.head !== head) {
      matrix?.destroy();
      matrix = new Matrix(trace, layer, head, context);
      const heads = [["mean", "mean of all"], ...layer.heads.map((number) => [String(number), `head ${number}`])];
      detail.replaceChildren(element("div", { class: "bar" },
        choice("Layer", trace.layers.map((each) => [each.name, each.name]), layer.name, (name) => choose(trace.layers.find((each) => each.name === name), head)),
        choice("Head", heads, head === null ? "mean" : String(head), (value) => choose(layer, value === "mean" ? null : Number(value))), matrix.buttons), matrix.root);
    }
    matrix.update();
  }

  load();
  return { update, destroy() { alive = false; matrix?.destroy(); } };
}

// All heads on one canvas.
class Overview {
  constructor(trace, context, choose, chosen) {
    Object.assign(this, { trace, context, choose, chosen });
    const most = Math.max(...trace.layers.map((layer) => layer.heads.length));
    this.cell = most > 20 ? 26 : most > 10 ? 34 : 52;
    this.left = Math.min(150, 16 + 7 * Math.max(...trace.layers.map((layer) => shortName(layer.name).length)));
    this.top = 18;
    const width = this.left + most * this.cell + 4, height = this.top + trace.layers.length * this.cell + 4, ratio = Math.min(2, devicePixelRatio || 1);
    this.canvas = element("canvas", { width: width * ratio, height: height * ratio, tabindex: 0, role: "application", style: { width: `${width}px`, height: `${height}px` }, "data-layers": trace.layers.length, "data-heads": most });
    this.ratio = ratio;
    this.readout = element("p", { class: "readout" });
    this.root = element("div", {}, element("div", { class: "overview" }, this.canvas), this.readout);
    this.canvas.addEventListener("click", (event) => { const at = this.at(event); if (at) choose(at.layer, at.head); });
    this.canvas.addEventListener("pointermove", (event) => { const at = this.at(event); this.readout.textContent = at ? `${at.layer.name}, head ${at.head}` : ""; });
    this.canvas.addEventListener("keydown", (event) => this.move(event));
  }
  at(event) {
    const row = Math.floor((event.offsetY - this.top) / this.cell), column = Math.floor((event.offsetX - this.left) / this.cell), layer = this.trace.layers[row];
    return layer && column >= 0 && column < layer.heads.length ? { layer, head: layer.heads[column] } : null;
  }
  move(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const { layer, head } = this.chosen(), row = this.trace.layers.indexOf(layer) + step[0], other = this.trace.layers[Math.max(0, Math.min(this.trace.layers.length - 1, row))];
    const column = Math.max(0, layer.heads.indexOf(head)) + step[1];
    this.choose(other, other.heads[Math.max(0, Math.min(other.heads.length - 1, column))], { replace: true });
  }
  pictures(theme) {
    if (this.drawnFor === theme) return this.cached;
    const [high, wide] = [this.trace.side, this.trace.side];
    this.cached = this.trace.layers.map((layer) => {
      const bytes = bytesOf(layer.thumbnails), [rows, columns] = layer.shape, sheet = document.createElement("canvas");
      sheet.width = layer.heads.length * columns; sheet.height = rows;
      const context = sheet.getContext("2d"), image = context.createImageData(sheet.width, rows), ramp = rampOf(theme), pixels = new Uint32Array(image.data.buffer);
      layer.heads.forEach((_, head) => { for (let y = 0; y < rows; y++) for (let x = 0; x < columns; x++) pixels[y * sheet.width + head * columns + x] = ramp[bytes[(head * rows + y) * columns + x]]; });
      context.putImageData(image, 0, 0);
      return { sheet, rows, columns };
    });
    this.drawnFor = theme;
    return this.cached;
  }
  draw() {
    const theme = this.context.theme(), pictures = this.pictures(theme), context = this.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const { layer: chosenLayer, head: chosenHead } = this.chosen();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.imageSmoothingEnabled = false;
    context.font = "11px system-ui, sans-serif"; context.textBaseline = "middle";
    const ink = style.getPropertyValue("--muted"), accent = style.getPropertyValue("--second");
    const heads = Math.max(...this.trace.layers.map((layer) => layer.heads.length));
    context.fillStyle = ink; context.textAlign = "center";
    for (let head = 0; head < heads; head += this.cell < 30 ? 4 : 1) context.fillText(String(this.trace.layers[0].heads[head] ?? head), this.left + (head + 0.5) * this.cell, 9);
    this.trace.layers.forEach((layer, row) => {
      const y = this.top + row * this.cell, { sheet, rows, columns } = pictures[row];
      context.fillStyle = ink; context.textAlign = "right";
      context.fillText(shortName(layer.name), this.left - 6, y + this.cell / 2);
      layer.heads.forEach((head, column) => {
        const x = this.left + column * this.cell;
        context.drawImage(sheet, column * columns, 0, columns, rows, x, y, this.cell - 2, this.cell - 2);
        if (layer === chosenLayer && (chosenHead === null || head === chosenHead)) { context.strokeStyle = accent; context.lineWidth = 2; context.strokeRect(x - 1, y - 1, this.cell, this.cell); }
      });
    });
    this.canvas.setAttribute("aria-label", `Overview of ${this.trace.layers.length} layers. Chosen: ${chosenLayer.name}, ${chosenHead === null ? "mean of all heads" : `head ${chosenHead}`}`);
  }
}

const shortName = (name) => (name.length > 18 ? `…${name.slice(-17)}` : name);
const ramps = {};
function rampOf(theme) {
  return (ramps[theme] ??= Uint32Array.from({ length: 256 }, (_, step) => { const [red, green, blue] = shadeBytes(step / 255, theme); return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0; }));
}

// One matrix: a window of it is drawn at once from what is here, and comes sharper when its rows have arrived.
class Matrix {
  constructor(trace, layer, head, context) {
    Object.assign(this, { trace, layer, head, context, alive: true, sharp: null, whole: null, row: null, number: 0 });
    this.numRows = Array.isArray(layer.rows) ? layer.rows.length : layer.rows;
    this.numColumns = layer.columns;
    this.rowLabels = trace.labels[layer.row_labels] ?? null; this.columnLabels = trace.labels[layer.column_labels] ?? null;
    const tall = Math.max(60, Math.round(SIDE * Math.min(1, Math.max(0.12, this.numRows / this.numColumns))));
    this.canvas = element("canvas", { width: SIDE, height: tall, tabindex: 0, role: "application", "aria-label": `Weights of ${layer.name}: ${this.numRows} rows over ${this.numColumns} columns. Plus and minus zoom, arrows move, Enter takes the row in the middle.`, style: { width: "100%", maxWidth: `${SIDE}px` } });
    this.readout = element("p", { class: "readout" }); this.words = element("div", { class: "words" }); this.error = element("div", {});
    this.root = element("div", { class: "grid" }, element("div", {}, element("div", { class: "matrix", style: { maxWidth: `${SIDE + 2}px` } }, this.canvas), this.readout, this.error, element("p", { class: "muted small" }, "Drag to move, wheel or + and − to zoom, click a row to see its words.")), this.words);
    const button = (text, label, factor) => element("button", { type: "button", "aria-label": label, onclick: () => (factor ? this.zoom(factor, 0.5, 0.5) : this.reset()) }, text);
    this.buttons = element("div", { class: "buttons" }, button("+", "Zoom in", 0.5), button("−", "Zoom out", 2), button("Whole", "Show the whole matrix", 0));
    this.reset();
    this.listen();
    this.fetchWhole();
  }
  destroy() { this.alive = false; clearTimeout(this.timer); }
  reset() { this.view = { row: 0, column: 0, rows: this.numRows, columns: this.numColumns }; this.draw(); }

  update() { // the row that the address names
    const row = this.context.state.row === undefined ? null : Number(this.context.state.row);
    if (row !== this.row && Number.isInteger(row) && row >= 0 && row < this.numRows) this.showRow(row);
    else if (row === null) { this.row = null; this.words.replaceChildren(); }
    this.draw();
  }

  async ask(rows, columns) {
    const answer = await this.context.api.post(`api/traces/${encodeURIComponent(this.trace.name)}/rows`, { layer: this.layer.name, head: this.head, rows, columns });
    const values = new Float32Array(bytesOf(answer.weights).buffer), [height, width] = answer.shape;
    return { rows, columns, height, width, values, largest: Math.max(answer.largest, 1e-9), picture: null, theme: null };
  }
  async fetchWhole() {
    try {
      const whole = await this.ask([0, this.numRows], [0, this.numColumns]);
      if (!this.alive) return;
      this.whole = whole; this.canvas.dataset.ready = "1"; this.draw();
      if (this.waitingRow !== undefined) { const row = this.waitingRow; this.waitingRow = undefined; this.showRow(row); }
    } catch (error) { if (this.alive) this.error.replaceChildren(errorBox(error)); }
  }
  later() {
    clearTimeout(this.timer);
    if (!this.whole || (this.whole.height === this.numRows && this.whole.width === this.numColumns)) return; // all of it is here
    this.timer = setTimeout(async () => {
      const { row, column, rows, columns } = this.view, number = ++this.number;
      const first = Math.max(0, Math.floor(row)), left = Math.max(0, Math.floor(column));
      try {
        const sharp = await this.ask([first, Math.min(this.numRows, Math.ceil(row + rows))], [left, Math.min(this.numColumns, Math.ceil(column + columns))]);
        if (this.alive && number === this.number) { this.sharp = sharp; this.draw(); }
      } catch (error) { if (this.alive) this.error.replaceChildren(errorBox(error)); }
    }, 120);
  }

  picture(block) {
    const theme = this.context.theme();
    if (block.picture && block.theme === theme) return block.picture;
    const canvas = document.createElement("canvas"), ramp = rampOf(theme);
    canvas.width = block.width; canvas.height = block.height;
    const context = canvas.getContext("2d"), image = context.createImageData(block.width, block.height), pixels = new Uint32Array(image.data.buffer);
    let largest = 0;
    for (const value of block.values) if (value > largest) largest = value;
    const factor = 255 / (largest || 1);
    for (let place = 0; place < pixels.length; place++) pixels[place] = ramp[Math.min(255, Math.max(0, Math.round(block.values[place] * factor)))];
    context.putImageData(image, 0, 0);
    Object.assign(block, { picture: canvas, theme });
    return canvas;
  }

  draw() {
    if (this.waiting || !this.alive) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; if (this.alive) this.paint(); });
  }
  paint() {
    const context = this.canvas.getContext("2d"), { width, height } = this.canvas, { row, column, rows, columns } = this.view;
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    const scaleX = width / columns, scaleY = height / rows;
    for (const block of [this.whole, this.sharp]) {
      if (!block) continue;
      const x = (block.columns[0] - column) * scaleX, y = (block.rows[0] - row) * scaleY;
      context.drawImage(this.picture(block), x, y, (block.columns[1] - block.columns[0]) * scaleX, (block.rows[1] - block.rows[0]) * scaleY);
    }
    if (this.row !== null) {
      context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--second"); context.lineWidth = 2;
      context.strokeRect(1, (this.row - row) * scaleY, width - 2, Math.max(2, scaleY));
    }
  }

  zoom(factor, atX, atY) {
    const { row, column, rows, columns } = this.view;
    const newRows = Math.min(this.numRows, Math.max(Math.min(4, this.numRows), rows * factor)), newColumns = Math.min(this.numColumns, Math.max(Math.min(4, this.numColumns), columns * factor));
    this.moveTo(row + (rows - newRows) * atY, column + (columns - newColumns) * atX, newRows, newColumns);
  }
  moveTo(row, column, rows = this.view.rows, columns = this.view.columns) {
    this.view = { row: Math.max(0, Math.min(this.numRows - rows, row)), column: Math.max(0, Math.min(this.numColumns - columns, column)), rows, columns };
    this.draw(); this.later();
  }

  listen() {
    let drag = null;
    const place = (event) => { const box = this.canvas.getBoundingClientRect(); return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height }; };
    this.canvas.addEventListener("pointerdown", (event) => { drag = { ...place(event), ...this.view, moved: false }; this.canvas.setPointerCapture(event.pointerId); });
    this.canvas.addEventListener("pointermove", (event) => {
      const at = place(event);
      if (!drag) { this.read(at); return; }
      if (Math.abs(at.x - drag.x) + Math.abs(at.y - drag.y) > 0.01) drag.moved = true;
      this.moveTo(drag.row - (at.y - drag.y) * drag.rows, drag.column - (at.x - drag.x) * drag.columns);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) this.take(place(event).y);
      drag = null;
    });
    this.canvas.addEventListener("wheel", (event) => { event.preventDefault(); const at = place(event); this.zoom(event.deltaY > 0 ? 1.25 : 0.8, at.x, at.y); }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => {
      const { row, column, rows, columns } = this.view, step = { ArrowUp: [-0.1, 0], ArrowDown: [0.1, 0], ArrowLeft: [0, -0.1], ArrowRight: [0, 0.1] }[event.key];
      if (step) this.moveTo(row + step[0] * rows, column + step[1] * columns);
      else if (event.key === "+") this.zoom(0.5, 0.5, 0.5);
      else if (event.key === "-") this.zoom(2, 0.5, 0.5);
      else if (event.key === "Enter") this.take(0.5);
      else return;
      event.preventDefault();
    });
  }
  take(share) {
    const row = Math.max(0, Math.min(this.numRows - 1, Math.floor(this.view.row + share * this.view.rows)));
    this.context.setState({ trace: this.trace.name, layer: this.layer.name, head: this.head === null ? "mean" : this.head, row });
  }
  nameOfRow(row) { const number = Array.isArray(this.layer.rows) ? this.layer.rows[row] : row; return this.rowLabels ? `${this.rowLabels[row]} (${number})` : String(number); }
  nameOfColumn(column) { return this.columnLabels ? `${this.columnLabels[column]} (${column})` : String(column); }

  read({ x, y }) {
    const row = Math.floor(this.view.row + y * this.view.rows), column = Math.floor(this.view.column + x * this.view.columns);
    if (row < 0 || row >= this.numRows || column < 0 || column >= this.numColumns) { this.readout.textContent = ""; return; }
    const inside = [this.sharp, this.whole].find((block) => block && row >= block.rows[0] && row < block.rows[1] && column >= block.columns[0] && column < block.columns[1] && block.height === block.rows[1] - block.rows[0] && block.width === block.columns[1] - block.columns[0]);
    const weight = inside ? format(inside.values[(row - inside.rows[0]) * inside.width + column - inside.columns[0]], 4) : "zoom in for its weight";
    this.readout.textContent = `row ${this.nameOfRow(row)} → column ${this.nameOfColumn(column)}: ${weight}`;
  }

  here(row) { // a row of a matrix that is here in full
    const { whole } = this;
    if (!whole || whole.height !== this.numRows || whole.width !== this.numColumns) return null;
    const values = whole.values.slice(row * whole.width, (row + 1) * whole.width);
    return { values, largest: Math.max(1e-9, ...values) };
  }
  async showRow(row) {
    this.row = row;
    if (!this.whole && this.context.about.static) { this.waitingRow = row; return; } // the rows of an export come with their matrix
    try {
      const block = this.here(row) ?? (await this.ask([row, row + 1], [0, this.numColumns]));
      if (!this.alive || this.row !== row) return;
      const order = [...block.values.keys()].sort((one, two) => block.values[two] - block.values[one]).slice(0, 12), theme = this.context.theme();
      const strongest = element("table", {}, element("tbody", {}, order.map((column) => element("tr", {}, element("td", {}, this.nameOfColumn(column)), element("td", { class: "number", "data-weight": block.values[column] }, format(block.values[column], 4))))));
      let text = null;
      if (this.columnLabels && this.numColumns <= 1500) {
        text = element("p", {}, this.columnLabels.map((label, column) => { const share = block.values[column] / block.largest; const [red, green, blue] = shadeBytes(share, theme); return element("span", { title: format(block.values[column], 4), style: { background: share > 0.02 ? `rgb(${red} ${green} ${blue})` : "", color: share > 0.02 ? ((theme === "dark") === (share < 0.62) ? "#fff" : "#12161c") : "" } }, label.replaceAll("␣", " ")); }));
      }
      this.words.replaceChildren(element("h3", {}, `Row ${this.nameOfRow(row)} looks at`), strongest, ...(text ? [text] : []));
    } catch (error) { this.words.replaceChildren(errorBox(error)); }
  }
}
