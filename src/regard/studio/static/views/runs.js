// Runs: curves of trainings as they go, results beside each other, and the ledger of all recipes.
import { check, drawn, element, errorBox, field, format } from "../parts.js";

export const title = "Runs";
const EVERY = 2000; // milliseconds between two looks at the logs of trainings
const COLOURS = ["var(--accent)", "var(--second)", "var(--good)", "var(--bad)", "var(--muted)"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 4"];

export function mount(root, context) {
  const { api, setState } = context;
  let alive = true,
    timer = null,
    lines = [],
    curves = new Map(),
    ledger = null,
    seen = "";
  const list = element("div", { class: "panel scroll" }),
    plots = element("div", { class: "grid" }),
    results = element("div", {}),
    table = element("div", { class: "panel" });
  root.append(element("h1", {}, "Runs"), list, plots, results, table);

  const names = () =>
    (context.state.runs ?? "")
      .split(",")
      .map(decodeURIComponent)
      .filter((name) => lines.some((line) => line.name === name));
  const chosen = () => {
    const own = names();
    return context.state.runs === undefined ? lines.slice(0, 2).map((line) => line.name) : own;
  };

  async function look() {
    clearTimeout(timer);
    try {
      lines = (await api.get("api/runs")).runs;
      for (const name of chosen()) {
        const line = lines.find((each) => each.name === name),
          known = curves.get(name);
        if (!known || known.step !== line.step || known.ended !== line.ended)
          curves.set(name, await api.get(`api/runs/${encodeURIComponent(name)}`));
      }
      if (alive) draw();
    } catch (error) {
      if (alive) list.replaceChildren(errorBox(error));
    }
    if (alive && !context.about.static) timer = setTimeout(look, document.hidden ? 5 * EVERY : EVERY);
  }

  function draw() {
    const own = chosen(),
      now = JSON.stringify([lines, own, own.map((name) => curves.get(name)?.step), context.theme()]);
    if (now === seen) return; // nothing is new: a field keeps its focus
    seen = now;
    if (!lines.length) {
      list.replaceChildren(
        element("p", {}, "There is no run here. Train one, here or in another terminal, and its curves appear while it goes on:"),
        element("pre", {}, "regard train bahdanau/plain_en_fr --set train.steps=500"),
      );
      plots.replaceChildren();
      results.replaceChildren();
      return;
    }
    const toggle = (name, on) => {
      const next = on ? [...own, name] : own.filter((each) => each !== name);
      setState({ runs: next.map(encodeURIComponent).join(",") || "-" });
    };
    list.replaceChildren(
      element(
        "table",
        {},
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            ["run", "recipe", "data", "updates", ""].map((name) => element("th", { scope: "col" }, name)),
          ),
        ),
        element(
          "tbody",
          {},
          lines.map((line) =>
            element(
              "tr",
              { "data-run": line.name },
              element(
                "td",
                {},
                check(line.name, own.includes(line.name), (on) => toggle(line.name, on)),
              ),
              element("td", {}, line.recipe || line.paper || "–"),
              element("td", {}, line.data ?? "–"),
              element(
                "td",
                { class: "number" },
                `${line.step.toLocaleString("en")}${line.steps ? ` of ${line.steps.toLocaleString("en")}` : ""}`,
              ),
              element("td", {}, line.ended ? "ended" : line.step ? "goes on, or was stopped" : "has not begun"),
            ),
          ),
        ),
      ),
    );
    const loaded = own.map((name) => [name, curves.get(name)]).filter(([, run]) => run);
    const keys = [...new Set(loaded.flatMap(([, run]) => Object.keys(run.curves)))]
      .filter((key) => !/^end\/|seconds|per_second/.test(key))
      .sort((one, two) => rank(one) - rank(two));
    plots.replaceChildren(
      ...keys.map((key) =>
        element(
          "div",
          { class: "panel" },
          element("h3", {}, key.replace("/", ": ").replaceAll("_", " ")),
          curvePicture(
            key,
            loaded.map(([name, run], number) => ({ name, number, points: run.curves[key] ?? [] })).filter((each) => each.points.length),
          ),
        ),
      ),
    );
    drawResults(loaded);
  }
  const rank = (key) => (key === "train/loss" ? 0 : key.startsWith("train/") ? 2 : 1);

  function drawResults(loaded) {
    const rows = loaded.flatMap(([name, run]) => Object.entries(run.results).map(([split, result]) => ({ name, split, result })));
    if (!rows.length) {
      results.replaceChildren();
      return;
    }
    const figures = [...new Set(rows.flatMap((row) => Object.keys(row.result.figures)))];
    results.replaceChildren(
      element(
        "div",
        { class: "panel scroll" },
        element("h2", {}, "Results"),
        element(
          "table",
          {},
          element(
            "thead",
            {},
            element(
              "tr",
              {},
              ["run", "split", ...figures.map((name) => name.replaceAll("_", " "))].map((name) => element("th", { scope: "col" }, name)),
            ),
          ),
          element(
            "tbody",
            {},
            rows.map((row) =>
              element(
                "tr",
                {},
                element("td", {}, row.name),
                element("td", {}, row.split),
                figures.map((name) => element("td", { class: "number" }, format(row.result.figures[name], 2))),
              ),
            ),
          ),
        ),
      ),
    );
  }

  // ── the ledger ────────────────────────────────────────────────────────────────────────────────────────────────────

  const oninput = () => {
    setState({ filter: filter.value || undefined }, { replace: true });
    drawLedger();
  };
  const placeholder = "a task, a paper, a data set";
  const filter = element("input", { type: "search", value: context.state.filter ?? "", placeholder, oninput, size: 28 });
  const shownLines = element("div", { class: "scroll" });
  table.append(element("h2", {}, "Ledger: what every recipe gave"), element("div", { class: "bar" }, field("Filter", filter)), shownLines);

  async function loadLedger() {
    try {
      ledger = (await api.get("api/ledger")).lines;
    } catch (error) {
      shownLines.replaceChildren(errorBox(error));
      return;
    }
    if (alive) drawLedger();
  }
  function drawLedger() {
    if (!ledger) return;
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = ledger.filter((line) =>
      words.every((word) => [line.name, line.task, line.data, line.year].join(" ").toLowerCase().includes(word)),
    );
    const tasks = [...new Set(kept.map((line) => line.task))];
    shownLines.replaceChildren(
      element("p", { class: "muted small" }, `${kept.length} of ${ledger.length} lines`),
      ...tasks.map((task) => {
        const own = kept.filter((line) => line.task === task);
        return element(
          "details",
          { open: words.length > 0 || tasks.length === 1 },
          element("summary", {}, `${task.replaceAll("_", " ")} (${own.length})`),
          element(
            "div",
            { class: "scroll" },
            element(
              "table",
              {},
              element(
                "thead",
                {},
                element(
                  "tr",
                  {},
                  ["recipe", "year", "data", ...own[0].columns, "published", "parameters", "updates"].map((name) =>
                    element("th", { scope: "col" }, name),
                  ),
                ),
              ),
              element(
                "tbody",
                {},
                own.map((line) =>
                  element(
                    "tr",
                    { "data-line": line.name },
                    [line.name, line.year, line.data, ...line.ours, line.published, line.parameters, line.updates].map((cell) =>
                      element("td", {}, cell || "–"),
                    ),
                  ),
                ),
              ),
            ),
          ),
        );
      }),
    );
  }

  look();
  loadLedger();
  return {
    update() {
      if (document.activeElement !== filter) filter.value = context.state.filter ?? "";
      drawLedger();
      look();
    },
    destroy() {
      alive = false;
      clearTimeout(timer);
    },
  };
}

