// The block of a picture that each pixel could see, with what it took from it: what it could not see is dark.

import { numbers, slices } from "./parts.js";
import { drawPlaces } from "./places.js";

export const draw = (root, explanation, options) => drawPlaces(root, explanation, options, slices(numbers(explanation.seen)));
