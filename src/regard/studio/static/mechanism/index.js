// The mechanism as pure functions on arrays of numbers: the library's own numbers, in a browser.

export { ALIGNS, align, centre, draw, maskedScores } from "./alignments.js";
export { normal, random, sigmoid } from "./arrays.js";
export { attend, context } from "./context.js";
export { mask } from "./masks.js";
export { sinusoid } from "./positions.js";
export { SCORES, centreShare, score } from "./scores.js";
export { interpolate, moveFocus, sharpen } from "./shift.js";
