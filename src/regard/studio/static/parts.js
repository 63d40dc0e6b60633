// Small parts that views share: elements, fields, errors, words.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(made.style, value);
    else if (key in made && typeof value === "boolean") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(made.style, value);
    else made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function field(label, control) {
  return element("label", { class: "field" }, label, control);
}

export function check(label, checked, onchange) {
  return element(
    "label",
    { class: "check" },
    element("input", { type: "checkbox", checked, onchange: (event) => onchange(event.target.checked) }),
    label,
  );
}

export function choice(label, options, value, onchange) {
  const control = element(
    "select",
    { onchange: (event) => onchange(event.target.value) },
    options.map(([key, text]) => element("option", { value: key, selected: key === value }, text)),
  );
  return field(label, control);
}

export function errorBox(error) {
  const sentence = error.sentence ?? error.message ?? String(error);
  return element(
    "div",
    { class: "panel error", role: "alert" },
    element("p", {}, element("strong", {}, sentence.charAt(0).toUpperCase() + sentence.slice(1))),
    error.cure ? element("p", {}, /\?$/.test(error.cure) ? error.cure : `Try: ${error.cure}.`) : null,
  );
}

// ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────

export const shownToken = (token) => token.replace(/^[▁Ġ]/, "").replaceAll("▁", " ") || "␣";

// Groups of the numbers of tokens that make one word each: a piece that begins with ▁ begins a word.
export function wordsOf(tokens) {
  const pieces = tokens.some((token) => token.startsWith("▁"));
  const words = [];
  tokens.forEach((token, number) => {
    const special = /^<.*>$/.test(token);
    if (!pieces || special || token.startsWith("▁") || !words.length || words.at(-1).special)
      words.push({ text: "", numbers: [], special });
    words.at(-1).numbers.push(number);
    words.at(-1).text += special ? token : token.replaceAll("▁", "");
  });
  for (const word of words) word.text ||= "␣";
  return words;
}

// Weights of tokens [rows columns] as weights of words: the mean over the rows of a word, the sum over its columns.
export function weightsOfWords(weights, rows, columns) {
  return rows.map((row) =>
    columns.map((column) => {
      let total = 0;
      for (const r of row.numbers) for (const c of column.numbers) total += weights[r][c];
      return total / row.numbers.length;
    }),
  );
}

export const format = (value, digits = 3) => (value === null || value === undefined ? "–" : Number(value).toFixed(digits));
export const percent = (value) => (value >= 0.995 ? "100 %" : `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`);

// ── colours ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const RAMPS = {
  // one hue from the ground to the strongest weight; lightness alone tells the order
  light: [
    [250, 249, 246],
    [203, 220, 235],
    [126, 168, 208],
    [47, 110, 168],
    [11, 52, 94],
  ],
  dark: [
    [32, 37, 45],
    [36, 66, 95],
    [51, 110, 160],
    [121, 183, 232],
    [232, 245, 255],
  ],
};
export function shadeBytes(value, theme) {
  const ramp = RAMPS[theme] ?? RAMPS.light,
    place = Math.min(1, Math.max(0, value)) * (ramp.length - 1);
  const first = Math.min(ramp.length - 2, Math.floor(place)),
    share = place - first;
  return ramp[first].map((part, channel) => Math.round(part + share * (ramp[first + 1][channel] - part)));
}
export const shade = (value, theme) => `rgb(${shadeBytes(value, theme).join(" ")})`;

// the colours of the bytes 0 to 255, as pixels of a canvas
const ramps = {};
export function rampOf(theme) {
  return (ramps[theme] ??= Uint32Array.from({ length: 256 }, (_, step) => {
    const [red, green, blue] = shadeBytes(step / 255, theme);
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  }));
}
export const inkOn = (value, theme) => ((theme === "dark") === value < 0.62 ? "#ffffff" : "#12161c");

let ruler;
export function textWidth(text, font = "13px system-ui, sans-serif") {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = font;
  return ruler.measureText(text).width;
}
export function bytesOf(base64) {
  const text = atob(base64),
    bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place++) bytes[place] = text.charCodeAt(place);
  return bytes;
}
