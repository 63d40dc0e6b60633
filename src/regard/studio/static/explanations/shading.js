// A text whose words are shaded by their weight: by all hops together, by one of them, or by each, one below the other.

import { textOn, weightChannels, weightColour } from "../colours.js";
import {
  asTable,
  bdi,
  best,
  choice,
  el,
  frame,
  largest,
  mean,
  nothing,
  numbers,
  rowOf,
  shown,
  slices,
  slider,
  told,
  whole,
} from "./parts.js";

const BUTTONS = 8,
  MOST = 4000; // hops with a button each; words of all hops that are shown one below the other

export function draw(root, explanation, options) {
  const weights = numbers(explanation.weights),
    hops = weights.shape[0],
    { words } = explanation;
  if (!words.length || !hops) return nothing(root, explanation, "shaded text");
  const together = mean(slices(weights)).flat;
  const hop = () => whole(at.values.hop, 0, hops - 1, at.values.hop === "each" ? "each" : null);
  const row = () => (hop() === null || hop() === "each" ? together : rowOf(weights, hop()));
  const at = frame(root, explanation, options, {
    label: "shaded text",
    repaint,
    name: () => `text ${explanation.title} ${explanation.answer} ${hop() === null ? "" : `hop ${hop()}`}`,
    hint: "Point at a word to read its weight; with the text focused, the arrow keys go from word to word.",
  });
  const change = (value) => at.change({ hop: value === "all" || value === -1 ? undefined : value });
  const names = [
    ["all", `all ${hops} hops together`],
    ...(hops <= BUTTONS ? Array.from({ length: hops }, (_, place) => [place, `hop ${place + 1}`]) : []),
    ["each", "each hop"],
  ];
  const chooser = choice("hops", names, "all", change);
  const far =
    hops > BUTTONS ? slider("hop", [-1, hops - 1], -1, (value) => (value < 0 ? "together" : `${value + 1} of ${hops}`), change) : null;
  if (hops > 1) at.bar.append(...[chooser, far].filter(Boolean));
  if (explanation.answer) at.caption.append(" → ", el("b", { dir: "auto", text: explanation.answer }));
  at.figure.append(
    asTable("the weights as a table", ["word", "together", ...Array.from({ length: hops }, (_, place) => `hop ${place + 1}`)], () =>
      words.map((word, place) => [
        shown(word),
        told(together[place]),
        ...Array.from({ length: hops }, (_, each) => told(rowOf(weights, each)[place])),
      ]),
    ),
  );
  let pointed = null;
  const chosen = () => pointed ?? whole(at.values.word, 0, words.length - 1, null);

  function shaded(shares, theme, live) {
    const top = largest(shares) || 1;
    const spans = words.map((word, place) => {
      const share = Math.max(0, shares[place]) / top,
        span = el("span", { text: shown(word), data: { weight: shares[place], place } });
      if (share >= 0.02) {
        span.style.background = weightColour(share, theme);
        span.style.color = textOn(weightChannels(share, theme));
      }
      if (live && place === chosen()) span.classList.add("regard-chosen");
      return span;
    });
    const text = el("p", {
      class: "regard-text",
      dir: "auto",
      ...(live ? { tabindex: 0, role: "application", "aria-label": "shaded text; arrow keys go from word to word" } : {}),
    });
    spans.forEach((span, place) => text.append(place ? " " : "", span));
    return text;
  }

  function tell() {
    const place = chosen(),
      shares = row();
    if (place === null) {
      const parts = best(shares).flatMap((each, rank) => [
        rank ? ", " : "most weight: ",
        bdi(shown(words[each])),
        ` ${told(shares[each])}`,
      ]);
      return at.say(parts);
    }
    at.readout.dataset.weight = shares[place];
    return at.say([bdi(shown(words[place])), ` (word ${place + 1} of ${words.length}): `, el("b", { text: told(shares[place]) })]);
  }

  function repaint() {
    const theme = at.theme(),
      now = hop(),
      focused = at.stage.contains(document.activeElement);
    chooser.set(now ?? "all");
    far?.set(now === null || now === "each" ? -1 : now);
    const main = shaded(row(), theme, true);
    const room = Math.max(1, Math.floor(MOST / words.length));
    const list = now === "each" ? sharpest(weights, Math.min(room, hops)) : [];
    at.stage.replaceChildren(
      main,
      ...list.flatMap((each) => [el("p", { class: "regard-hint", text: `hop ${each + 1}` }), shaded(rowOf(weights, each), theme, false)]),
    );
    if (focused) main.focus({ preventScroll: true });
    tell();
  }
  at.stage.addEventListener("pointerover", (event) => {
    const span = event.target.closest?.("span[data-place]");
    pointed = span && at.stage.firstChild.contains(span) ? Number(span.dataset.place) : null;
    tell();
  });
  at.stage.addEventListener("pointerleave", () => {
    pointed = null;
    tell();
  });
  at.stage.addEventListener("click", (event) => {
    const span = event.target.closest?.("span[data-place]");
    if (span) at.change({ word: span.dataset.place });
  });
  at.stage.addEventListener("keydown", (event) => {
    const now = whole(at.values.word, 0, words.length - 1, -1);
    const way = { ArrowRight: 1, ArrowLeft: -1, Home: -now, End: words.length - 1 - now }[event.key];
    if (way === undefined) return;
    event.preventDefault();
    pointed = null;
    at.change({ word: Math.min(words.length - 1, Math.max(0, now + way)) }, true);
    options.announce?.(at.readout.textContent);
  });

  at.save();
  repaint();
  return at.handle;
}

/** The numbers of the hops that look at the fewest words, by their entropy, in the order of the hops. */
export function sharpest(weights, count) {
  const entropy = Array.from({ length: weights.shape[0] }, (_, hop) => {
    const row = rowOf(weights, hop),
      sum = Math.max(
        row.reduce((before, value) => before + value, 0),
        1e-12,
      );
    return row.reduce((before, value) => {
      const share = Math.max(value, 0) / sum;
      return before - share * Math.log(Math.max(share, 1e-12));
    }, 0);
  });
  return [...entropy.keys()]
    .sort((a, b) => entropy[a] - entropy[b] || a - b)
    .slice(0, count)
    .sort((a, b) => a - b);
}
