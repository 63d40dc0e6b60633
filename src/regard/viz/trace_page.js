/* The page of a trace, after trace_matrix.js: thumbnails of all heads, one matrix, and a text shaded by one of its rows.
   Weights are unpacked when they are looked at, so the page opens at once however many there are. */
const facts = JSON.parse(document.getElementById("facts").textContent);
const layers = facts.layers, texts = facts.texts;
const board = document.querySelector(".overview");
const parsed = new Promise((done) => {
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", done); else done();
});
const SHADES = 16, MOST_WORDS = 16384;
const state = { layer: 0, head: 0, row: 0 };
let side = 40, inks, turn = 0;

/* Numbers. */
async function unpack(id) {
  if (!get(id)) await parsed;
  const text = get(id).textContent;
  let bytes;
  if (Uint8Array.fromBase64) bytes = Uint8Array.fromBase64(text);
  else {
    const letters = atob(text);
    bytes = new Uint8Array(letters.length);
    for (let n = 0; n < letters.length; n++) bytes[n] = letters.charCodeAt(n);
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}
/* Lines of bytes after the numbers that 0 and 255 stand for in each line. */
async function lines(id, count, width) {
  const buffer = await unpack(id), ends = new Float32Array(buffer, 0, 2 * count);
  return { low: ends.subarray(0, count), high: ends.subarray(count), bytes: new Uint8Array(buffer, 8 * count), count, width };
}
const weight = (held, row, column) =>
  held.low[row] + ((held.high[row] - held.low[row]) * held.bytes[row * held.width + column]) / 255;
const thumbnails = layers.map(() => null);
function thumbs(place) {
  const layer = layers[place];
  thumbnails[place] ??= lines(`t${place}`, layer.heads.length, layer.thumb[0] * layer.thumb[1]);
  return thumbnails[place];
}
const rowWord = (layer, row) => (layer.rowText === null ? String(layer.rows[row]) : texts[layer.rowText][row]);
const columnWord = (layer, column) => (layer.columnText === null ? String(column) : texts[layer.columnText][column]);
const format = (number) => (number !== 0 && Math.abs(number) < 0.001 ? number.toExponential(1) : number.toFixed(3));

/* Colours: from the ground to that of weights, as the style has them in light and dark. */
function mix() {
  const style = getComputedStyle(document.documentElement), hex = style.getPropertyValue("--card").trim().slice(1);
  const ground = [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16));
  const heat = style.getPropertyValue("--heat").split(",").map(Number);
  const colours = new Uint32Array(256);
  for (let n = 0; n < 256; n++) {
    const share = 0.05 + (0.95 * n) / 255;
    const [r, g, b] = ground.map((from, channel) => Math.round(from + (heat[channel] - from) * share));
    colours[n] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  const value = (name) => style.getPropertyValue(name).trim();
  inks = { colours, ink: value("--ink"), soft: value("--soft"), paper: value("--paper"), mark: value("--c2") };
}

/* Layers × heads. */
const widest = Math.max(...layers.map((layer) => layer.heads.length));
const frame = document.createElement("div");
frame.className = "frame";
const strips = layers.map((layer, place) => {
  const line = document.createElement("div"), name = document.createElement("span"), strip = document.createElement("canvas");
  line.className = "line";
  name.className = "name";
  name.textContent = layer.short;
  name.title = layer.name;
  line.append(name, strip);
  strip.addEventListener("click", (event) => choose(place, Math.floor(event.offsetX / side)));
  strip.addEventListener("pointermove", (event) => {
    const head = layer.heads[Math.floor(event.offsetX / side)];
    strip.title = `${layer.name}${layer.hasHeads && head !== undefined ? ` · head ${head}` : ""}`;
  });
  return strip;
});
const visible = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    entry.target.shown = entry.isIntersecting;
    if (entry.isIntersecting && !entry.target.drawn) drawStrip(strips.indexOf(entry.target));
  }
}, { root: board, rootMargin: "200px" });

