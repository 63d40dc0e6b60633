// Weights on the edges of a graph: an edge is as wide and as dark as the weight that its target gives to its source.

import { seriesColours, weightColour } from "../colours.js";
import { asTable, bdi, el, frame, largest, mean, nothing, numbers, select, shown, slider, slices, svg, told, whole } from "./parts.js";

const NAMED = 60,
  ROOM = 110; // nodes that all have a name; pixels around the graph

export function draw(root, explanation, options) {
  const { nodes } = explanation,
    all = numbers(explanation.weights),
    heads = all.shape.length === 2 ? slices(all) : [all];
  if (!nodes.length || !heads.length) return nothing(root, explanation, "graph");
  const [sources, targets] = [numbers(explanation.sources).flat, numbers(explanation.targets).flat],
    count = sources.length;
  const several = heads.length > 1,
    together = several ? mean(heads) : heads[0];
  const spots = layout(nodes.length, sources, targets);
  let pointed = null;
  const head = () => (several ? whole(at.values.head, 0, heads.length - 1, -1) : 0);
  const weights = () => (head() < 0 ? together : heads[head()]).flat;
  const node = () => pointed ?? whole(at.values.node, 0, nodes.length - 1, null);
  const least = () => Math.min(1, Math.max(0, Number(at.values.least) || 0));
  const at = frame(root, explanation, options, {
    label: "graph",
    repaint,
    name: () => `graph ${explanation.title} ${several ? (head() < 0 ? "mean" : `head ${head()}`) : ""}`,
    hint: "Choose a node to see what it takes from its neighbours; arrow keys go from node to node.",
  });
  const chooser =
    several &&
    select("head", [["mean", `mean of ${heads.length} heads`], ...heads.map((_, place) => [place, `head ${place}`])], "mean", (value) =>
      at.change({ head: value === "mean" ? undefined : value }),
    );
  const cut = slider(
    "weights from",
    [0, 1, 0.01],
    0,
    (value) => value.toFixed(2),
    (value) => at.change({ least: value || undefined }, true),
  );
  at.bar.append(...[chooser, cut].filter(Boolean));
  at.figure.append(
    asTable("the edges as a table", ["from → to", "weight"], () =>
      [...weights().keys()]
        .sort((a, b) => weights()[b] - weights()[a])
        .map((edge) => [`${shown(nodes[sources[edge]])} → ${shown(nodes[targets[edge]])}`, told(weights()[edge])]),
    ),
  );

  function repaint() {
    const theme = at.theme(),
      now = node(),
      values = weights(),
      top = largest(values) || 1,
      wide = Math.max(300, Math.min(720, at.stage.clientWidth || 600));
    const side = Math.min(ROOM, 0.24 * wide),
      high = Math.min(480, Math.max(260, wide * 0.62));
    const px = (spot) => [side + ((spot[0] + 1) / 2) * (wide - 2 * side), 34 + ((1 - spot[1]) / 2) * (high - 68)];
    const drawn = svg("svg", {
      viewBox: `0 0 ${wide} ${high}`,
      width: wide,
      height: high,
      tabindex: 0,
      role: "application",
      "aria-label": `graph of ${nodes.length} nodes and ${count} edges; arrow keys choose a node`,
    });
    const order = [...values.keys()].sort((a, b) => values[a] - values[b]);
    for (const edge of order) {
      const share = Math.abs(values[edge]) / top,
        lit = now === null || targets[edge] === now || sources[edge] === now;
      if (values[edge] < least() && least() > 0) continue;
      drawn.append(
        svg(
          "path",
          {
            d: arrow(px(spots[sources[edge]]), px(spots[targets[edge]])),
            fill: "none",
            stroke: weightColour(0.35 + 0.65 * share, theme),
            "stroke-linecap": "round",
            "stroke-width": (0.7 + 6 * share).toFixed(2),
            "stroke-opacity": lit ? (0.35 + 0.65 * share).toFixed(3) : 0.08,
            data: { edge, weight: values[edge] },
          },
          svg("title", { text: `${shown(nodes[sources[edge]])} → ${shown(nodes[targets[edge]])} ${told(values[edge])}` }),
        ),
      );
    }
    const near =
      now === null ? null : new Set([now, ...[...values.keys()].filter((edge) => targets[edge] === now).map((edge) => sources[edge])]);
    spots.forEach((spot, place) => {
      const [x, y] = px(spot),
        lit = near === null || near.has(place),
        anchor = Math.abs(spot[0]) < 0.2 ? "middle" : spot[0] > 0 ? "start" : "end";
      const tone = place === now ? seriesColours(theme)[1] : "var(--r-ink, currentColor)";
      const dot = svg("circle", { cx: x, cy: y, r: place === now ? 7 : 5, "fill-opacity": lit ? 1 : 0.35 });
      dot.style.fill = tone;
      const hit = svg("circle", {
        cx: x,
        cy: y,
        r: 14,
        fill: "transparent",
        data: { node: place },
        onclick: () => at.change({ node: place }),
        onpointerenter: () => hover(place),
        onpointerleave: () => hover(null),
      });
      hit.style.cursor = "pointer";
      drawn.append(dot);
      if (nodes.length <= NAMED || place === now || near?.has(place)) {
        const label = shown(nodes[place]),
          room = anchor === "middle" ? 22 : Math.floor((side - 14) / 6.4);
        drawn.append(
          svg("text", {
            class: "regard-halo",
            x: x + { start: 11, end: -11, middle: 0 }[anchor],
            y: y + (anchor === "middle" ? (spot[1] >= -0.2 ? -12 : 20) : 4),
            "text-anchor": anchor,
            "font-size": 12,
            "fill-opacity": lit ? 1 : 0.45,
            "font-weight": place === now ? 700 : 400,
            text: label.length > room ? `${label.slice(0, room - 1)}…` : label,
          }),
        );
      }
      drawn.append(hit);
    });
    const focused = at.stage.contains(document.activeElement);
    at.stage.replaceChildren(drawn);
    if (focused) drawn.focus({ preventScroll: true });
    if (chooser) chooser.input.value = head() < 0 ? "mean" : head();
    cut.set(least());
    tell(now, values);
  }
  let asked = 0,
    last = null;
  function hover(place) {
    pointed = place;
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(() => {
      if (last !== node()) {
        last = node();
        repaint();
      }
    });
  }
  function tell(now, values) {
    if (now === null) {
      const most = [...values.keys()].sort((a, b) => values[b] - values[a])[0];
      if (most === undefined) return at.say([`${nodes.length} nodes without edges`]);
      return at.say([
        `${nodes.length} nodes, ${count} edges; largest weight `,
        el("b", { text: told(values[most]) }),
        ": ",
        bdi(shown(nodes[targets[most]])),
        " takes from ",
        bdi(shown(nodes[sources[most]])),
      ]);
    }
    const into = [...values.keys()].filter((edge) => targets[edge] === now).sort((a, b) => values[b] - values[a]);
    at.readout.dataset.weight = into.length ? values[into[0]] : "";
    return at.say([
      bdi(shown(nodes[now])),
      into.length ? " takes from " : " takes from nobody",
      ...into.slice(0, 6).flatMap((edge, rank) => [rank ? ", " : "", bdi(shown(nodes[sources[edge]])), ` ${told(values[edge])}`]),
    ]);
  }
  at.stage.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") at.change({ node: undefined });
    else if (!way) return;
    else {
      pointed = null;
      const now = whole(at.values.node, 0, nodes.length - 1, way > 0 ? -1 : 0);
      at.change({ node: (now + way + nodes.length) % nodes.length }, true);
      options.announce?.(at.readout.textContent);
    }
    event.preventDefault();
  });

  at.save(() => at.stage.querySelector("svg"));
  repaint();
  return at.handle;
}

