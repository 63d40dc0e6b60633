// A digit drawn by hand, cropped and centred as those of MNIST were: the same numbers as regard.tasks.drawn_digit.

const SIDE = 28,
  INNER = 20,
  INK = 32; // pixels; from 0 to 255, what counts as ink

/** Grey levels 0 to 255, white on black, as a picture of 28 × 28: the ink fits 20 × 20, and its centre of mass is in the middle. */
export function centredDigit(grey, width, height) {
  let [top, bottom, left, right] = [height, -1, width, -1];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (grey[y * width + x] < INK) continue;
      [top, bottom, left, right] = [Math.min(top, y), Math.max(bottom, y), Math.min(left, x), Math.max(right, x)];
    }
  }
  const digit = new Uint8ClampedArray(SIDE * SIDE);
  if (bottom < 0) return digit;
  const [high, wide] = [bottom - top + 1, right - left + 1],
    scale = INNER / Math.max(high, wide);
  const [rows, columns] = [high, wide].map((side) => Math.max(1, Math.min(INNER, Math.floor(side * scale + 0.5))));
  const [down, across] = [shares(high, rows), shares(wide, columns)];
  const small = new Float64Array(rows * columns);
  let [mass, massY, massX] = [0, 0, 0];
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      let sum = 0;
      for (const [y, partY] of down[r]) for (const [x, partX] of across[c]) sum += partY * partX * grey[(top + y) * width + left + x];
      small[r * columns + c] = sum;
      mass += sum;
      massY += sum * (r + 0.5);
      massX += sum * (c + 0.5);
    }
  }
  const place = (moment, side) => Math.max(0, Math.min(SIDE - side, Math.floor(SIDE / 2 - moment / mass + 0.5)));
  const [y0, x0] = [place(massY, rows), place(massX, columns)];
  for (let r = 0; r < rows; r++)
    for (let c = 0; c < columns; c++) digit[(y0 + r) * SIDE + x0 + c] = Math.floor(small[r * columns + c] + 0.5);
  return digit;
}

/* Which pixels a smaller pixel covers, and with which share each. */
function shares(from, to) {
  return Array.from({ length: to }, (_, place) => {
    const [start, end] = [(place * from) / to, ((place + 1) * from) / to],
      covered = [];
    for (let pixel = Math.floor(start); pixel < Math.ceil(end - 1e-9); pixel++) {
      const share = (Math.min(end, pixel + 1) - Math.max(start, pixel)) / (end - start);
      if (share > 0) covered.push([pixel, share]);
    }
    return covered;
  });
}

/** A canvas to draw a digit on, with pointer or keys. `changed` is given the canvas of the centred digit, and whether there is ink. */
export function digitPad(el, changed) {
  const size = 280,
    pad = el("canvas", {
      class: "regard-pad",
      width: size,
      height: size,
      tabindex: 0,
      role: "application",
      "aria-label": "draw a digit; arrow keys move the pen, space puts it down or lifts it",
    });
  const small = el("canvas", {
    class: "regard-small",
    width: SIDE,
    height: SIDE,
    role: "img",
    "aria-label": "the digit as the model gets it",
  });
  const pen = pad.getContext("2d", { willReadFrequently: true });
  const state = { x: size / 2, y: size / 3, down: false };
  const clear = () => {
    pen.fillStyle = "#000";
    pen.fillRect(0, 0, size, size);
    show();
  };
  function show() {
    const { data } = pen.getImageData(0, 0, size, size),
      grey = new Float64Array(size * size);
    for (let n = 0; n < grey.length; n++) grey[n] = data[4 * n];
    const digit = centredDigit(grey, size, size),
      pixels = new ImageData(SIDE, SIDE);
    digit.forEach((level, n) => pixels.data.set([level, level, level, 255], 4 * n));
    small.getContext("2d").putImageData(pixels, 0, 0);
    changed(
      small,
      digit.some((level) => level > 0),
    );
  }
  function line(x, y, from = state) {
    pen.strokeStyle = "#fff";
    pen.lineWidth = 22;
    pen.lineCap = pen.lineJoin = "round";
    pen.beginPath();
    pen.moveTo(from.x, from.y);
    pen.lineTo(x, y);
    pen.stroke();
  }
  const under = (event) => {
    const area = pad.getBoundingClientRect();
    return [((event.clientX - area.left) * size) / area.width, ((event.clientY - area.top) * size) / area.height];
  };
  let drawing = false;
  pad.addEventListener("pointerdown", (event) => {
    pad.setPointerCapture(event.pointerId);
    drawing = true;
    [state.x, state.y] = under(event);
    line(state.x, state.y);
  });
  pad.addEventListener("pointermove", (event) => {
    if (!drawing) return;
    const [x, y] = under(event);
    line(x, y);
    Object.assign(state, { x, y });
  });
  const end = () => {
    if (drawing) {
      drawing = false;
      show();
    }
  };
  pad.addEventListener("pointerup", end);
  pad.addEventListener("pointercancel", end);
  pad.addEventListener("keydown", (event) => {
    const way = { ArrowUp: [0, -14], ArrowDown: [0, 14], ArrowLeft: [-14, 0], ArrowRight: [14, 0] }[event.key];
    if (event.key === " ") {
      state.down = !state.down;
      if (state.down) line(state.x, state.y);
    } else if (way) {
      const [x, y] = [Math.min(size, Math.max(0, state.x + way[0])), Math.min(size, Math.max(0, state.y + way[1]))];
      if (state.down) line(x, y);
      Object.assign(state, { x, y });
    } else return;
    event.preventDefault();
    show();
  });
  clear();
  return { pad, small, clear };
}
