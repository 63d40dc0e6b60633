"use strict";
(() => {
/* Alignments: point at an output word and its source words light up by weight, and the other way round. */
const LEVELS = 16;

const decode = (text) => text.split(";").map((row) => row.split(",").map((part) => Number(part) / 1000));

function draw(svg, weights, top) {
  const paths = Array(LEVELS + 1).fill("");
  weights.forEach((row, i) => row.forEach((weight, j) => {
    const level = Math.round((LEVELS * Math.max(0, weight)) / top);
    if (level) paths[level] += `M${j} ${i}h1v1h-1z`;
  }));
  svg.querySelectorAll("path").forEach((path) => path.remove());
  paths.forEach((d, level) => {
    if (!d) return;
    const path = document.createElementNS(svg.namespaceURI, "path");
    path.setAttribute("fill-opacity", level / LEVELS);
    path.setAttribute("d", d);
    svg.prepend(path);
  });
}

function alignment(map) {
  map.classList.add("js");
  const svg = map.querySelector(".grid svg"), readout = map.querySelector(".readout"), select = map.querySelector("select");
  const rows = [...map.querySelectorAll(".rows span")], columns = [...map.querySelectorAll(".columns span")];
  const frame = svg.appendChild(document.createElementNS(svg.namespaceURI, "rect"));
  let weights, top, rest;

  function load(text) {
    weights = decode(text);
    top = Math.max(...weights.map((row) => Math.max(...row))) || 1;
    rest = `largest weight ${top.toFixed(3)}`;
    clear();
  }
  function clear() {
    for (const label of [...rows, ...columns]) {
      label.classList.remove("lit", "over", "chosen");
      label.style.removeProperty("--weight");
    }
    frame.setAttribute("visibility", "hidden");
    readout.textContent = rest;
  }
  function light(labels, shares) {
    labels.forEach((label, n) => {
      const share = Math.max(0, shares[n]) / top;
      label.style.setProperty("--weight", Math.min(1, share).toFixed(3));
      label.classList.add("lit");
      label.classList.toggle("over", share > 0.55);
    });
  }
  function box(x, y, width, height) {
    for (const [name, value] of Object.entries({ x, y, width, height })) frame.setAttribute(name, value);
    frame.setAttribute("visibility", "visible");
  }
  function tell(label, sign, labels, shares) {
    const best = shares.map((share, n) => [share, n]).sort((a, b) => b[0] - a[0]).slice(0, 5);
    readout.replaceChildren(word(label), ` ${sign} `);
    best.filter(([share], place) => place === 0 || share >= 0.0005).forEach(([share, n], place) => {
      readout.append(place ? ", " : "", word(labels[n]), ` ${share.toFixed(3)}`);
    });
  }
  function word(label) {
    const bdi = document.createElement("bdi");
    bdi.textContent = (label.classList.contains("inner") ? "·" : "") + label.textContent;
    return bdi;
  }
  function show(i, j) {
    clear();
    if (i !== null) light(columns, weights[i]);
    else light(rows, weights.map((row) => row[j]));
    if (i !== null) rows[i].classList.add("chosen");
    if (j !== null) columns[j].classList.add("chosen");
    if (i !== null && j !== null) {
      box(j, i, 1, 1);
      readout.replaceChildren(word(rows[i]), " ← ", word(columns[j]), ` ${weights[i][j].toFixed(3)}`);
    } else if (i !== null) {
      box(0, i, columns.length, 1);
      tell(rows[i], "←", columns, weights[i]);
    } else {
      box(j, 0, 1, rows.length);
      tell(columns[j], "→", rows, weights.map((row) => row[j]));
    }
  }
  function point(event) {
    const label = event.target.closest(".rows span, .columns span");
    if (label) {
      const i = rows.indexOf(label);
      return i >= 0 ? show(i, null) : show(null, columns.indexOf(label));
    }
    const area = svg.getBoundingClientRect();
    const i = Math.floor(((event.clientY - area.top) / area.height) * rows.length);
    const j = Math.floor(((event.clientX - area.left) / area.width) * columns.length);
    if (i >= 0 && j >= 0 && i < rows.length && j < columns.length) show(i, j);
    else clear();
  }

  load(map.dataset.weights);
  const grid = map.querySelector(".grid");
  for (const kind of ["pointermove", "pointerdown"]) grid.addEventListener(kind, point);
  grid.addEventListener("pointerleave", clear);
  if (select) {
    select.addEventListener("change", () => {
      load(select.selectedOptions[0].dataset.weights || map.dataset.weights);
      draw(svg, weights, top);
    });
  }
}

/* Maps of positions: point at a place of a picture, and what it attends to lights up. */
function positions(figure) {
  const [rows, columns] = figure.dataset.places.split(",").map(Number), [down, across] = figure.dataset.keys.split(",").map(Number);
  const board = figure.querySelector(".board"), svg = board.querySelector("svg"), ring = board.querySelector("i");
  const readout = figure.querySelector(".readout"), size = down * across;
  let last = -1;

  function show(row, column) {
    const place = row * columns + column;
    if (place === last) return;
    last = place;
    const levels = figure.dataset.levels.slice(place * size, (place + 1) * size);
    svg.replaceChildren();
    [...levels].forEach((digit, n) => {
      if (digit === "0") return;
      const rect = document.createElementNS(svg.namespaceURI, "rect");
      const facts = { x: n % across, y: Math.floor(n / across), width: 1, height: 1, "fill-opacity": parseInt(digit, 16) / 15 };
      for (const [name, value] of Object.entries(facts)) rect.setAttribute(name, value);
      svg.append(rect);
    });
    ring.style.left = `${(100 * (column + 0.5)) / columns}%`;
    ring.style.top = `${(100 * (row + 0.5)) / rows}%`;
    readout.textContent = `row ${row + 1} of ${rows}, column ${column + 1} of ${columns}`;
  }
  function point(event) {
    const area = svg.getBoundingClientRect();
    const row = Math.floor(((event.clientY - area.top) / area.height) * rows);
    const column = Math.floor(((event.clientX - area.left) / area.width) * columns);
    if (row >= 0 && column >= 0 && row < rows && column < columns) show(row, column);
  }
  for (const kind of ["pointermove", "pointerdown"]) board.addEventListener(kind, point);
}

/* Words that were said of a picture: each word that is pointed at, or that has the focus, shows where it looked. */
function words(figure) {
  const [down, across] = figure.dataset.keys.split(",").map(Number), size = down * across;
  const svg = figure.querySelector(".board svg"), readout = figure.querySelector(".readout");
  const buttons = [...figure.querySelectorAll("button")];

  function show(place) {
    const levels = figure.dataset.levels.slice(place * size, (place + 1) * size);
    svg.replaceChildren();
    [...levels].forEach((digit, n) => {
      if (digit === "0") return;
      const rect = document.createElementNS(svg.namespaceURI, "rect");
      const facts = { x: n % across, y: Math.floor(n / across), width: 1, height: 1, "fill-opacity": parseInt(digit, 16) / 15 };
      for (const [name, value] of Object.entries(facts)) rect.setAttribute(name, value);
      svg.append(rect);
    });
    buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(n === place)));
    readout.textContent = `where it looked when it said “${buttons[place].textContent}”, word ${place + 1} of ${buttons.length}`;
  }
  buttons.forEach((button, place) => {
    for (const kind of ["pointerenter", "focus", "click"]) button.addEventListener(kind, () => show(place));
  });
}

/* A notebook runs this once for each widget: those that are ready are left alone. */
for (const [kind, start] of [[".map", alignment], [".places:not(.words)", positions], [".words", words]]) {
  document.querySelectorAll(`.regard ${kind}:not([data-ready])`).forEach((figure) => {
    figure.dataset.ready = "";
    start(figure);
  });
}
})();
