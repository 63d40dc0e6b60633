// The colours of weights, series and overlays, for light and dark pages and for colour-blind readers.

/* One map: its lightness falls (on dark pages: rises) without a turn, so that it can be read without seeing hues. */
const STOPS = {
  light: ["#f7f8f1", "#c3e2d0", "#71bcc4", "#2d83b5", "#24529a", "#151f55"],
  dark: ["#182029", "#1f4068", "#2a6f9c", "#3aa3b0", "#8fd3a5", "#f8f3b6"],
};

/* Okabe and Ito's palette, in two strengths. */
const SERIES = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b4568f", "#b87a00", "#3a8fc4", "#1d1f23", "#767676"],
  dark: ["#4ba6e3", "#ff8b45", "#2dc596", "#e6a3c8", "#f2b63f", "#9ad6ff", "#f2f2f2", "#9b9b9b"],
};

const OVERLAY = [255, 212, 59]; // what lies over pictures, which are grey below it

/** Red, green and blue of "#rrggbb", "rgb(…)" or an array. */
export function channels(colour) {
  if (Array.isArray(colour)) return colour;
  if (colour.startsWith("#")) return [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
  return colour
    .match(/[\d.]+/g)
    .slice(0, 3)
    .map(Number);
}

/** The colour of a weight as red, green and blue, 0 to 255. */
export function weightChannels(value, theme) {
  const stops = STOPS[theme === "dark" ? "dark" : "light"];
  const place = Math.min(1, Math.max(0, Number.isFinite(value) ? value : 0)) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2),
    share = place - low;
  const [first, second] = [channels(stops[low]), channels(stops[low + 1])];
  return first.map((part, axis) => Math.round(part + share * (second[axis] - part)));
}

/** The colour of a weight from 0 to 1: one sequential map that colour-blind readers can tell apart. */
export function weightColour(value, theme) {
  return `rgb(${weightChannels(value, theme).join(", ")})`;
}

/** Colours of categories, most different first. */
export function seriesColours(theme) {
  return [...SERIES[theme === "dark" ? "dark" : "light"]];
}

/** The colour of what lies over a picture, from 0 (clear) to 1. */
export function overlayColour(share) {
  return `rgba(${OVERLAY.join(", ")}, ${(0.85 * Math.min(1, Math.max(0, share))).toFixed(3)})`;
}

/** The colour of a step in time, between early and late. */
export function stepColour(step, count, theme) {
  const share = count > 1 ? step / (count - 1) : 0;
  return weightColour(theme === "dark" ? 0.45 + 0.55 * share : 0.4 + 0.6 * share, theme);
}

/** The relative luminance of a colour, as WCAG defines it. */
export function luminance(colour) {
  const [red, green, blue] = channels(colour).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** The contrast of two colours, from 1 to 21. */
export function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** Black or white, whichever can be read better on a colour: the contrast is always at least 4.58. */
export function textOn(colour) {
  return luminance(colour) > 0.179 ? "#000000" : "#ffffff";
}
