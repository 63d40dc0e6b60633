// What the kinds of explanations share: elements, numbers from JSON, labels, controls, the frame around a figure.

import { saveButtons, svgOf } from "../save.js";

const SVG = "http://www.w3.org/2000/svg";
const SPECIAL = /^(<[^<>\s]+>|\[[A-Z]{2,}\])$/;
const LATER = 250; // milliseconds until what changes often stands in the address
let serial = 0;

/** An element of HTML. Attributes that begin with "on" are listeners, `style` is an object, `data` becomes data-…. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.entries(value).forEach(([key, each]) => node.style.setProperty(key, each));
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A name for an element that no other one has. */
export const identity = (name) => `regard-${name}-${++serial}`;

/** Numbers of JSON, `{shape, values}`, as one list and its shape. */
export function numbers(field) {
  const shape = field?.shape ?? [0];
  return { shape, flat: Float64Array.from((field?.values ?? []).flat(Infinity)) };
}

/** The rows of a matrix {shape: [rows, columns], flat}. */
export function rowOf({ shape, flat }, row) {
  const wide = shape[shape.length - 1];
  return flat.subarray(row * wide, (row + 1) * wide);
}

/** Parts of the first axis, each with the shape of the others. */
export function slices({ shape, flat }) {
  const rest = shape.slice(1),
    size = rest.reduce((product, side) => product * side, 1);
  return Array.from({ length: shape[0] }, (_, place) => ({ shape: rest, flat: flat.subarray(place * size, (place + 1) * size) }));
}

/** The mean of matrices of one shape. */
export function mean(matrices) {
  const sum = new Float64Array(matrices[0].flat.length);
  for (const { flat } of matrices)
    flat.forEach((value, place) => {
      sum[place] += value;
    });
  return { shape: matrices[0].shape, flat: sum.map((value) => value / matrices.length) };
}

/** The largest number, at least 0. */
export function largest(flat) {
  let top = 0;
  for (const value of flat) if (value > top) top = value;
  return top;
}

/** The places of the largest numbers, largest first. */
export function best(flat, count = 5) {
  const places = [];
  for (let place = 0; place < flat.length; place++) {
    if (places.length === count && flat[place] <= flat[places[count - 1]]) continue;
    let rank = places.length;
    while (rank && flat[places[rank - 1]] < flat[place]) rank -= 1;
    places.splice(rank, 0, place);
    if (places.length > count) places.pop();
  }
  return places;
}

/** A number as people read it: three decimals, or two digits of one that is small. */
export function told(value) {
  return value === 0 || Math.abs(value) >= 0.0005 ? value.toFixed(3).replace("-", "−") : value.toPrecision(2).replace("-", "−");
}

/** A token as a reader sees it: ▁ becomes a space mark, line ends and tabs are drawn. */
export function shown(token) {
  const word = String(token)
    .replaceAll("▁", "␣")
    .replaceAll("\n", "⏎")
    .replaceAll("\t", "⇥")
    .replace(/[\p{Cc}]/gu, "�");
  return word.trim() ? word : "␣".repeat(Math.max(1, word.length));
}

/** A token as a screen reader says it: without marks. */
export function spoken(token) {
  return String(token).replaceAll("▁", " ").trim() || "space";
}

/** Whether a token begins or ends a text, fills it up, or stands for an unknown word. */
export const isSpecial = (token) => SPECIAL.test(String(token));

/** A word in its own direction, so that no script turns the line around it. */
export const bdi = (text, attributes = {}) => el("bdi", { text, ...attributes });

/** A whole number of the address within bounds, or else what it is at first. */
export function whole(text, low, high, otherwise) {
  const value = Number(text);
  return text !== undefined && text !== "" && Number.isInteger(value) && value >= low && value <= high ? value : otherwise;
}

/** A menu with a label. `options` are pairs of a value and what stands for it. */
export function select(label, options, value, change) {
  const box = el(
    "select",
    { "aria-label": label, onchange: () => change(box.value) },
    ...options.map(([key, text]) => el("option", { value: key, text })),
  );
  box.value = value;
  return Object.assign(el("label", { class: "regard-field" }, el("span", { text: label }), box), { input: box });
}

/** A slider with a label and its value beside it; `name` says what a value is called. */
export function slider(label, [low, high, step = 1], value, name, input) {
  const output = el("output", { text: name(value) });
  const range = el("input", {
    type: "range",
    "aria-label": label,
    min: low,
    max: high,
    step,
    value,
    oninput: () => input(Number(range.value)),
  });
  const field = el("label", { class: "regard-field regard-slider" }, el("span", { text: label }), range, output);
  const set = (now) => {
    range.value = now;
    output.textContent = name(now);
    range.setAttribute("aria-valuetext", name(now));
  };
  set(value);
  return Object.assign(field, { input: range, set });
}

/** A box to tick. */
export function tick(label, value, change) {
  const box = el("input", { type: "checkbox", onchange: () => change(box.checked) });
  box.checked = value;
  return Object.assign(el("label", { class: "regard-field" }, box, el("span", { text: label })), { input: box });
}

