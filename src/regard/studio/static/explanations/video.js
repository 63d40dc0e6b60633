// Weights over the frames of a clip: a frame at a time, with the person who asks, and all frames as a strip.

import { asTable, bdi, choice, el, frame, largest, nothing, numbers, shown, slices, slider, told, whole } from "./parts.js";
import { loadPicture, overlay, paint, scaleOf } from "./picture.js";

const THUMB = 84; // pixels of the page

export function draw(root, explanation, options) {
  const queries = slices(numbers(explanation.weights)),
    count = queries.length;
  if (!count) return nothing(root, explanation, "clip");
  const [frames, down, across] = queries[0].shape,
    boxes = slices(numbers(explanation.boxes)).map(({ flat }) => [...flat]);
  const asks = [...numbers(explanation.asks).flat];
  let picture = null;
  const query = () => whole(at.values.query, 0, count - 1, 0),
    now = () => whole(at.values.frame, 0, frames - 1, explanation.middle);
  const called = (place) => shown(explanation.labels[place] || `query ${place + 1}`);
  const at = frame(root, explanation, options, {
    label: "clip",
    repaint,
    name: () => `video ${explanation.title} ${called(query())} frame ${now() + 1}`,
    hint: "Yellow is where the query looks, more than an even share. The blue box is the person who asks, in the middle frame.",
  });
  const who =
    count > 1
      ? choice(
          "query",
          explanation.labels.map((_, place) => [place, called(place)]),
          query(),
          (place) => at.change({ query: place }),
        )
      : null;
  const steps = slider(
    "frame",
    [0, frames - 1],
    now(),
    (value) => `${value + 1} of ${frames}`,
    (value) => {
      at.change({ frame: value }, true);
      options.announce?.(at.readout.textContent);
    },
  );
  at.bar.append(...[who, frames > 1 ? steps : null].filter(Boolean));
  const canvas = el("canvas", { role: "img" }),
    strip = el("div", { class: "regard-strip", role: "group", "aria-label": "frames" });
  const thumbs = Array.from({ length: frames }, (_, place) =>
    el("button", { type: "button", "aria-label": `frame ${place + 1}`, onclick: () => at.change({ frame: place }) }, el("canvas")),
  );
  strip.append(...thumbs);
  at.stage.append(el("div", { class: "regard-picture" }, canvas), strip);
  at.figure.append(
    asTable("the share of each frame as a table", ["frame", ...explanation.labels.map((_, place) => called(place))], () =>
      Array.from({ length: frames }, (_, place) => [String(place + 1), ...queries.map((each) => told(share(each, place)))]),
    ),
  );

  function share({ flat }, place) {
    return flat.subarray(place * down * across, (place + 1) * down * across).reduce((sum, value) => sum + value, 0);
  }
  function shares({ flat }) {
    const even = flat.reduce((sum, value) => sum + value, 0) / flat.length,
      above = flat.map((value) => Math.max(0, value - even)),
      top = largest(above);
    const least = 1e-9 * flat.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-30);
    return above.map((value) => (top > least ? value / top : 0));
  }

  function repaint() {
    if (!picture) return;
    const place = query(),
      current = now(),
      wide = picture.width / frames,
      all = shares(queries[place]),
      size = down * across;
    const one = (target, number, scale) => {
      const pen = paint(target, picture.grey, scale, [number * wide, 0, wide, picture.height]);
      overlay(pen, all.subarray(number * size, (number + 1) * size), [down, across], {
        x: 0,
        y: 0,
        width: wide * scale,
        height: picture.height * scale,
      });
      if (number === explanation.middle && boxes[asks[place]]) {
        const [left, top, right, bottom] = boxes[asks[place]].map((value) => value * scale);
        for (const [tone, width] of [
          ["#000000", 3.5],
          ["#56b4e9", 1.8],
        ]) {
          pen.strokeStyle = tone;
          pen.lineWidth = width;
          pen.strokeRect(left, top, right - left, bottom - top);
        }
      }
    };
    one(canvas, current, scaleOf({ width: wide, height: picture.height }, at.stage, 400));
    thumbs.forEach((thumb, number) => {
      one(thumb.firstChild, number, THUMB / Math.max(wide, picture.height));
      thumb.setAttribute("aria-pressed", String(number === current));
    });
    canvas.setAttribute("aria-label", `frame ${current + 1} of ${frames}`);
    who?.set(place);
    steps.set(current);
    const part = share(queries[place], current);
    at.readout.dataset.share = part;
    at.say([bdi(called(place)), ` looks at frame ${current + 1} with `, el("b", { text: told(part) }), " of its weight"]);
  }

  at.save();
  at.handle.ready = loadPicture(explanation.image).then((made) => {
    picture = made;
    repaint();
  });
  return at.handle;
}
