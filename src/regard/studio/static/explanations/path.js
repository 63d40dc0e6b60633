// The path of glimpses over a picture, with a slider over steps and what each glimpse saw.

import { stepColour, textOn } from "../colours.js";
import { asTable, bdi, el, frame, numbers, slices, slider, svg, tick, whole } from "./parts.js";
import { loadPicture, scaleOf } from "./picture.js";

export function draw(root, explanation, options) {
  const where = slices(numbers(explanation.where)).map(({ flat }) => [...flat]),
    count = where.length;
  let picture = null;
  const step = () => whole(at.values.step, 0, Math.max(0, count - 1), Math.max(0, count - 1));
  const at = frame(root, explanation, options, {
    label: "path of glimpses",
    repaint,
    name: () => `path ${explanation.title} ${explanation.label} step ${step() + 1}`,
    hint: "Click a number in the picture, or use the slider. A box is what the finest patch of a glimpse covers.",
  });
  const steps = slider(
    "glimpse",
    [0, Math.max(0, count - 1)],
    step(),
    (value) => `${value + 1} of ${count}`,
    (value) => {
      at.change({ step: value }, true);
      options.announce?.(at.readout.textContent);
    },
  );
  const boxes = tick("boxes of all scales", false, (on) => at.change({ scales: on ? "all" : undefined }));
  if (count) at.bar.append(steps);
  if (explanation.scales > 1) at.bar.append(boxes);
  const board = el("div", { class: "regard-picture" }),
    patches = el("div", { class: "regard-patches" });
  at.stage.append(
    el(
      "div",
      { class: "regard-split" },
      board,
      el("div", {}, el("p", { class: "regard-hint", text: "what this glimpse saw, scale by scale" }), patches),
    ),
  );
  at.stage.before(at.readout); // above the picture, which may be taller than the window
  const pixels = (place) => [((where[place][0] + 1) / 2) * picture.width, ((where[place][1] + 1) / 2) * picture.height];
  at.figure.append(
    asTable("all glimpses as a table", ["glimpse", "x", "y"], () =>
      where.map((_, place) => [String(place + 1), ...pixels(place).map((value) => value.toFixed(1))]),
    ),
  );

  function repaint() {
    if (!picture) return;
    const now = step(),
      scale = scaleOf(picture, at.stage, 380),
      { width, height } = picture;
    const half = (explanation.size * scale) / 2,
      margin = Math.min(half, 0.2 * scale * Math.max(width, height));
    const all = where.map((_, place) => pixels(place).map((value) => value * scale));
    const drawn = svg("svg", {
      viewBox: `${-margin} ${-margin} ${width * scale + 2 * margin} ${height * scale + 2 * margin}`,
      width: Math.round(width * scale + 2 * margin),
      role: "img",
      "aria-label": `picture with ${now + 1} of ${count} glimpses`,
    });
    const image = svg("image", { href: picture.colour.toDataURL(), width: width * scale, height: height * scale });
    image.style.imageRendering = "pixelated";
    drawn.append(image);
    all.slice(0, now + 1).forEach(([x, y], place) => {
      const colour = stepColour(place, count, "dark"),
        current = place === now;
      const scales = current && at.values.scales === "all" ? explanation.scales : 1;
      for (let level = 0; level < scales; level++) {
        const side = half * 2 ** level;
        const square = { x: x - side, y: y - side, width: 2 * side, height: 2 * side, fill: "none" };
        drawn.append(
          svg("rect", { ...square, stroke: "#000", "stroke-width": current ? 4 : 2.5, "stroke-opacity": 0.6 }),
          svg("rect", { ...square, stroke: colour, "stroke-width": current ? 2.5 : 1.2, "stroke-opacity": current ? 1 : 0.8 }),
        );
      }
      if (place)
        drawn.append(
          svg("path", { d: `M${all[place - 1].join(" ")}L${x} ${y}`, stroke: "#000", "stroke-width": 3.5, "stroke-opacity": 0.5 }),
          svg("path", { d: `M${all[place - 1].join(" ")}L${x} ${y}`, stroke: colour, "stroke-width": 2 }),
        );
    });
    all.forEach(([x, y], place) => {
      const colour = stepColour(place, count, "dark"),
        opacity = place > now ? 0.45 : 1, // those that come later can be clicked, too
        circle = { cx: x, cy: y, r: place === now ? 9 : 7, opacity, fill: colour, stroke: "#000", "stroke-opacity": 0.6 },
        text = svg("text", { x, y: y + 3.6, opacity, "text-anchor": "middle", "font-size": 10.5, text: String(place + 1) });
      text.style.fill = textOn(colour);
      const choose = {
        tabindex: count > 40 ? undefined : 0,
        role: "button",
        "aria-label": `glimpse ${place + 1}`,
        onclick: () => at.change({ step: place }),
        onkeydown: (event) => {
          if (event.key === "Enter") at.change({ step: place });
        },
      };
      drawn.append(svg("g", choose, svg("circle", circle), text));
    });
    board.replaceChildren(drawn);
    patches.replaceChildren(...(count ? Array.from({ length: explanation.scales }, (_, level) => patch(now, level)) : []));
    if (count) {
      steps.set(now);
      const [x, y] = pixels(now);
      at.readout.dataset.x = x;
      at.readout.dataset.y = y;
      at.say([
        `Glimpse ${now + 1} of ${count} looked at x ${x.toFixed(1)}, y ${y.toFixed(1)}: pixels from the top left of ${width} × ${height}.`,
        ...(explanation.label ? [" After all glimpses the model said ", bdi(explanation.label), "."] : []),
      ]);
    } else at.say(["There are no glimpses."]);
    boxes.input.checked = at.values.scales === "all";
  }

  /* A patch as the retina sees it: a square around the place, twice as wide at each scale, always of `size` pixels. */
  function patch(now, level) {
    const { size } = explanation,
      side = size * 2 ** level,
      [x, y] = pixels(now);
    const canvas = el("canvas", {
      width: size,
      height: size,
      role: "img",
      "aria-label": `what glimpse ${now + 1} saw at scale ${level + 1}`,
    });
    const pen = canvas.getContext("2d");
    pen.fillStyle = "#000";
    pen.fillRect(0, 0, size, size);
    pen.imageSmoothingEnabled = level > 0;
    pen.imageSmoothingQuality = "high";
    pen.drawImage(picture.colour, x - side / 2, y - side / 2, side, side, 0, 0, size, size);
    return el("figure", {}, canvas, el("figcaption", { text: `${side} × ${side} pixels` }));
  }

  at.save();
  at.handle.ready = loadPicture(explanation.image).then((made) => {
    picture = made;
    repaint();
  });
  return at.handle;
}