function layOut() {
  const narrow = board.clientWidth < 600, letters = Math.max(...layers.map((layer) => layer.short.length));
  const names = Math.max(46, Math.min(narrow ? 90 : 260, 18 + 6.6 * letters));
  const scale = devicePixelRatio || 1;
  side = Math.max(narrow ? 22 : 20, Math.min(84, Math.max(44, Math.floor(250 / layers.length)), Math.floor((board.clientWidth - names - 10) / widest)));
  board.style.setProperty("--names", `${names}px`);
  board.style.setProperty("--side", `${side}px`);
  strips.forEach((strip, place) => {
    const across = side * layers[place].heads.length;
    strip.style.width = `${across}px`;
    strip.style.height = `${side}px`;
    strip.width = Math.round(across * scale);
    strip.height = Math.round(side * scale);
    strip.drawn = false;
    if (strip.shown) drawStrip(place);
  });
  placeFrame();
}
async function drawStrip(place) {
  const strip = strips[place], layer = layers[place], [down, across] = layer.thumb;
  strip.drawn = true;
  if (!down || !across) return;
  const held = await thumbs(place), scale = strip.height / side, cell = strip.height - 2 * scale;
  const tile = new OffscreenCanvas(across, down), drawing = tile.getContext("2d"), brush = strip.getContext("2d");
  brush.imageSmoothingEnabled = across > cell || down > cell;
  brush.imageSmoothingQuality = "medium";
  layer.heads.forEach((_, head) => {
    const picture = drawing.createImageData(across, down), pixels = new Uint32Array(picture.data.buffer), start = head * across * down;
    const zero = zeroOf(held, head);
    for (let n = 0; n < pixels.length; n++) {
      const share = Math.max(0, held.bytes[start + n] - zero) / (255 - zero || 1);
      pixels[n] = inks.colours[Math.round(255 * Math.sqrt(share))];
    }
    drawing.putImageData(picture, 0, 0);
    brush.drawImage(tile, (head * side + 1) * scale, scale, cell, cell);
  });
}
/* The step that stands for a weight of 0: the first one, unless there are weights below. */
const zeroOf = (held, line) => (held.low[line] < 0 ? Math.round((-255 * held.low[line]) / (held.high[line] - held.low[line])) : 0);
function placeFrame() {
  const strip = strips[state.layer];
  frame.style.left = `${strip.offsetLeft + state.head * side}px`;
  frame.style.top = `${strip.offsetTop}px`;
}

/* The chosen layer and head. */
async function choose(place, head, row = null) {
  const layer = layers[place], changed = place !== state.layer || matrix === null;
  const number = layers[state.layer].rows[state.row], mine = ++turn;
  state.layer = place;
  state.head = Math.max(0, Math.min(layer.heads.length - 1, head));
  const kept = layer.rows.length - layer.kept, same = layer.rows.indexOf(number);
  state.row = Math.max(kept, Math.min(layer.rows.length - 1, row ?? (matrix === null || same < 0 ? layer.rows.length - 1 : same)));
  get("layer").value = place;
  get("head").replaceChildren(...layer.heads.map((each, n) => new Option(layer.hasHeads ? each : "–", n)));
  get("head").value = state.head;
  placeFrame();
  const strip = strips[place], names = parseFloat(board.style.getPropertyValue("--names")), top = strip.offsetTop - side;
  if (top < board.scrollTop || top + 3 * side > board.scrollTop + board.clientHeight) board.scrollTop = top;
  const left = strip.offsetLeft + state.head * side;
  if (left - names < board.scrollLeft || left + side > board.scrollLeft + board.clientWidth) board.scrollLeft = left - names - side;
  const held = layer.kept
    ? await lines(`r${place}-${state.head}`, layer.kept, layer.columns)
    : await thumbs(place).then((all) => {
      const [down, across] = layer.thumb, start = state.head * down * across;
      const every = (value) => new Float32Array(down).fill(value);
      return { low: every(all.low[state.head]), high: every(all.high[state.head]), bytes: all.bytes.subarray(start, start + down * across), count: down, width: across };
    });
  if (mine !== turn) return; // another one was chosen meanwhile
  if (changed) {
    get("lift").checked = layer.columns > 256;
    writeWords(layer);
  }
  matrix = { layer, held, first: layer.kept ? kept : 0, pooled: !layer.kept, levels: new Map() };
  get("scale").disabled = matrix.pooled;
  measure(changed);
  pointed = null;
  chooseRow(state.row);
}
function chooseRow(row) {
  const { layer } = matrix;
  state.row = Math.max(layer.rows.length - layer.kept, Math.min(layer.rows.length - 1, row));
  get("before").disabled = !layer.kept || state.row === layer.rows.length - layer.kept;
  get("after").disabled = !layer.kept || state.row === layer.rows.length - 1;
  shadeWords();
  tell();
  paint();
}

