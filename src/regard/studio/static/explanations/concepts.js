// Concepts: what each word takes in of the others at a layer, and what it is then made of, as a sum of words.

import { seriesColours, textOn, weightChannels, weightColour } from "../colours.js";
import {
  asTable,
  bdi,
  best,
  choice,
  el,
  frame,
  largest,
  nothing,
  numbers,
  rowOf,
  shown,
  slices,
  slider,
  spoken,
  told,
  whole,
} from "./parts.js";

const TERMS = 3,
  LEAST = 0.005; // words in a sum; shares that are told

export function draw(root, explanation, options) {
  const layers = slices(numbers(explanation.weights)),
    { words, residual } = explanation;
  if (!layers.length || !words.length) return nothing(root, explanation, "what words are made of");
  const shares = throughLayers(layers, words.length, residual);
  let pointed = null;
  const layer = () => whole(at.values.layer, 0, layers.length - 1, layers.length - 1);
  const word = () => pointed ?? whole(at.values.word, 0, words.length - 1, 0);
  const at = frame(root, explanation, options, {
    label: "what words are made of",
    repaint,
    name: () => `concepts ${explanation.title} ${explanation.layers[layer()]}`,
    hint: `A share of ${residual} of each word passes by a layer unchanged. Choose a word: the others are as dark as their share in it.`,
  });
  if (explanation.heads)
    at.caption.append(el("span", { class: "regard-facts", text: `${explanation.title ? " · " : ""}${explanation.heads}` }));
  const depth = slider(
    "after",
    [0, layers.length - 1],
    layer(),
    (place) => shown(explanation.layers[place]),
    (place) => {
      at.change({ layer: place }, true);
      options.announce?.(at.readout.textContent);
    },
  );
  if (layers.length > 1) at.bar.append(depth);
  const list = choice(
    "words",
    words.map((text, place) => [place, shown(text)]),
    0,
    (place) => {
      pointed = null;
      at.change({ word: place });
      options.announce?.(spoken(at.readout.textContent));
    },
  );
  list.classList.add("regard-words");
  [...list.children].forEach((button, place) => {
    button.dir = "auto";
    button.addEventListener("pointerenter", () => {
      pointed = place;
      repaint();
    });
    button.addEventListener("pointerleave", () => {
      pointed = null;
      repaint();
    });
  });
  const sum = el("p", { class: "regard-sum", dir: "auto" }),
    takes = el("p", { class: "regard-hint" }),
    sums = el("table");
  at.stage.append(list, sum, takes, el("div", { class: "regard-scroll", tabindex: 0 }, sums));
  at.figure.append(
    asTable("what each word takes in at this layer, as a table", ["", ...words.map(shown)], () =>
      words.map((text, row) => [shown(text), ...[...rowOf(layers[layer()], row)].map(told)]),
    ),
  );

  function terms(row) {
    return best(row, TERMS).filter((place) => row[place] >= LEAST);
  }
  function plain(place) {
    return words[place].replace(/^▁/, "") || words[place];
  }
  /* The line that `Concepts.as_sum` writes. */
  function asSum(place) {
    const row = rowOf(shares[layer()], place),
      first = terms(row),
      rest = 1 - first.reduce((before, each) => before + row[each], 0);
    return `${plain(place)} = ${[...first.map((each) => `${row[each].toFixed(2)} ${plain(each)}`), ...(rest >= LEAST ? ["…"] : [])].join(" + ")}`;
  }

  function repaint() {
    const theme = at.theme(),
      now = word(),
      row = rowOf(shares[layer()], now),
      top = largest(row) || 1,
      colours = seriesColours(theme);
    depth.set(layer());
    list.set(whole(at.values.word, 0, words.length - 1, 0));
    [...list.children].forEach((button, place) => {
      const share = row[place] / top;
      button.style.background = weightColour(share, theme);
      button.style.color = textOn(weightChannels(share, theme));
      button.style.outline = place === now ? `2.5px solid ${colours[1]}` : "";
      button.title = told(row[place]);
    });
    sum.textContent = asSum(now);
    const takenIn = rowOf(layers[layer()], now);
    takes.replaceChildren(
      `at ${shown(explanation.layers[layer()])} it takes in `,
      ...best(takenIn, 3).flatMap((place, rank) => [rank ? ", " : "", bdi(shown(words[place])), ` ${told(takenIn[place])}`]),
    );
    sums.replaceChildren(
      el(
        "tbody",
        {},
        ...words.map((_, place) =>
          el(
            "tr",
            {},
            el("td", {}, bar(rowOf(shares[layer()], place), theme)),
            el("td", { dir: "auto", class: "regard-sum", text: asSum(place) }),
          ),
        ),
      ),
    );
    at.readout.dataset.share = row[best(row, 1)[0]];
    at.say([
      `after ${shown(explanation.layers[layer()])}, `,
      bdi(shown(words[now])),
      " is made of ",
      ...terms(row).flatMap((place, rank) => [rank ? ", " : "", bdi(shown(words[place])), ` ${told(row[place])}`]),
    ]);
  }
  function bar(row, theme) {
    const line = el("div", { "aria-hidden": "true" });
    line.style.cssText = "display:flex;width:9rem;height:.8rem";
    const colours = seriesColours(theme);
    best(row, 12)
      .filter((place) => row[place] > 0.004)
      .forEach((place) => {
        const part = el("span", { title: `${shown(words[place])} ${told(row[place])}` });
        part.style.cssText = `flex:${row[place]} 0 0;background:${colours[place % colours.length]};border-inline-end:1px solid var(--r-paper)`;
        line.append(part);
      });
    return line;
  }

  at.save();
  repaint();
  return at.handle;
}

/** What each word is made of after each layer, the layers before it included: `Concepts.through_layers` of Python. */
export function throughLayers(layers, size, residual) {
  let mixed = Float64Array.from({ length: size * size }, (_, n) => (n % (size + 1) ? 0 : 1));
  return layers.map(({ flat }) => {
    const next = new Float64Array(size * size);
    for (let row = 0; row < size; row++) {
      const line = flat.slice(row * size, (row + 1) * size).map((value) => Math.max(0, value)),
        total = line.reduce((sum, value) => sum + value, 0);
      for (let through = 0; through < size; through++) {
        const share = (through === row ? residual : 0) + (1 - residual) * (total > 0 ? line[through] / total : through === row ? 1 : 0);
        if (share) for (let column = 0; column < size; column++) next[row * size + column] += share * mixed[through * size + column];
      }
    }
    mixed = next;
    return { shape: [size, size], flat: next };
  });
}
