// A tape: where heads read and wrote in a memory, step by step. All heads share one place in time.

import { weightChannels } from "../colours.js";
import { asTable, bdi, best, colour, el, frame, largest, nothing, numbers, rowOf, sharp, shown, slider, told, whole } from "./parts.js";

export function draw(root, explanation, options) {
  const tapes = explanation.weights.map((each) => ({ name: each.name, ...numbers(each) })).filter(({ flat }) => flat.length);
  if (!tapes.length) return nothing(root, explanation, "tape of a memory");
  const steps = tapes[0].shape[0],
    { steps: names } = explanation;
  let pointed = null;
  const step = () => pointed?.step ?? whole(at.values.step, 0, steps - 1, 0);
  const called = (place) => (names.length ? ` (${shown(names[place])})` : "");
  const at = frame(root, explanation, options, {
    label: "tape of a memory",
    repaint,
    name: () => `tape ${explanation.title}`,
    hint: "Time goes to the right, the slots of the memory go down. Move the slider, or point at a map.",
  });
  const time = slider(
    "step",
    [0, steps - 1],
    0,
    (place) => `${place + 1} of ${steps}`,
    (place) => {
      pointed = null;
      at.change({ step: place }, true);
      options.announce?.(at.readout.textContent);
    },
  );
  if (steps > 1) at.bar.append(time);
  const room = el("div", { class: "regard-tapes" }),
    maps = tapes.map((tape) => {
      const canvas = el("canvas", { role: "img", "aria-label": `${tape.name}: ${tape.shape[1]} slots over ${steps} steps` });
      const at_ = (event) => {
        const area = canvas.getBoundingClientRect();
        const place = (share, size) => Math.min(size - 1, Math.max(0, Math.floor(share * size)));
        return {
          tape,
          step: place((event.clientX - area.left) / area.width, steps),
          slot: place((event.clientY - area.top) / area.height, tape.shape[1]),
        };
      };
      canvas.addEventListener("pointermove", (event) => {
        pointed = at_(event);
        repaint();
      });
      canvas.addEventListener("pointerleave", () => {
        pointed = null;
        repaint();
      });
      canvas.addEventListener("click", (event) => {
        const { step: place } = at_(event);
        pointed = null;
        at.change({ step: place });
      });
      const facts = el("span");
      room.append(el("figure", {}, el("figcaption", {}, el("b", { text: tape.name }), ` · ${tape.shape[1]} slots, `, facts), canvas));
      return { tape, canvas, facts, bitmap: null, theme: "" };
    });
  at.stage.append(room);
  at.figure.append(
    asTable("where each head was, as a table", ["step", ...tapes.map(({ name }) => name)], () =>
      Array.from({ length: steps }, (_, place) => [
        `${place + 1}${called(place)}`,
        ...tapes.map((tape) => {
          const [most] = best(rowOf(tape, place), 1);
          return `slot ${most + 1}: ${told(rowOf(tape, place)[most])}`;
        }),
      ]),
    ),
  );

  function bitmapOf(map, theme) {
    if (map.theme === theme) return map.bitmap;
    const {
        flat,
        shape: [, slots],
      } = map.tape,
      top = largest(flat) || 1,
      pixels = new ImageData(steps, slots);
    flat.forEach((weight, n) =>
      pixels.data.set([...weightChannels(Math.max(0, weight) / top, theme), 255], 4 * ((n % slots) * steps + Math.floor(n / slots))),
    );
    map.bitmap = el("canvas", { width: steps, height: slots });
    map.bitmap.getContext("2d").putImageData(pixels, 0, 0);
    map.theme = theme;
    return map.bitmap;
  }

  function repaint() {
    const now = step(),
      theme = at.theme(),
      wide = Math.min(at.stage.clientWidth || 320, Math.max(240, 18 * steps)),
      accent = colour(at.figure, "r-second", "#b34a00");
    const paper = colour(at.figure, "r-paper", "#ffffff");
    for (const map of maps) {
      const slots = map.tape.shape[1],
        high = Math.min(220, Math.max(40, 9 * slots)),
        pen = sharp(map.canvas, wide, high);
      pen.imageSmoothingEnabled = false;
      pen.drawImage(bitmapOf(map, theme), 0, 0, wide, high);
      for (const [tone, width] of [
        [paper, 4],
        [accent, 2],
      ]) {
        pen.strokeStyle = tone;
        pen.lineWidth = width;
        pen.strokeRect((now * wide) / steps + 1, 1, Math.max(3, wide / steps) - 2, high - 2);
      }
      const row = rowOf(map.tape, now),
        [most] = best(row, 1);
      map.facts.textContent = `at step ${now + 1} most at slot ${most + 1}: ${told(row[most])}`;
      map.facts.dataset.weight = row[most];
    }
    time.set(now);
    if (pointed) {
      const weight = rowOf(pointed.tape, now)[pointed.slot];
      at.readout.dataset.weight = weight;
      return at.say([
        bdi(pointed.tape.name),
        `, step ${now + 1}${called(now)}, slot ${pointed.slot + 1}: `,
        el("b", { text: told(weight) }),
      ]);
    }
    return at.say([`step ${now + 1} of ${steps}`, ...(names.length ? [": ", bdi(shown(names[now]))] : [])]);
  }

  at.save();
  repaint();
  return at.handle;
}
