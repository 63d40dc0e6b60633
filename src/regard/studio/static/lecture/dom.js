// Small helpers for elements of the page, and controls with labels.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else if (typeof value === "boolean") node.toggleAttribute(name, value);
    else if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
export const make = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const shape = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

/** The style of these two views, once in a page. */
export function loadStyle() {
  const address = new URL("./lecture.css", import.meta.url).href;
  if (!document.querySelector(`link[href="${address}"]`)) document.head.append(make("link", { rel: "stylesheet", href: address }));
}

let counter = 0;
const fresh = (name) => {
  counter += 1;
  return `bench-${name}-${counter}`;
};

/** A menu; `groups` is {value: text}. */
export function choice(label, options, value, onchange) {
  const id = fresh("choice");
  const select = make("select", { id, onchange: () => onchange(select.value) });
  for (const [key, text] of Object.entries(options)) select.append(make("option", { value: key, text }));
  select.value = value;
  const box = make("div", { class: "control" }, make("label", { for: id, text: label }), select);
  const refuse = (values) => {
    for (const option of select.options) option.disabled = values.includes(option.value);
  };
  return {
    box,
    set: (to) => {
      select.value = to;
    },
    refuse,
  };
}

/** A slider with a number beside it. `scale` "log" makes equal steps equal factors. */
export function slider(label, { low, high, step, scale }, value, oninput) {
  const id = fresh("slider");
  const to = (x) => (scale === "log" ? Math.log10(x) : x);
  const from = (x) => (scale === "log" ? Number((10 ** x).toPrecision(2)) : x);
  const range = make("input", { type: "range", id, min: to(low), max: to(high), step: scale === "log" ? 0.01 : step });
  const exact = make("input", {
    type: "number",
    min: low,
    max: high,
    step: scale === "log" ? "any" : step,
    "aria-label": `${label}, as a number`,
  });
  const set = (x) => {
    if (document.activeElement !== exact) exact.value = x;
    range.value = to(Number(x));
    range.setAttribute("aria-valuetext", String(x));
  };
  range.addEventListener("input", () => oninput(String(from(Number(range.value)))));
  exact.addEventListener("input", () => {
    if (exact.value !== "" && Number.isFinite(exact.valueAsNumber)) oninput(String(Math.min(high, Math.max(low, exact.valueAsNumber))));
  });
  set(value);
  const box = make("div", { class: "control slide" }, make("label", { for: id, text: label }), range, exact);
  return { box, set };
}

/** A text field for a matrix or vector, such as 1,0.5;0,-1. */
export function field(label, value, oninput) {
  const id = fresh("field");
  const input = make("input", { type: "text", id, spellcheck: "false", autocomplete: "off", oninput: () => oninput(input.value) });
  input.value = value;
  const box = make("div", { class: "control" }, make("label", { for: id, text: label }), input);
  return {
    box,
    set: (to) => {
      if (document.activeElement !== input) input.value = to;
    },
  };
}

export function check(label, on, onchange) {
  const id = fresh("check");
  const box = make("input", { type: "checkbox", id, onchange: () => onchange(box.checked) });
  box.checked = on;
  return {
    box: make("div", { class: "control tick" }, box, make("label", { for: id, text: label })),
    set: (to) => {
      box.checked = to;
    },
  };
}

export const button = (label, onclick, attributes = {}) => make("button", { type: "button", text: label, onclick, ...attributes });
