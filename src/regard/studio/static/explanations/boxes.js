// Boxes on a picture, with what each of them says: a box and its word light up together.

import { asTable, bdi, choice, el, frame, numbers, shown, slices, svg, told, whole } from "./parts.js";
import { loadPicture, scaleOf } from "./picture.js";

export function draw(root, explanation, options) {
  const boxes = slices(numbers(explanation.boxes)).map(({ flat }) => [...flat]),
    labels = explanation.labels ?? [];
  const name = (place) => (labels.length && labels[place] ? shown(labels[place]) : `box ${place + 1}`);
  let picture = null,
    pointed = null;
  const chosen = () => pointed ?? whole(at.values.box, 0, boxes.length - 1, null);
  const at = frame(root, explanation, options, {
    label: "boxes on a picture",
    repaint,
    name: () => `boxes ${explanation.title}`,
    hint: "Point at a box or choose its word: both light up.",
  });
  const board = el("div", { class: "regard-picture" }),
    pen = el("canvas").getContext("2d");
  const words = boxes.length
    ? choice(
        "boxes",
        boxes.map((_, place) => [place, name(place)]),
        "",
        (place) => {
          pointed = null;
          at.change({ box: place });
          options.announce?.(at.readout.textContent);
        },
      )
    : null;
  at.stage.append(board);
  if (words) {
    words.classList.add("regard-list");
    [...words.children].forEach((button, place) => {
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
    at.stage.append(words);
  }
  at.figure.append(
    asTable("the boxes as a table", ["", "top", "left", "height", "width"], () =>
      boxes.map((box, place) => [name(place), ...box.map((value) => value.toFixed(1))]),
    ),
  );

  function repaint() {
    if (!picture) return;
    const scale = scaleOf(picture, at.stage, 640),
      now = chosen(),
      head = 18;
    const drawn = svg("svg", {
      viewBox: `0 ${-head} ${picture.width * scale} ${picture.height * scale + head}`,
      width: Math.round(picture.width * scale),
      role: "img",
      "aria-label": `picture with ${boxes.length} boxes: ${boxes.map((_, place) => name(place)).join(", ")}`,
    });
    const image = svg("image", { href: picture.colour.toDataURL(), width: picture.width * scale, height: picture.height * scale });
    image.style.imageRendering = scale > 2 ? "pixelated" : "auto";
    drawn.append(image);
    pen.font = "13px system-ui, sans-serif";
    boxes.forEach((box, place) => {
      const [top, left, high, wide] = box.map((value) => value * scale),
        lit = place === now;
      const tone = lit ? "#ffd43b" : "#ffffff",
        square = { x: left, y: top, width: wide, height: high, fill: lit ? "rgba(255, 212, 59, .18)" : "transparent" };
      const width = pen.measureText(name(place)).width + 9,
        x = Math.max(0, Math.min(left, picture.width * scale - width));
      const text = svg("text", { x: x + 4, y: top - 4, "font-size": 13, text: name(place) });
      text.style.fill = "#000000";
      drawn.append(
        svg(
          "g",
          {
            onpointerenter: () => {
              pointed = place;
              relight();
            },
            onpointerleave: () => {
              pointed = null;
              relight();
            },
            onclick: () => at.change({ box: place }),
          },
          svg("rect", { ...square, stroke: "#000", "stroke-width": lit ? 5 : 3.5, "stroke-opacity": 0.65 }),
          svg("rect", { ...square, stroke: tone, "stroke-width": lit ? 2.5 : 1.5 }),
          labels.length ? svg("rect", { x, y: top - 17, width, height: 16, rx: 2, fill: tone, "fill-opacity": 0.92 }) : null,
          labels.length ? text : null,
        ),
      );
    });
    board.replaceChildren(drawn);
    words?.set(now);
    if (words && now === null) words.children[0].tabIndex = 0;
    if (now === null) return at.say([boxes.length ? `${boxes.length} boxes` : "Nothing was found."]);
    at.readout.dataset.box = boxes[now].join(" ");
    const [top, left, high, wide] = boxes[now].map((value) => told(value).slice(0, -2));
    return at.say([bdi(name(now)), `: ${wide} × ${high} pixels, from x ${left}, y ${top}`]);
  }
  /* The pointer is on an element that must stay: what is drawn anew comes after the event. */
  let asked = 0;
  function relight() {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(() => {
      if (words?.dataset.lit !== String(chosen())) {
        words.dataset.lit = String(chosen());
        repaint();
      }
    });
  }

  at.save();
  at.handle.ready = loadPicture(explanation.image).then((made) => {
    picture = made;
    repaint();
  });
  return at.handle;
}
