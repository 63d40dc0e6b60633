// Any explanation as a table of its fields: how a kind is shown that has no file of its own here.

import { el, frame, largest, numbers, told } from "./parts.js";

export function draw(root, explanation, options) {
  const at = frame(root, explanation, options, { label: `explanation of the kind ${explanation.kind}`, repaint() {} });
  const names = Object.keys(explanation).filter((name) => !["format", "version", "kind", "title"].includes(name));
  at.stage.append(
    el(
      "table",
      {},
      el(
        "tbody",
        {},
        ...names.map((name) => el("tr", {}, el("th", { scope: "row", text: name }), el("td", {}, shownValue(explanation[name])))),
      ),
    ),
  );
  at.say([`This page has no picture for the kind ${explanation.kind}; these are its fields.`]);
  at.save();
  return at.handle;
}

function shownValue(value) {
  if (value?.png) return el("img", { src: `data:image/png;base64,${value.png}`, alt: "picture" });
  if (value?.shape) {
    const { shape, flat } = numbers(value);
    return `${shape.join(" × ")} numbers${flat.length ? `, the largest ${told(largest(flat))}` : ""}`;
  }
  if (typeof value === "number" && !Number.isInteger(value)) return told(value);
  return value !== null && typeof value === "object" ? JSON.stringify(value).slice(0, 400) : String(value);
}