/** Where nodes stand, (x, y) with y upwards, from −1 to 1: as `EdgeWeights.layout` of Python has it. */
export function layout(count, sources, targets) {
  const heads = new Set(targets),
    tails = new Set(sources);
  const circle = (size) =>
    Array.from({ length: size }, (_, place) => {
      const angle = Math.PI / 2 - (2 * Math.PI * place) / Math.max(size, 1);
      return [Math.cos(angle), Math.sin(angle)];
    });
  if (heads.size === 1 && count > 2) {
    const [centre] = heads,
      around = circle(count - 1);
    return Array.from({ length: count }, (_, node) => (node === centre ? [0, 0] : around[node < centre ? node : node - 1]));
  }
  if (heads.size && ![...heads].some((node) => tails.has(node))) {
    const right = [...heads].sort((a, b) => a - b),
      left = Array.from({ length: count }, (_, node) => node).filter((node) => !heads.has(node));
    return Array.from({ length: count }, (_, node) => {
      const [side, others] = heads.has(node) ? [1, right] : [-1, left];
      return [side, 1 - (2 * (others.indexOf(node) + 0.5)) / others.length];
    });
  }
  return circle(count);
}

/* A line that bends to its left and ends with a head, or a ring from a node to itself. */
function arrow(start, end) {
  if (Math.hypot(end[0] - start[0], end[1] - start[1]) < 1e-6) return `M${start[0] - 9} ${start[1] - 7}a11 11 0 1 1 18 0`;
  const [dx, dy] = [end[0] - start[0], end[1] - start[1]];
  const bend = [(start[0] + end[0]) / 2 + 0.1 * dy, (start[1] + end[1]) / 2 - 0.1 * dx];
  const far = Math.hypot(end[0] - bend[0], end[1] - bend[1]) || 1,
    back = [(end[0] - bend[0]) / far, (end[1] - bend[1]) / far];
  const tip = [end[0] - 8 * back[0], end[1] - 8 * back[1]];
  const wing = (side) =>
    [tip[0] - 7 * back[0] + side * back[1], tip[1] - 7 * back[1] - side * back[0]].map((value) => value.toFixed(1)).join(" ");
  return `M${start.join(" ")}Q${bend.join(" ")} ${tip.join(" ")}M${wing(3.5)}L${tip.join(" ")}L${wing(-3.5)}`;
}
