// The overview of a trace: a line for each layer, a small square for each head.
import { bytesOf, element, rampOf } from "./parts.js";

const shortName = (name) => (name.length > 18 ? `…${name.slice(-17)}` : name);

/** All heads on one canvas. */
export class Overview {
  constructor(trace, context, choose, chosen) {
    Object.assign(this, { trace, context, choose, chosen });
    const most = Math.max(...trace.layers.map((layer) => layer.heads.length));
    this.cell = most > 20 ? 26 : most > 10 ? 34 : 52;
    this.gap = most > 20 ? 2 : 4; // between two squares
    this.left = Math.min(150, 16 + 7 * Math.max(...trace.layers.map((layer) => shortName(layer.name).length)));
    this.top = 18;
    const width = this.left + most * this.cell + 4,
      height = this.top + trace.layers.length * this.cell + 4,
      ratio = Math.min(2, devicePixelRatio || 1);
    this.canvas = element("canvas", {
      width: width * ratio,
      height: height * ratio,
      tabindex: 0,
      role: "application",
      style: { width: `${width}px`, height: `${height}px` },
      "data-layers": trace.layers.length,
      "data-heads": most,
    });
    this.ratio = ratio;
    this.readout = element("p", { class: "readout" });
    this.root = element("div", {}, element("div", { class: "overview" }, this.canvas), this.readout);
    this.canvas.addEventListener("click", (event) => {
      const at = this.at(event);
      if (at) choose(at.layer, at.head);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const at = this.at(event);
      this.readout.textContent = at ? `${at.layer.name}, head ${at.head}` : "";
    });
    this.canvas.addEventListener("keydown", (event) => this.move(event));
  }
  at(event) {
    const row = Math.floor((event.offsetY - this.top) / this.cell),
      column = Math.floor((event.offsetX - this.left) / this.cell),
      layer = this.trace.layers[row];
    return layer && column >= 0 && column < layer.heads.length ? { layer, head: layer.heads[column] } : null;
  }
  move(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const { layer, head } = this.chosen(),
      row = this.trace.layers.indexOf(layer) + step[0],
      other = this.trace.layers[Math.max(0, Math.min(this.trace.layers.length - 1, row))];
    const column = Math.max(0, layer.heads.indexOf(head)) + step[1];
    this.choose(other, other.heads[Math.max(0, Math.min(other.heads.length - 1, column))], { replace: true });
  }
  pictures(theme) {
    if (this.drawnFor === theme) return this.cached;
    const [high, wide] = [this.trace.side, this.trace.side];
    this.cached = this.trace.layers.map((layer) => {
      const bytes = bytesOf(layer.thumbnails),
        [rows, columns] = layer.shape,
        sheet = document.createElement("canvas");
      sheet.width = layer.heads.length * columns;
      sheet.height = rows;
      const context = sheet.getContext("2d"),
        image = context.createImageData(sheet.width, rows),
        ramp = rampOf(theme),
        pixels = new Uint32Array(image.data.buffer);
      layer.heads.forEach((_, head) => {
        for (let y = 0; y < rows; y++)
          for (let x = 0; x < columns; x++) pixels[y * sheet.width + head * columns + x] = ramp[bytes[(head * rows + y) * columns + x]];
      });
      context.putImageData(image, 0, 0);
      return { sheet, rows, columns };
    });
    this.drawnFor = theme;
    return this.cached;
  }
  draw() {
    const theme = this.context.theme(),
      pictures = this.pictures(theme),
      context = this.canvas.getContext("2d"),
      style = getComputedStyle(document.documentElement);
    const { layer: chosenLayer, head: chosenHead } = this.chosen();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.imageSmoothingEnabled = false;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const ink = style.getPropertyValue("--muted"),
      accent = style.getPropertyValue("--second");
    const heads = Math.max(...this.trace.layers.map((layer) => layer.heads.length));
    context.fillStyle = ink;
    context.textAlign = "center";
    for (let head = 0; head < heads; head += this.cell < 30 ? 4 : 1)
      context.fillText(String(this.trace.layers[0].heads[head] ?? head), this.left + (head + 0.5) * this.cell, 9);
    this.trace.layers.forEach((layer, row) => {
      const y = this.top + row * this.cell,
        { sheet, rows, columns } = pictures[row];
      context.fillStyle = ink;
      context.textAlign = "right";
      context.fillText(shortName(layer.name), this.left - 6, y + this.cell / 2);
      layer.heads.forEach((head, column) => {
        const x = this.left + column * this.cell;
        context.drawImage(sheet, column * columns, 0, columns, rows, x, y, this.cell - this.gap, this.cell - this.gap);
        if (layer === chosenLayer && (chosenHead === null || head === chosenHead)) {
          context.strokeStyle = accent;
          context.lineWidth = 2;
          context.strokeRect(x - 1, y - 1, this.cell, this.cell);
        }
      });
    });
    this.canvas.setAttribute(
      "aria-label",
      `Overview of ${this.trace.layers.length} layers. Chosen: ${chosenLayer.name}, ${chosenHead === null ? "mean of all heads" : `head ${chosenHead}`}`,
    );
  }
}
