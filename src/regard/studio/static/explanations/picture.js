// Pictures of explanations: decoded once, in colour and in grey, and drawn at a size that fits the page.

import { overlayColour } from "../colours.js";
import { el, sharp } from "./parts.js";

const DIM = 0.72; // of the brightness of a picture below an overlay
const MOST = 460; // pixels of the page

/** The picture of a field `{png}`: its size, and canvases in colour and in darker grey. */
export async function loadPicture({ png }) {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const [width, height] = [image.naturalWidth, image.naturalHeight];
  const canvas = () => el("canvas", { width, height });
  const [colour, grey] = [canvas(), canvas()];
  const pen = colour.getContext("2d", { willReadFrequently: true });
  pen.drawImage(image, 0, 0);
  const pixels = pen.getImageData(0, 0, width, height);
  for (let n = 0; n < pixels.data.length; n += 4) {
    const [red, green, blue] = pixels.data.subarray(n, n + 3);
    pixels.data.fill(DIM * (0.299 * red + 0.587 * green + 0.114 * blue), n, n + 3);
  }
  grey.getContext("2d").putImageData(pixels, 0, 0);
  return { width, height, colour, grey };
}

/** By how much a picture is enlarged so that it fits an element and is not taller than it should be. */
export function scaleOf({ width, height }, stage, most = MOST) {
  const room = Math.max(160, Math.min(stage.clientWidth || most, most));
  return Math.min(room / width, most / height);
}

/** Puts a part of a picture on a canvas; the pen, whose unit is then a pixel of the page. */
export function paint(canvas, source, scale, [left, top, width, height] = [0, 0, source.width, source.height]) {
  const pen = sharp(canvas, width * scale, height * scale);
  pen.imageSmoothingEnabled = scale < 1;
  pen.clearRect(0, 0, width * scale, height * scale);
  pen.drawImage(source, left, top, width, height, 0, 0, width * scale, height * scale);
  return pen;
}

/** Lays shares from 0 to 1 over a box of a picture, cell by cell or smoothed. */
export function overlay(pen, shares, [rows, columns], { x, y, width, height }, smooth = false) {
  if (smooth) {
    const small = el("canvas", { width: columns, height: rows }),
      fine = small.getContext("2d");
    shares.forEach((share, n) => {
      fine.fillStyle = overlayColour(share);
      fine.fillRect(n % columns, Math.floor(n / columns), 1, 1);
    });
    pen.imageSmoothingEnabled = true;
    pen.imageSmoothingQuality = "high";
    pen.drawImage(small, x, y, width, height);
    return;
  }
  const [wide, high] = [width / columns, height / rows];
  shares.forEach((share, n) => {
    if (share <= 0) return;
    pen.fillStyle = overlayColour(share);
    pen.fillRect(x + (n % columns) * wide, y + Math.floor(n / columns) * high, wide, high);
  });
}

/** A ring around a place that can be seen on any ground. */
export function ring(pen, x, y, radius = 7) {
  for (const [colour, width] of [
    ["#000000", 5],
    ["#ffffff", 2],
  ]) {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.stroke();
  }
}
