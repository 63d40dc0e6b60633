// Gates of channels: how open each one is, by layer, for the classes of the pictures.

import { seriesColours } from "../colours.js";
import { asTable, bdi, choice, el, frame, nothing, numbers, rowOf, shown, svg, told, whole } from "./parts.js";

const BINS = 25,
  FEW = 6; // of the histogram; classes that are drawn

export function draw(root, explanation, options) {
  const layers = explanation.values.map((each) => ({ name: each.name, ...numbers(each) })).filter(({ flat }) => flat.length);
  if (!layers.length) return nothing(root, explanation, "gates of channels");
  const labels = numbers(explanation.labels).flat,
    kinds = [...new Set(labels)].sort((a, b) => a - b);
  const called = (kind) => (explanation.classes.length ? shown(explanation.classes[kind]) : String(kind));
  const layer = () => whole(at.values.layer, 0, layers.length - 1, 0);
  let pointed = null;
  const channel = () => pointed ?? whole(at.values.channel, 0, layers[layer()].shape[1] - 1, null);
  const at = frame(root, explanation, options, {
    label: "gates of channels",
    repaint,
    name: () => `gates ${explanation.title} ${layers[layer()].name}`,
    hint: "A line for each class: the mean gate of every channel, from 0 (shut) to 1 (open). Point at a channel, or press the arrow keys.",
  });
  const facts = layers.map((each) => statistics(each));
  const chooser = choice(
    "layer",
    layers.map(({ name }, place) => [place, shown(name)]),
    0,
    (place) => at.change({ layer: place, channel: undefined }),
  );
  if (layers.length > 1) at.bar.append(chooser);
  const plot = el("div"),
    legend = el("div", { class: "regard-bar" });
  const rows = layers.map(({ name }, place) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", text: shown(name) }),
      el("td", { text: told(facts[place].mean) }),
      el("td", { text: `±${told(facts[place].byPicture)}` }),
      el("td", {}, histogram(facts[place].bins)),
    ),
  );
  at.stage.append(
    legend,
    plot,
    el(
      "div",
      { class: "regard-scroll", tabindex: 0 },
      el(
        "table",
        {},
        el(
          "thead",
          {},
          el("tr", {}, ...["layer", "mean gate", "by picture", "shut … open"].map((text) => el("th", { scope: "col", text }))),
        ),
        el("tbody", {}, ...rows),
      ),
    ),
  );
  at.figure.append(
    asTable("the mean gate of each channel as a table", ["channel", ...kinds.map(called), "all"], () =>
      Array.from({ length: layers[layer()].shape[1] }, (_, place) => [
        String(place + 1),
        ...kinds.map((kind) => told(profile(kind)[place])),
        told(profile(null)[place]),
      ]),
    ),
  );

  function profile(kind) {
    const current = layers[layer()],
      sum = new Float64Array(current.shape[1]);
    let counted = 0;
    for (let place = 0; place < current.shape[0]; place++) {
      if (kind !== null && labels[place] !== kind) continue;
      rowOf(current, place).forEach((value, n) => {
        sum[n] += value;
      });
      counted += 1;
    }
    return sum.map((value) => value / Math.max(counted, 1));
  }

  function repaint() {
    const theme = at.theme(),
      colours = seriesColours(theme),
      current = layers[layer()],
      channels = current.shape[1];
    const wide = Math.max(280, Math.min(760, at.stage.clientWidth || 600)),
      high = 190,
      left = 30,
      below = 22;
    const px = (place) => left + ((place + 0.5) * (wide - left - 4)) / channels,
      py = (value) => 6 + (1 - value) * (high - below - 6);
    const drawn = svg("svg", {
      viewBox: `0 0 ${wide} ${high}`,
      width: wide,
      height: high,
      tabindex: 0,
      role: "application",
      "aria-label": `mean gate of ${channels} channels; arrow keys choose a channel`,
    });
    for (const value of [0, 0.5, 1]) {
      drawn.append(
        svg("path", { d: `M${left} ${py(value)}H${wide}`, stroke: "currentColor", "stroke-opacity": 0.18 }),
        svg("text", { x: left - 6, y: py(value) + 4, "text-anchor": "end", "font-size": 11, text: String(value) }),
      );
    }
    drawn.append(
      svg("text", { x: (left + wide) / 2, y: high - 4, "text-anchor": "middle", "font-size": 11, text: `channel 1 … ${channels}` }),
    );
    const line = (values, stroke, width, dashes) =>
      drawn.append(
        svg("path", {
          d:
            channels > 1
              ? `M${[...values].map((value, place) => `${px(place).toFixed(2)} ${py(value).toFixed(2)}`).join("L")}`
              : `M${left} ${py(values[0])}H${wide}`,
          fill: "none",
          stroke,
          "stroke-width": width,
          "stroke-dasharray": dashes,
          "stroke-linejoin": "round",
        }),
      );
    line(profile(null), "currentColor", 2.6, "none");
    const dashes = ["none", "6 3", "2 3", "8 3 2 3", "4 2", "1 2"];
    kinds.slice(0, FEW).forEach((kind, place) => line(profile(kind), colours[place], 1.6, dashes[place]));
    const now = channel();
    if (now !== null) drawn.append(svg("path", { d: `M${px(now)} 4V${high - below}`, stroke: colours[1], "stroke-width": 1.5 }));
    drawn.addEventListener("pointermove", (event) => {
      const area = drawn.getBoundingClientRect(),
        place = Math.floor((((event.clientX - area.left) * (wide / area.width) - left) / (wide - left - 4)) * channels);
      pointed = place >= 0 && place < channels ? place : null;
      tell();
    });
    drawn.addEventListener("pointerleave", () => {
      pointed = null;
      repaint();
    });
    drawn.addEventListener("click", () => at.change({ channel: pointed ?? undefined }));
    const focused = at.stage.contains(document.activeElement) && document.activeElement instanceof SVGElement;
    plot.replaceChildren(drawn);
    if (focused) drawn.focus({ preventScroll: true });
    const swatch = (text, colour, dash) =>
      el(
        "span",
        { class: "regard-legend" },
        svg(
          "svg",
          { width: 26, height: 8, "aria-hidden": "true" },
          svg("path", { d: "M0 4H26", stroke: colour, "stroke-width": 2.4, "stroke-dasharray": dash }),
        ),
        bdi(text),
      );
    legend.replaceChildren(
      ...kinds.slice(0, FEW).map((kind, place) => swatch(called(kind), colours[place], dashes[place])),
      swatch("all pictures", "currentColor", "none"),
      kinds.length > FEW ? el("span", { text: `and ${kinds.length - FEW} classes more, in the table` }) : "",
    );
    chooser.set(layer());
    tell();
  }

  function tell() {
    const now = channel(),
      current = layers[layer()];
    if (now === null) {
      at.readout.dataset.mean = facts[layer()].mean;
      return at.say([
        bdi(shown(current.name)),
        `: ${current.shape[0]} pictures, ${current.shape[1]} channels; mean gate `,
        el("b", { text: told(facts[layer()].mean) }),
      ]);
    }
    at.readout.dataset.gate = profile(null)[now];
    return at.say([
      `channel ${now + 1}: all `,
      el("b", { text: told(profile(null)[now]) }),
      ...kinds.slice(0, FEW).flatMap((kind) => [", ", bdi(called(kind)), ` ${told(profile(kind)[now])}`]),
    ]);
  }
  plot.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key],
      channels = layers[layer()].shape[1];
    if (!way) return;
    event.preventDefault();
    pointed = null;
    at.change(
      { channel: Math.min(channels - 1, Math.max(0, whole(at.values.channel, 0, channels - 1, way > 0 ? -1 : channels) + way)) },
      true,
    );
    options.announce?.(at.readout.textContent);
  });

  at.save();
  repaint();
  return at.handle;
}

function statistics({ shape: [pictures, channels], flat }) {
  const bins = new Array(BINS).fill(0);
  let sum = 0,
    deviations = 0;
  for (const value of flat) {
    sum += value;
    bins[Math.min(BINS - 1, Math.floor(value * BINS))] += 1;
  }
  for (let channel = 0; channel < channels; channel++) {
    let [total, squares] = [0, 0];
    for (let place = 0; place < pictures; place++) {
      const value = flat[place * channels + channel];
      total += value;
      squares += value * value;
    }
    deviations += Math.sqrt(Math.max(0, squares / pictures - (total / pictures) ** 2));
  }
  return { mean: sum / flat.length, byPicture: deviations / channels, bins };
}

function histogram(bins) {
  const top = Math.max(...bins, 1),
    drawn = svg("svg", { viewBox: `0 0 ${BINS} 1`, width: 130, height: 22, preserveAspectRatio: "none", "aria-hidden": "true" });
  const d = bins.map((count, place) => (count ? `M${place} 1V${(1 - count / top).toFixed(3)}h.85V1z` : "")).join("");
  const path = svg("path", { d });
  path.style.fill = "var(--r-accent)";
  drawn.append(path);
  return drawn;
}
