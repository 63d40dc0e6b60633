// Translate: words appear as they are decoded, with where the model looked; another word can be put in the place of each.
import { check, choice, element, errorBox, field } from "../parts.js";
import { barPicture } from "../matrix.js";
import { Side } from "../translation.js";

export const title = "Translate";
const PICTURES = [
  ["matrix", "Matrix"],
  ["ribbons", "Ribbons"],
  ["tree", "Beam tree"],
];
const PAUSE = 350; // milliseconds without a key before what was typed is translated

export function mount(root, context) {
  const { setState, announce } = context;
  let models = [],
    sides = [],
    timer = null,
    alive = true,
    chips = [];
  const maxlength = context.about.limits?.characters ?? 2000;
  const placeholder = "Type a sentence, then press Ctrl or ⌘ with Enter";
  const text = element("textarea", { rows: 2, id: "source", lang: "en", spellcheck: "false", maxlength, placeholder });
  const settings = element("div", { class: "bar settings" }),
    examples = element("div", { class: "chips" }),
    place = element("div", { class: "sides" }),
    bleu = element("div", {});
  const start = element("button", { type: "button", class: "primary", onclick: () => run() }, "Translate");
  root.append(
    element("h1", {}, "Translate"),
    element("div", { class: "panel" }, field("Sentence", text), element("div", { class: "asked" }, start, examples)),
    settings,
    place,
    bleu,
  );

  text.addEventListener("input", () => {
    clearTimeout(timer);
    if (!context.about.static) timer = setTimeout(() => change({ text: text.value, prefix: undefined, prefix2: undefined }), PAUSE);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  });
  const onKey = (event) => {
    if (event.key === "Escape") for (const side of sides) side.stop();
  };
  addEventListener("keydown", onKey);

  function run() {
    clearTimeout(timer);
    if (text.value === (context.state.text ?? "")) for (const side of sides) side.run(true);
    else change({ text: text.value, prefix: undefined, prefix2: undefined });
  }
  function change(patch, options) {
    setState(patch, options);
  }

  const beams = () => String(Math.min(16, Math.max(1, Number(context.state.beams) || 5)));
  const translators = () => models.filter((model) => model.verb === "translate" && !model.error);
  const nameOf = (key, fallback) => (translators().some((model) => model.name === context.state[key]) ? context.state[key] : fallback);

  function drawSettings() {
    const names = translators().map(({ name, has_attention: attends }) => [name, attends ? name : `${name} (without attention)`]);
    settings.replaceChildren(
      choice("Model", names, nameOf("model", names[0]?.[0]), (model) => change({ model, prefix: undefined })),
      choice("Beside it", [["", "nothing"], ...names], nameOf("other", ""), (other) =>
        change({ other: other || undefined, prefix2: undefined }),
      ),
      choice(
        "Beams",
        ["1", "2", "3", "5", "8", "12"].map((count) => [count, count === "1" ? "1 (greedy)" : count]),
        beams(),
        (count) => change({ beams: count, prefix: context.state.prefix }),
      ),
      element(
        "div",
        { role: "group", "aria-label": "Picture" },
        PICTURES.map(([key, label]) =>
          element(
            "button",
            {
              type: "button",
              "data-picture": key,
              "aria-pressed": String((context.state.picture ?? "matrix") === key),
              onclick: () => change({ picture: key }),
            },
            label,
          ),
        ),
      ),
      check("Whole words", context.state.pieces !== "1", (on) => change({ pieces: on ? undefined : "1" })),
      check("Special tokens", context.state.specials === "1", (on) => change({ specials: on ? "1" : undefined })),
    );
  }

  function drawSides() {
    const names = [nameOf("model", translators()[0]?.name), nameOf("other", "")].filter(Boolean);
    if (sides.map((side) => side.name).join("\n") !== names.join("\n")) {
      for (const side of sides) side.stop();
      sides = names.map(
        (name, number) =>
          new Side(
            name,
            number,
            context,
            models.find((model) => model.name === name),
          ),
      );
      place.replaceChildren(...sides.map((side) => side.root));
      drawBleu(names);
    }
    place.classList.toggle("two", sides.length > 1);
    for (const side of sides) {
      side.run();
      side.draw();
    }
  }

  async function drawBleu(names) {
    bleu.replaceChildren();
    const series = [];
    try {
      const { runs } = await context.api.get("api/runs");
      for (const name of names) {
        if (!runs.some((run) => run.name === name)) continue;
        const results = Object.values((await context.api.get(`api/runs/${encodeURIComponent(name)}`)).results).find(
          (result) => result.lengths,
        );
        if (results) series.push({ name, lengths: results.lengths, how: results.how });
      }
    } catch {
      return;
    } // without results there is nothing to draw
    if (!alive || !series.length) return;
    const label = (each) => (each.high ? `${each.low}–${each.high}` : `${each.low}+`),
      groups = series[0].lengths.map(label),
      colours = ["var(--accent)", "var(--second)"];
    bleu.replaceChildren(
      element(
        "div",
        { class: "panel scroll" },
        element("h2", {}, "BLEU by the length of the source"),
        element(
          "p",
          { class: "muted small" },
          series.map((each, number) =>
            element(
              "span",
              { style: { color: colours[number], marginRight: "1rem" } },
              `■ ${each.name}${each.how ? ` (${each.how})` : ""}`,
            ),
          ),
        ),
        barPicture({
          groups,
          colours,
          series: series.map((each) => ({
            name: each.name,
            values: groups.map((group) => each.lengths.find((one) => label(one) === group)?.bleu ?? null),
          })),
        }),
      ),
    );
  }

  async function load() {
    settings.replaceChildren(element("p", { class: "muted", role: "status" }, "The models are being looked up …"));
    try {
      models = (await context.api.get("api/models")).models;
    } catch (error) {
      settings.replaceChildren(errorBox(error));
      return;
    }
    if (!alive) return;
    if (!translators().length) {
      settings.replaceChildren(element("p", {}, "There is no translator here. Start the studio with one: regard studio tatoeba-en-fr"));
      return;
    }
    update();
    const name = nameOf("model", translators()[0].name);
    try {
      chips = (await context.api.get(`api/examples?model=${encodeURIComponent(name)}`)).examples.filter((example) => example.text);
      if (alive)
        examples.replaceChildren(
          element("span", { class: "muted small" }, "or try one of these:"),
          ...chips.map((example) =>
            element(
              "button",
              {
                type: "button",
                onclick: () => {
                  text.value = example.text;
                  run();
                },
              },
              example.text,
            ),
          ),
        );
    } catch {
      /* a sentence can be typed without examples */
    }
  }

  function update() {
    if (document.activeElement !== text || !text.value) text.value = context.state.text ?? "";
    if (!models.length) return;
    drawSettings();
    drawSides();
  }
  text.value = context.state.text ?? "";
  load();
  announce("Translate: type a sentence.");
  return {
    update,
    destroy() {
      alive = false;
      clearTimeout(timer);
      removeEventListener("keydown", onKey);
      for (const side of sides) side.stop();
    },
  };
}
