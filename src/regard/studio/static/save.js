// Saves what is shown as PNG, SVG or JSON. HTML becomes SVG by its boxes and lines of text, with colours written out.

import { textOn } from "./colours.js";

const SVG = "http://www.w3.org/2000/svg";
const XHTML = "http://www.w3.org/1999/xhtml";
const XLINK = "http://www.w3.org/1999/xlink";
const PAINTED = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "font-style",
  "text-anchor",
  "dominant-baseline",
  "image-rendering",
  "visibility",
  "paint-order",
  "display",
  "marker-end",
];
const LARGE = 2; // pixels of a PNG for each pixel of the page

/** An element with buttons PNG, SVG and JSON. `name` is a text, or a function that gives it when a button is used. */
export function saveButtons(name, { picture, json }) {
  const bar = document.createElement("div");
  bar.className = "regard-save";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "save");
  const called = () => fileName(typeof name === "function" ? name() : name);
  const status = document.createElement("span");
  status.setAttribute("role", "status");
  const add = (label, work) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-label", `save as ${label}`);
    button.addEventListener("click", async () => {
      status.textContent = "";
      try {
        const extension = label.toLowerCase();
        download(`${called()}.${extension}`, await work());
        status.textContent = `saved ${called()}.${extension}`;
      } catch (error) {
        status.textContent = `This could not be saved: ${error.message}`;
      }
    });
    bar.append(button);
  };
  if (picture) {
    add("PNG", async () => pngOf(await picture()));
    add("SVG", async () => new Blob([svgText(await picture())], { type: "image/svg+xml" }));
  }
  if (json) add("JSON", async () => new Blob([JSON.stringify(await json())], { type: "application/json" }));
  bar.append(status);
  return bar;
}

/** A name of a file: letters of any script, digits and hyphens. */
export function fileName(name) {
  const plain = String(name)
    .normalize("NFC")
    .replace(/[^\p{L}\p{M}\p{N}.]+/gu, "-")
    .replace(/^[-.]+|[-.]+$/g, "");
  return plain.slice(0, 80) || "regard";
}

/** Gives a file to the reader. */
export function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** An SVG or a canvas as a PNG. */
export async function pngOf(picture) {
  let canvas = picture;
  if (!(picture instanceof HTMLCanvasElement)) {
    const plain = withColours(picture),
      { width, height } = sizeOf(plain);
    plain.setAttribute("width", width);
    plain.setAttribute("height", height);
    const image = new Image();
    image.src = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(plain)], { type: "image/svg+xml" }));
    await image.decode();
    canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(LARGE * width));
    canvas.height = Math.max(1, Math.round(LARGE * height));
    const pen = canvas.getContext("2d");
    pen.fillStyle = ground(picture);
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
  }
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("the picture is too large for this browser.");
  return blob;
}