const bold = (text) => { const word = document.createElement("bdi"); word.textContent = text; return word; };
/* The row under the pointer, or else the chosen one, in words. */
function tell() {
  const { layer, held } = matrix, told = get("told");
  if (!held.count || !held.width) return told.replaceChildren("nothing was kept of this layer");
  if (matrix.pooled) {
    const rest = pointed && pointed[1] !== null ? [" Here: ", bold(plotRow(pointed[0])), " ← ", bold(plotColumn(pointed[1])), ` ${format(weight(held, pointed[0], pointed[1]))}`] : [];
    return told.replaceChildren("Mean weights of blocks of rows and columns: no row was kept in full.", ...rest);
  }
  const row = pointed ? pointed[0] : state.row - matrix.first, best = [];
  for (let column = 0; column < held.width; column++) {
    const share = weight(held, row, column);
    if (best.length < 6 || share > best[5][0]) {
      best.push([share, column]);
      best.sort((a, b) => b[0] - a[0] || a[1] - b[1]);
      best.length = Math.min(best.length, 6);
    }
  }
  const named = (word, number) => (layer.columnText === null ? [bold(word)] : [bold(word), ` (${number})`]);
  const parts = [...(layer.rowText === null ? [bold(`row ${plotRow(row)}`)] : [bold(plotRow(row)), ` (row ${layer.rows[matrix.first + row]})`]), " looks at "];
  best.filter(([share], n) => n === 0 || share > 0).forEach(([share, column], n) => parts.push(n ? ", " : "", ...named(columnWord(layer, column), column), ` ${format(share)}`));
  if (pointed && pointed[1] !== null) parts.push("; here ", ...named(columnWord(layer, pointed[1]), pointed[1]), ` ${format(weight(held, row, pointed[1]))}`);
  return told.replaceChildren(...parts);
}

/* Words. */
let spans = [], shaded = [], firstWord = 0, picks = [];
function writeWords(layer) {
  const rows = new Map(), dropped = layer.rows.length - layer.kept;
  layer.columnOfRow.forEach((column, row) => { if (column !== null && row >= dropped) rows.set(column, row); });
  const own = rows.size > 0;
  const write = (home, count, first, word, rowOf) => {
    const joined = Array.from({ length: Math.min(count, 400) }, (_, n) => word(first + n)).some((each) => each.startsWith("␣") && each.length > 1);
    const made = [], pieces = [];
    for (let n = first; n < first + count; n++) {
      const span = document.createElement("span"), said = word(n), spaced = joined && said.startsWith("␣") && said.length > 1;
      if (n > first && (!joined || spaced)) pieces.push(" ");
      span.textContent = spaced ? said.slice(1) : said;
      const row = rowOf(n);
      if (row !== undefined) span.className = "choice";
      span.place = n;
      span.row = row;
      made.push(span);
      pieces.push(span);
      if (said.endsWith("⏎")) pieces.push(document.createElement("br"));
    }
    home.replaceChildren(...pieces);
    return made;
  };
  const count = Math.min(layer.columns, MOST_WORDS);
  firstWord = layer.columns - count;
  spans = write(get("text"), count, firstWord, (n) => columnWord(layer, n), (n) => rows.get(n));
  get("text").classList.toggle("all", rows.size === count);
  get("picks").hidden = own || !layer.kept;
  const shownRows = Math.min(layer.kept, MOST_WORDS);
  picks = own || !layer.kept ? [] : write(get("picks"), shownRows, layer.rows.length - shownRows, (n) => rowWord(layer, n), (n) => n);
  get("picks").classList.add("all");
  shaded = new Uint8Array(spans.length);
}
function shadeWords() {
  const { layer, held } = matrix, chosen = get("chosen");
  get("word").replaceChildren(); // it told a weight of the row before
  if (!layer.kept) return chosen.replaceChildren("No row was kept in full, so the words are not shaded.");
  const row = state.row - matrix.first, top = held.high[row] || 1, lift = get("lift").checked;
  spans.forEach((span, n) => {
    const share = Math.max(0, weight(held, row, firstWord + n)) / top, shade = Math.round(SHADES * (lift ? Math.sqrt(share) : share));
    if (shade === shaded[n]) return;
    span.classList.remove(`s${shaded[n]}`);
    if (shade) span.classList.add(`s${shade}`);
    shaded[n] = shade;
  });
  document.querySelectorAll(".words .current").forEach((span) => span.classList.remove("current"));
  const column = layer.columnOfRow[state.row], own = column === null ? picks[state.row - layer.rows.length + picks.length] : spans[column - firstWord];
  if (own) {
    own.classList.add("current");
    const home = own.parentElement, start = own.offsetTop - home.offsetTop;
    if (start < home.scrollTop || start + own.offsetHeight > home.scrollTop + home.clientHeight) home.scrollTop = start - home.clientHeight / 2;
  }
  const note = firstWord ? `; the last ${spans.length} words are shown` : "";
  const name = layer.rowText === null ? [] : [": ", bold(rowWord(layer, state.row))];
  return chosen.replaceChildren(`row ${layer.rows[state.row]} (${row + 1} of ${held.count})`, ...name, `, darkest ${format(held.high[row])}${note}`);
}