// Curves over updates, told apart by colour and by dashes; the last value stands beside the name.
function curvePicture(key, series) {
  const width = 420,
    height = 200,
    left = 48,
    right = 10,
    top = 10,
    floor = height - 24;
  const points = series.flatMap((each) => each.points),
    steps = points.map((point) => point[0]),
    values = points.map((point) => point[1]);
  const least = Math.min(...steps),
    most = Math.max(...steps),
    low = Math.min(...values),
    high = Math.max(...values);
  const x = (step) => left + ((step - least) / Math.max(1, most - least)) * (width - left - right),
    y = (value) => floor - ((value - low) / (high - low || 1)) * (floor - top);
  const picture = drawn("svg", {
    class: "picture",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${key}: ${series.map((each) => `${each.name} ${format(each.points.at(-1)[1])}`).join(", ")}`,
    style: { width: "100%", height: "auto" },
  });
  for (const value of [low, (low + high) / 2, high])
    picture.append(
      drawn("path", { class: "edge", d: `M${left} ${y(value)} H${width - right}` }),
      drawn("text", { class: "axis", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)),
    );
  for (const step of [least, most])
    picture.append(
      drawn(
        "text",
        { class: "axis", x: x(step), y: height - 6, "text-anchor": step === least ? "start" : "end" },
        `${step.toLocaleString("en")}${step === most ? " updates" : ""}`,
      ),
    );
  for (const each of series) {
    const path = each.points.map(([step, value], place) => `${place ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    picture.append(
      drawn("path", {
        d: path,
        fill: "none",
        "stroke-width": 2,
        "stroke-dasharray": DASHES[each.number % DASHES.length],
        style: { stroke: COLOURS[each.number % COLOURS.length] },
        "data-last": each.points.at(-1)[1],
      }),
    );
    if (each.points.length === 1)
      picture.append(
        drawn("circle", {
          cx: x(each.points[0][0]),
          cy: y(each.points[0][1]),
          r: 4,
          style: { fill: COLOURS[each.number % COLOURS.length] },
        }),
      );
  }
  const names = element(
    "p",
    { class: "small", style: { margin: "0" } },
    series.map((each) =>
      element(
        "span",
        { style: { color: COLOURS[each.number % COLOURS.length], marginRight: "1rem" } },
        `${DASHES[each.number % DASHES.length] ? "┄" : "━"} ${each.name} ${short(each.points.at(-1)[1])}`,
      ),
    ),
  );
  return element("div", {}, picture, names);
}

const short = (value) =>
  Math.abs(value) >= 1000
    ? value.toLocaleString("en", { maximumFractionDigits: 0 })
    : Math.abs(value) >= 0.01 || value === 0
      ? String(Number(value.toPrecision(3)))
      : value.toExponential(1);