/** A row of buttons of which one is chosen; arrow keys go from one to the next. `options` are pairs of value and text. */
export function choice(label, options, value, change) {
  const group = el("div", { class: "regard-choice", role: "radiogroup", "aria-label": label });
  const buttons = options.map(([key, text]) =>
    el("button", { type: "button", role: "radio", text, data: { value: key }, onclick: () => change(key) }),
  );
  group.append(...buttons);
  group.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const place = buttons.indexOf(document.activeElement);
    if (!way || place < 0) return;
    event.preventDefault();
    const next = buttons[(place + way + buttons.length) % buttons.length];
    next.focus();
    change(next.dataset.value);
  });
  const set = (now) =>
    buttons.forEach((button) => {
      const chosen = button.dataset.value === String(now);
      button.setAttribute("aria-checked", chosen);
      button.tabIndex = chosen ? 0 : -1;
    });
  set(value);
  return Object.assign(group, { set });
}

/** Calls back when the page becomes light or dark; the result stops that. */
export function onTheme(callback) {
  const media = matchMedia("(prefers-color-scheme: dark)");
  const watcher = new MutationObserver(callback);
  watcher.observe(document.documentElement, { attributes: true, attributeFilter: ["class", "data-theme", "style"] });
  media.addEventListener("change", callback);
  return () => {
    watcher.disconnect();
    media.removeEventListener("change", callback);
  };
}

/** What every figure has: a title, a bar for controls, a stage, a line that says what is pointed at, buttons that save.
 *
 * `options` are those of `draw`. `values` is what the reader chose (a copy of the state); `change(patch, later)` changes it, draws
 * anew, and writes it into the address, after a moment where `later` is true. */
export function frame(root, explanation, options, { label, hint = "", name, repaint }) {
  const values = { ...(options.state ?? {}) };
  const title = explanation.title || "";
  const bar = el("div", { class: "regard-bar" });
  const stage = el("div", { class: "regard-stage" });
  const readout = el("p", { class: "regard-readout", role: "status", "aria-live": "off" });
  const caption = el("figcaption", {}, title ? el("b", { dir: "auto", text: title }) : null);
  const figure = el(
    "figure",
    { class: `regard-figure regard-${explanation.kind}`, "aria-label": title ? `${label}: ${title}` : label },
    caption,
    bar,
    stage,
    readout,
    hint ? el("p", { class: "regard-hint", text: hint }) : null,
  );
  root.replaceChildren(figure);
  let waiting = {},
    timer = 0;
  const write = () => {
    clearTimeout(timer);
    timer = 0;
    const patch = waiting;
    waiting = {};
    if (Object.keys(patch).length) options.setState?.(patch, { replace: true });
  };
  const frameOf = {
    figure,
    caption,
    bar,
    stage,
    readout,
    values,
    hint: figure.querySelector(".regard-hint"),
    theme: () => options.theme?.() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"),
    change(patch, later = false) {
      for (const [key, value] of Object.entries(patch)) {
        if (value === undefined) delete values[key];
        else values[key] = String(value);
        waiting[key] = value === undefined ? undefined : String(value);
      }
      repaint();
      if (!later) write();
      else if (!timer) timer = setTimeout(write, LATER);
    },
    /** Writes the line below the figure; `aloud` hands it to screen readers too. */
    say(parts, aloud = false) {
      readout.replaceChildren(...parts);
      if (aloud) options.announce?.(readout.textContent.replace(/\s+/g, " "));
    },
    save(picture = () => svgOf(stage)) {
      figure.append(saveButtons(name ?? (() => `${explanation.kind} ${title}`), { picture, json: () => explanation }));
    },
  };
  const stop = onTheme(() => repaint());
  let wide = 0;
  const watcher = new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now !== wide && wide) requestAnimationFrame(() => repaint());
    wide = now;
  });
  watcher.observe(stage);
  frameOf.handle = {
    update(state) {
      let changed = false;
      for (const key of new Set([...Object.keys(values), ...Object.keys(state ?? {})])) {
        if (key in waiting || values[key] === state?.[key]) continue;
        changed = true;
        if (state?.[key] === undefined) delete values[key];
        else values[key] = state[key];
      }
      if (changed) repaint();
    },
    destroy() {
      clearTimeout(timer);
      stop();
      watcher.disconnect();
      root.replaceChildren();
    },
  };
  return frameOf;
}

/** A figure that has nothing to show. */
export function nothing(root, explanation, label) {
  root.replaceChildren(
    el(
      "figure",
      { class: "regard-figure", "aria-label": label },
      el("figcaption", {}, explanation.title ? el("b", { dir: "auto", text: explanation.title }) : null),
      el("p", { class: "regard-readout", text: "There is nothing to show." }),
    ),
  );
  return {
    update() {},
    destroy() {
      root.replaceChildren();
    },
  };
}

/** Numbers as a table that is made when it is opened, for everybody who cannot use the picture. */
export function asTable(summary, head, rows) {
  const details = el("details", { class: "regard-numbers" }, el("summary", { text: summary }));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    details.append(
      el(
        "div",
        { class: "regard-scroll", tabindex: 0 },
        el(
          "table",
          {},
          el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col", text })))),
          el(
            "tbody",
            {},
            ...rows().map(([first, ...cells]) =>
              el("tr", {}, el("th", { scope: "row", text: first }), ...cells.map((text) => el("td", { text }))),
            ),
          ),
        ),
      ),
    );
  });
  return details;
}

/** A canvas as sharp as the screen; returns its pen in pixels of the page. */
export function sharp(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

/** A colour of the page by the name of its variable. */
export function colour(node, name, otherwise) {
  return getComputedStyle(node).getPropertyValue(`--${name}`).trim() || otherwise;
}
