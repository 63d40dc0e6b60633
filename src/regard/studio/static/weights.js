// One matrix of a trace, of which a window is seen.
import { bytesOf, element, errorBox, format, rampOf, shadeBytes } from "./parts.js";

const SIDE = 560; // pixels of the matrix
const READABLE = 13; // pixels of a row or column that has its word beside it
const GUTTERS = { left: 118, top: 84 }; // pixels of the words and numbers beside the matrix

const shortened = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);
/** The next of 1, 2, 5, 10, 20 … */
function nice(count) {
  const power = 10 ** Math.floor(Math.log10(count)),
    step = [1, 2, 5, 10].find((each) => each * power >= count);
  return Math.max(1, step * power);
}

// One matrix: a window of it is drawn at once from what is here, and comes sharper when its rows have arrived.
export class Matrix {
  constructor(trace, layer, head, context) {
    Object.assign(this, { trace, layer, head, context, alive: true, sharp: null, whole: null, row: null, number: 0 });
    this.numRows = Array.isArray(layer.rows) ? layer.rows.length : layer.rows;
    this.numColumns = layer.columns;
    this.rowLabels = trace.labels[layer.row_labels] ?? null;
    this.columnLabels = trace.labels[layer.column_labels] ?? null;
    const tall = Math.max(60, Math.round(SIDE * Math.min(1, Math.max(0.12, this.numRows / this.numColumns))));
    this.canvas = element("canvas", {
      width: SIDE,
      height: tall,
      tabindex: 0,
      role: "application",
      "aria-label": `Weights of ${layer.name}: ${this.numRows} rows over ${this.numColumns} columns. Plus and minus zoom, arrows move, Enter takes the row in the middle.`,
      style: { width: "100%", maxWidth: `${SIDE}px` },
    });
    this.readout = element("p", { class: "readout" });
    this.words = element("div", { class: "words" });
    [this.left, this.top] = ["left", "top"].map((side) => element("canvas", { class: side, "aria-hidden": "true" }));
    this.legend = element("p", { class: "legend muted small" });
    this.error = element("div", {});
    this.root = element(
      "div",
      { class: "grid" },
      element(
        "div",
        {},
        element(
          "div",
          { class: "framed", style: { gridTemplateColumns: `${GUTTERS.left}px minmax(0, ${SIDE + 2}px)` } },
          this.legend,
          this.top,
          this.left,
          element("div", { class: "matrix" }, this.canvas),
        ),
        this.readout,
        this.error,
        element(
          "p",
          { class: "muted small" },
          "Rows look at columns. Click a row to see its words. Drag to move, wheel or + and − to zoom.",
        ),
      ),
      this.words,
    );
    const button = (text, label, factor) =>
      element(
        "button",
        { type: "button", "aria-label": label, onclick: () => (factor ? this.zoom(factor, 0.5, 0.5) : this.reset()) },
        text,
      );
    this.buttons = element(
      "div",
      { class: "buttons" },
      button("+", "Zoom in", 0.5),
      button("−", "Zoom out", 2),
      button("Whole", "Show the whole matrix", 0),
    );
    this.reset();
    this.listen();
    this.fetchWhole();
  }
  destroy() {
    this.alive = false;
    clearTimeout(this.timer);
  }
  reset() {
    this.view = { row: 0, column: 0, rows: this.numRows, columns: this.numColumns };
    this.draw();
  }

  update() {
    // the row that the address names
    const row = this.context.state.row === undefined ? null : Number(this.context.state.row);
    if (row !== this.row && Number.isInteger(row) && row >= 0 && row < this.numRows) this.showRow(row);
    else if (row === null) {
      this.row = null;
      this.words.replaceChildren();
    }
    this.draw();
  }

  async ask(rows, columns) {
    const answer = await this.context.api.post(`api/traces/${encodeURIComponent(this.trace.name)}/rows`, {
      layer: this.layer.name,
      head: this.head,
      rows,
      columns,
    });
    const values = new Float32Array(bytesOf(answer.weights).buffer),
      [height, width] = answer.shape;
    return { rows, columns, height, width, values, largest: Math.max(answer.largest, 1e-9), picture: null, theme: null };
  }
  async fetchWhole() {
    try {
      const whole = await this.ask([0, this.numRows], [0, this.numColumns]);
      if (!this.alive) return;
      this.whole = whole;
      this.canvas.dataset.ready = "1";
      this.draw();
      if (this.waitingRow !== undefined) {
        const row = this.waitingRow;
        this.waitingRow = undefined;
        this.showRow(row);
      }
    } catch (error) {
      if (this.alive) this.error.replaceChildren(errorBox(error));
    }
  }
  later() {
    clearTimeout(this.timer);
    if (!this.whole || (this.whole.height === this.numRows && this.whole.width === this.numColumns)) return; // all of it is here
    this.timer = setTimeout(async () => {
      const { row, column, rows, columns } = this.view,
        number = ++this.number;
      const first = Math.max(0, Math.floor(row)),
        left = Math.max(0, Math.floor(column));
      try {
        const sharp = await this.ask(
          [first, Math.min(this.numRows, Math.ceil(row + rows))],
          [left, Math.min(this.numColumns, Math.ceil(column + columns))],
        );
        if (this.alive && number === this.number) {
          this.sharp = sharp;
          this.draw();
        }
      } catch (error) {
        if (this.alive) this.error.replaceChildren(errorBox(error));
      }
    }, 120);
  }

