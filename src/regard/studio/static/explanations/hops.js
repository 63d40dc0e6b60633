// Hops over a memory: the story, with the weight of each sentence at each hop.

import { textOn, weightChannels, weightColour } from "../colours.js";
import { bdi, best, choice, el, frame, largest, nothing, numbers, rowOf, shown, told, whole } from "./parts.js";

export function draw(root, explanation, options) {
  const weights = numbers(explanation.weights),
    [hops, slots] = weights.shape;
  if (!slots || !hops) return nothing(root, explanation, "hops over a memory");
  const hop = () => whole(at.values.hop, 0, hops - 1, null);
  const at = frame(root, explanation, options, {
    label: "hops over a memory",
    repaint,
    name: () => `hops ${explanation.question || explanation.title}`,
    hint: explanation.marked.length
      ? "● marks the facts that the answer needs. A hop is one look at the memory."
      : "A hop is one look at the memory.",
  });
  const chooser = choice(
    "hop",
    [["all", "all hops"], ...Array.from({ length: hops }, (_, place) => [place, `hop ${place + 1}`])],
    "all",
    (value) => {
      at.change({ hop: value === "all" ? undefined : value });
      options.announce?.(at.readout.textContent);
    },
  );
  if (hops > 1) at.bar.append(chooser);
  const cells = [],
    body = explanation.slots.map((text, slot) => {
      const row = Array.from({ length: hops }, (_, place) =>
        el("td", {
          class: "regard-cell",
          data: { hop: place, slot, weight: weights.flat[place * slots + slot] },
          text: told(weights.flat[place * slots + slot]),
          onpointerenter: () => tell(place, slot),
          onpointerleave: () => tell(hop()),
        }),
      );
      cells.push(...row);
      return el(
        "tr",
        { class: explanation.marked.includes(slot) ? "regard-fact" : undefined },
        el("th", { scope: "row", dir: "auto", text: shown(text) }),
        ...row,
      );
    });
  at.stage.append(
    el(
      "div",
      { class: "regard-scroll", tabindex: 0 },
      el(
        "table",
        {},
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col", text: "memory" }),
            ...Array.from({ length: hops }, (_, place) => el("th", { scope: "col", text: `hop ${place + 1}` })),
          ),
        ),
        el("tbody", {}, ...body),
      ),
    ),
  );
  if (explanation.question || explanation.answer) {
    at.stage.append(
      el("p", {}, bdi(explanation.question), explanation.answer ? " → " : "", el("b", { dir: "auto", text: explanation.answer })),
    );
  }

  function tell(place, slot = null) {
    if (slot !== null)
      return at.say([
        bdi(shown(explanation.slots[slot])),
        `, hop ${place + 1}: `,
        el("b", { text: told(weights.flat[place * slots + slot]) }),
      ]);
    const shownHops = place === null ? Array.from({ length: hops }, (_, each) => each) : [place];
    return at.say(
      shownHops.flatMap((each, rank) => {
        const row = rowOf(weights, each),
          [most] = best(row, 1);
        return [
          `${rank ? "; " : ""}hop ${each + 1} looks most at `,
          bdi(shown(explanation.slots[most])),
          " ",
          el("b", { text: told(row[most]) }),
        ];
      }),
    );
  }

  function repaint() {
    const now = hop(),
      top = largest(weights.flat) || 1,
      theme = at.theme();
    chooser.set(now ?? "all");
    for (const cell of cells) {
      const share = Math.max(0, Number(cell.dataset.weight)) / top,
        quiet = now !== null && Number(cell.dataset.hop) !== now;
      cell.classList.toggle("regard-quiet", quiet);
      cell.style.background = quiet ? "" : weightColour(share, theme);
      cell.style.color = quiet ? "" : textOn(weightChannels(share, theme));
    }
    tell(now);
  }

  at.save();
  repaint();
  return at.handle;
}