/* What a hand does. */
for (const home of [get("text"), get("picks")]) {
  home.addEventListener("click", (event) => { if (event.target.row !== undefined && event.target.place !== undefined) chooseRow(event.target.row); });
  home.addEventListener("keydown", (event) => move(event, { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }, (by) => chooseRow(state.row + by)));
}
get("text").addEventListener("pointerover", (event) => {
  const column = event.target.place, told = get("word");
  if (column === undefined || !matrix.layer.kept) return told.replaceChildren();
  return told.replaceChildren(bold(columnWord(matrix.layer, column)), ` (${column}) ${format(weight(matrix.held, state.row - matrix.first, column))}`);
});
function move(event, keys, act) {
  if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  if (matrix) act(keys[event.key]);
}
board.addEventListener("keydown", (event) => move(event, { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }, ([down, across]) =>
  choose(Math.max(0, Math.min(layers.length - 1, state.layer + down)), state.head + across)));
get("layer").append(...layers.map((layer, n) => new Option(layer.name, n)));
get("layer").addEventListener("change", (event) => choose(Number(event.target.value), state.head));
get("head").addEventListener("change", (event) => choose(state.layer, Number(event.target.value)));
for (const id of ["scale", "lift"]) get(id).addEventListener("change", () => { matrix.levels.clear(); shadeWords(); paint(); });
get("before").addEventListener("click", () => chooseRow(state.row - 1));
get("after").addEventListener("click", () => chooseRow(state.row + 1));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { mix(); layOut(); paint(); });
let breadth = 0;
new ResizeObserver(() => { if (board.clientWidth !== breadth) { breadth = board.clientWidth; layOut(); } }).observe(board);

mix();
const numbers = document.createElement("div"), corner = document.createElement("span");
numbers.className = "line numbers";
corner.className = "corner";
corner.textContent = "head";
const common = layers.every((layer) => layer.heads.every((head, n) => head === (layers.find((each) => each.heads.length === widest)).heads[n]));
numbers.append(corner, ...Array.from({ length: widest }, (_, n) => {
  const number = document.createElement("i");
  number.textContent = common ? layers.find((each) => each.heads.length === widest).heads[n] : n;
  return number;
}));
board.append(numbers, ...strips.map((strip) => strip.parentElement), frame);
layOut();
strips.forEach((strip) => visible.observe(strip));
const wanted = new URLSearchParams(location.hash.slice(1)), number = (name) => (wanted.has(name) ? Number(wanted.get(name)) || 0 : null);
choose(Math.max(0, Math.min(layers.length - 1, number("layer") ?? 0)), number("head") ?? 0, number("row")).then(() => {
  document.documentElement.dataset.ready = Math.round(performance.now());
});