  picture(block) {
    const theme = this.context.theme();
    if (block.picture && block.theme === theme) return block.picture;
    const canvas = document.createElement("canvas"),
      ramp = rampOf(theme);
    canvas.width = block.width;
    canvas.height = block.height;
    const context = canvas.getContext("2d"),
      image = context.createImageData(block.width, block.height),
      pixels = new Uint32Array(image.data.buffer);
    let largest = 0;
    for (const value of block.values) if (value > largest) largest = value;
    const factor = 255 / (largest || 1);
    for (let place = 0; place < pixels.length; place++)
      pixels[place] = ramp[Math.min(255, Math.max(0, Math.round(block.values[place] * factor)))];
    context.putImageData(image, 0, 0);
    Object.assign(block, { picture: canvas, theme });
    return canvas;
  }

  draw() {
    if (this.waiting || !this.alive) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      if (this.alive) this.paint();
    });
  }
  paint() {
    const context = this.canvas.getContext("2d"),
      { width, height } = this.canvas,
      { row, column, rows, columns } = this.view;
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    const scaleX = width / columns,
      scaleY = height / rows;
    for (const block of [this.whole, this.sharp]) {
      if (!block) continue;
      const x = (block.columns[0] - column) * scaleX,
        y = (block.rows[0] - row) * scaleY;
      context.drawImage(
        this.picture(block),
        x,
        y,
        (block.columns[1] - block.columns[0]) * scaleX,
        (block.rows[1] - block.rows[0]) * scaleY,
      );
    }
    if (this.row !== null) {
      context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--second");
      context.lineWidth = 2;
      context.strokeRect(1, (this.row - row) * scaleY, width - 2, Math.max(2, scaleY));
    }
    this.label();
  }

  /** The words of rows and columns where they fit; else the numbers of some. */
  label() {
    const box = this.canvas.getBoundingClientRect(),
      ratio = Math.min(2, devicePixelRatio || 1),
      ink = getComputedStyle(document.documentElement).getPropertyValue("--ink");
    for (const [side, canvas] of [
      ["left", this.left],
      ["top", this.top],
    ]) {
      const across = side === "top",
        long = across ? box.width : box.height,
        deep = GUTTERS[side];
      const [first, count, names] = across
        ? [this.view.column, this.view.columns, this.columnLabels]
        : [this.view.row, this.view.rows, this.rowLabels];
      const [wide, high] = across ? [long, deep] : [deep, long];
      if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
        canvas.width = wide * ratio;
        canvas.height = high * ratio;
        Object.assign(canvas.style, { width: `${wide}px`, height: `${high}px` });
      }
      const pen = canvas.getContext("2d"),
        size = long / count,
        every = size >= READABLE ? 1 : nice((2.6 * READABLE) / size);
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, wide, high);
      pen.font = "12px system-ui, sans-serif";
      pen.fillStyle = ink;
      pen.textBaseline = "middle";
      const begin = Math.ceil(first / every) * every;
      for (let place = begin; place < first + count; place += every) {
        const at = (place + 0.5 - first) * size;
        if (at < 0 || at > long) continue;
        const number = across || !Array.isArray(this.layer.rows) ? place : this.layer.rows[place];
        const text = shortened(every === 1 && names ? names[place].replaceAll("␣", " ").trim() || names[place] : String(number));
        pen.save();
        if (across) {
          pen.translate(at, deep - 6);
          pen.rotate(-Math.PI / 3);
          pen.textAlign = "left";
          pen.fillText(text, 0, 0);
        } else {
          pen.textAlign = "right";
          pen.fillText(text, deep - 8, at);
        }
        pen.restore();
      }
    }
    const dark = this.context.theme() === "dark";
    this.legend.textContent = this.whole ? `${dark ? "dark 0, bright" : "light 0, dark"} ${format(this.whole.largest, 2)}` : "";
  }

  zoom(factor, atX, atY) {
    const { row, column, rows, columns } = this.view;
    const newRows = Math.min(this.numRows, Math.max(Math.min(4, this.numRows), rows * factor)),
      newColumns = Math.min(this.numColumns, Math.max(Math.min(4, this.numColumns), columns * factor));
    this.moveTo(row + (rows - newRows) * atY, column + (columns - newColumns) * atX, newRows, newColumns);
  }
  moveTo(row, column, rows = this.view.rows, columns = this.view.columns) {
    this.view = {
      row: Math.max(0, Math.min(this.numRows - rows, row)),
      column: Math.max(0, Math.min(this.numColumns - columns, column)),
      rows,
      columns,
    };
    this.draw();
    this.later();
  }

  listen() {
    let drag = null;
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      drag = { ...place(event), ...this.view, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const at = place(event);
      if (!drag) {
        this.read(at);
        return;
      }
      if (Math.abs(at.x - drag.x) + Math.abs(at.y - drag.y) > 0.01) drag.moved = true;
      this.moveTo(drag.row - (at.y - drag.y) * drag.rows, drag.column - (at.x - drag.x) * drag.columns);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) this.take(place(event).y);
      drag = null;
    });
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const at = place(event);
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, at.x, at.y);
      },
      { passive: false },
    );
    this.canvas.addEventListener("keydown", (event) => {
      const { row, column, rows, columns } = this.view,
        step = { ArrowUp: [-0.1, 0], ArrowDown: [0.1, 0], ArrowLeft: [0, -0.1], ArrowRight: [0, 0.1] }[event.key];
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
  nameOfRow(row) {
    const number = Array.isArray(this.layer.rows) ? this.layer.rows[row] : row;
    return this.rowLabels ? `${this.rowLabels[row]} (${number})` : String(number);
  }
  nameOfColumn(column) {
    return this.columnLabels ? `${this.columnLabels[column]} (${column})` : String(column);
  }

  read({ x, y }) {
    const row = Math.floor(this.view.row + y * this.view.rows),
      column = Math.floor(this.view.column + x * this.view.columns);
    if (row < 0 || row >= this.numRows || column < 0 || column >= this.numColumns) {
      this.readout.textContent = "";
      return;
    }
    const inside = [this.sharp, this.whole].find(
      (block) =>
        block &&
        row >= block.rows[0] &&
        row < block.rows[1] &&
        column >= block.columns[0] &&
        column < block.columns[1] &&
        block.height === block.rows[1] - block.rows[0] &&
        block.width === block.columns[1] - block.columns[0],
    );
    const weight = inside
      ? format(inside.values[(row - inside.rows[0]) * inside.width + column - inside.columns[0]], 4)
      : "zoom in for its weight";
    this.readout.textContent = `row ${this.nameOfRow(row)} → column ${this.nameOfColumn(column)}: ${weight}`;
  }

  here(row) {
    // a row of a matrix that is here in full
    const { whole } = this;
    if (!whole || whole.height !== this.numRows || whole.width !== this.numColumns) return null;
    const values = whole.values.slice(row * whole.width, (row + 1) * whole.width);
    return { values, largest: Math.max(1e-9, ...values) };
  }
  async showRow(row) {
    this.row = row;
    if (!this.whole && this.context.about.static) {
      this.waitingRow = row;
      return;
    } // the rows of an export come with their matrix
    try {
      const block = this.here(row) ?? (await this.ask([row, row + 1], [0, this.numColumns]));
      if (!this.alive || this.row !== row) return;
      const order = [...block.values.keys()].sort((one, two) => block.values[two] - block.values[one]).slice(0, 12),
        theme = this.context.theme();
      const strongest = element(
        "table",
        {},
        element(
          "tbody",
          {},
          order.map((column) =>
            element(
              "tr",
              {},
              element("td", {}, this.nameOfColumn(column)),
              element("td", { class: "number", "data-weight": block.values[column] }, format(block.values[column], 4)),
            ),
          ),
        ),
      );
      let text = null;
      if (this.columnLabels && this.numColumns <= 1500) {
        text = element(
          "p",
          {},
          this.columnLabels.map((label, column) => {
            const share = block.values[column] / block.largest;
            const [red, green, blue] = shadeBytes(share, theme);
            return element(
              "span",
              {
                title: format(block.values[column], 4),
                style: {
                  background: share > 0.02 ? `rgb(${red} ${green} ${blue})` : "",
                  color: share > 0.02 ? ((theme === "dark") === share < 0.62 ? "#fff" : "#12161c") : "",
                },
              },
              label.replaceAll("␣", " "),
            );
          }),
        );
      }
      this.words.replaceChildren(element("h3", {}, `Row ${this.nameOfRow(row)} looks at`), strongest, ...(text ? [text] : []));
    } catch (error) {
      this.words.replaceChildren(errorBox(error));
    }
  }
}