/** The text of an SVG file. A canvas becomes a picture inside of one. */
export function svgText(picture) {
  const svg = picture instanceof HTMLCanvasElement ? wrapped(picture) : withColours(picture);
  svg.prepend(
    make("rect", { width: "100%", height: "100%", x: svg.viewBox.baseVal?.x || 0, y: svg.viewBox.baseVal?.y || 0, fill: ground(picture) }),
  );
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(svg)}`;
}

/** A copy of an SVG in which the colours of the page are written out, so that it looks alike without its style sheet. */
export function withColours(svg) {
  const apart = !svg.isConnected;
  const shelf = document.createElement("div");
  if (apart) {
    // styles are computed for what is on the page alone
    shelf.style.cssText = "position:absolute;inset-inline-start:-99999px;top:0";
    document.body.append(shelf);
    shelf.append(svg);
  }
  const copy = painted(svg);
  const { width, height } = sizeOf(svg);
  if (!copy.getAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  if (apart) {
    svg.remove();
    shelf.remove();
  }
  return copy;
}

/** What an element of the page looks like, as SVG: grounds, borders, lines of text, pictures, canvases, SVG inside of it. */
export function svgOf(element) {
  const area = element.getBoundingClientRect();
  const width = Math.ceil(Math.max(area.width, element.scrollWidth)),
    height = Math.ceil(Math.max(area.height, element.scrollHeight));
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
  svg.dataset.ground = ground(element);
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return letter(svg, node, area);
    if (node.nodeType !== Node.ELEMENT_NODE) return;
    const style = getComputedStyle(node),
      box = node.getBoundingClientRect();
    if (style.display === "none" || style.visibility === "hidden" || node.closest(".regard-hidden")) return;
    const x = box.left - area.left,
      y = box.top - area.top;
    if (node instanceof SVGSVGElement) {
      const inner = painted(node);
      if (!inner.getAttribute("viewBox")) inner.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
      for (const [name, value] of Object.entries({ x, y, width: box.width, height: box.height })) inner.setAttribute(name, value);
      svg.append(inner);
      return;
    }
    const filled = !/^rgba\(.*, 0\)$|^transparent$/.test(style.backgroundColor);
    const edge = parseFloat(style.borderTopWidth) && style.borderTopStyle !== "none" ? style.borderTopColor : null;
    if (filled || edge) {
      svg.append(
        make("rect", {
          x,
          y,
          width: box.width,
          height: box.height,
          rx: parseFloat(style.borderTopLeftRadius) || 0,
          fill: filled ? style.backgroundColor : "none",
          ...(edge ? { stroke: edge, "stroke-width": style.borderTopWidth } : {}),
        }),
      );
    }
    if (node instanceof HTMLCanvasElement || node instanceof HTMLImageElement) {
      const image = make("image", {
        x,
        y,
        width: box.width,
        height: box.height,
        preserveAspectRatio: "none",
        href: node instanceof HTMLCanvasElement ? node.toDataURL() : node.src,
      });
      image.style.imageRendering = style.imageRendering;
      svg.append(image);
      return;
    }
    for (const child of node.childNodes) walk(child);
  };
  walk(element);
  return svg;
}

function letter(svg, node, area) {
  const style = getComputedStyle(node.parentElement),
    range = document.createRange();
  for (const match of node.data.matchAll(/\S+/g)) {
    range.setStart(node, match.index);
    range.setEnd(node, match.index + match[0].length);
    const box = range.getBoundingClientRect();
    if (!box.width) continue;
    const size = parseFloat(style.fontSize);
    const text = make("text", {
      x: box.left - area.left,
      y: box.top - area.top + box.height / 2 + 0.35 * size,
      fill: style.color,
      "font-family": style.fontFamily,
      "font-size": style.fontSize,
      "font-weight": style.fontWeight,
    });
    text.textContent = match[0];
    svg.append(text);
  }
}

function painted(node) {
  const style = getComputedStyle(node),
    copy = document.createElementNS(SVG, node.localName);
  for (const { name, value } of node.attributes) {
    if (!/^(style|class|tabindex|role|on.*|data-.*)$/.test(name)) {
      if (name === "xlink:href") copy.setAttributeNS(XLINK, name, value);
      else if (name !== "xmlns") copy.setAttribute(name, value);
    }
  }
  for (const name of PAINTED) {
    const value = style.getPropertyValue(name);
    if (value && !(name === "display" && value !== "none") && !(name === "paint-order" && value === "normal")) {
      copy.setAttribute(name, value);
    }
  }
  if (["svg", "g", "defs"].includes(node.localName)) copy.removeAttribute("fill-opacity");
  for (const child of node.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) copy.append(child.data);
    else if (child.namespaceURI !== XHTML && child.nodeType === Node.ELEMENT_NODE) copy.append(painted(child));
  }
  return copy;
}

function wrapped(canvas) {
  const ratio = window.devicePixelRatio || 1,
    width = canvas.width / ratio,
    height = canvas.height / ratio;
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
  svg.append(make("image", { href: canvas.toDataURL(), width, height }));
  return svg;
}

function sizeOf(svg) {
  const box = svg.viewBox?.baseVal,
    area = svg.isConnected ? svg.getBoundingClientRect() : { width: 0, height: 0 };
  const own = (name) => (/^[\d.]+$/.test(svg.getAttribute(name) || "") ? Number(svg.getAttribute(name)) : 0);
  return { width: area.width || own("width") || box?.width || 300, height: area.height || own("height") || box?.height || 150 };
}

/** The ground below a picture: that of the page. */
function ground(picture) {
  if (picture.dataset?.ground) return picture.dataset.ground;
  for (let node = picture.isConnected ? picture : document.body; node; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor;
    if (!/^rgba\(.*, 0\)$|^transparent$/.test(colour)) return colour;
  }
  const ink = getComputedStyle(document.body).color;
  return textOn(ink);
}

function make(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}
