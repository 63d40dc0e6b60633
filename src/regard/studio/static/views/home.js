// The first page: what there is to see, and which models are here.
import { element, errorBox } from "../parts.js";

export const title = "Home";
const VIEWS = {
  translate: ["Translate", "Type a sentence: words appear as they are decoded, with where the model looked for each."],
  look: ["Look", "Drop a picture: captions word by word, glimpses step by step."],
  read: ["Read and remember", "Stories with hops, tapes, graphs, pixels, words in photographs."],
  playground: ["Playground", "Drag a query over keys and values: scores, weights and context move at once."],
  lecture: ["Lecture", "A guided path from “why attention” to memory and graphs, each step alive."],
  model: ["Any model", "A trace of any PyTorch model: all layers and heads, and every row of a matrix."],
  runs: ["Runs", "Curves of trainings as they go, results, and the ledger of all recipes."],
};

// Questions to begin with: where they are answered, and by which model, if it takes one.
const QUESTIONS = [
  ["Which English word did the model look at when it wrote “clés”?", "translate?text=I+lost+my+keys.", "tatoeba-en-fr"],
  ["What does the temperature of a softmax do?", "playground?preset=temperature", null],
  ["Where did a model look to read a digit, glimpse by glimpse?", "look?model=digits-in-clutter&example=3", "digits-in-clutter"],
  ["Why attention at all?", "lecture", null],
];

export function mount(root, { api, about }) {
  const models = element("div", {}, element("p", { class: "muted" }, "The models are being looked up …"));
  const questions = element("div", {});
  root.append(
    element("h1", {}, "What does the model look at?"),
    element("p", {}, "Attention gives each word of an answer a weight for each part of the question. Here you type, look and compare."),
    element(
      "ul",
      { class: "views" },
      about.views
        .filter((name) => VIEWS[name])
        .map((name) => element("li", {}, element("a", { href: `#/${name}` }, element("b", {}, VIEWS[name][0]), VIEWS[name][1]))),
    ),
    questions,
    element("h2", {}, "Models"),
    models,
  );
  let here = true;
  api
    .get("api/models")
    .then(({ models: lines }) => {
      if (!here) return;
      models.replaceChildren(list(lines, about));
      const known = lines.map((line) => line.name),
        asked = QUESTIONS.filter(([, , name]) => name === null || known.includes(name));
      questions.replaceChildren(
        element("h2", {}, "Questions to begin with"),
        element(
          "ul",
          {},
          asked.map(([text, place]) => element("li", {}, element("a", { href: `#/${place}` }, text))),
        ),
      );
    })
    .catch((error) => {
      if (here) models.replaceChildren(errorBox(error));
    });
  return {
    update() {},
    destroy() {
      here = false;
    },
  };
}

const PAGES = {
  translate: "translate",
  caption: "look",
  classify: "look",
  draw: "look",
  read: "read",
  find: "read",
  answer: "read",
  generate: "read",
  compute: "read",
  label: "read",
  recognise: "read",
};

function list(lines, about) {
  if (!lines.length) return element("p", {}, "There is no model here.");
  const rows = lines.map((line) => {
    let page = PAGES[line.verb];
    if (line.verb === "classify" && line.inputs === "text") page = "read";
    const link = page && about.views.includes(page) && !line.error;
    return element(
      "tr",
      {},
      element("td", {}, link ? element("a", { href: `#/${page}?model=${encodeURIComponent(line.name)}` }, line.name) : line.name),
      element("td", {}, line.error ?? `${line.verb} ${line.inputs}`),
      element("td", { class: "aside" }, line.paper ?? "–"),
      element("td", { class: "aside" }, line.data || "–"),
      element(
        "td",
        {},
        line.card ? element("details", {}, element("summary", {}, "card"), element("div", { class: "card" }, line.card)) : "–",
      ),
    );
  });
  return element(
    "div",
    { class: "panel scroll" },
    element(
      "table",
      {},
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          ["model", "what it does", "paper", "data", "card"].map((name) =>
            element("th", { scope: "col", class: name === "paper" || name === "data" ? "aside" : null }, name),
          ),
        ),
      ),
      element("tbody", {}, rows),
    ),
  );
}
