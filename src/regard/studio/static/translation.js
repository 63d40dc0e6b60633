// One model of the translate view: its translation, its picture, and what else it might have said.
import { choice, element, errorBox, format, percent, shownToken, weightsOfWords, wordsOf } from "./parts.js";
import { cleanness, headSquares, matrixPicture, ribbonPicture, treePicture } from "./matrix.js";

const HINT = "Point at a word, or tap it, to see where the model looked. A click also shows what else it might have said.";
const spoken = (key) => key.replace("/", ", head "); // "decoder.1.cross/3"

export class Side {
  constructor(name, number, context, line) {
    Object.assign(this, {
      name,
      number,
      context,
      line,
      asked: null,
      result: null,
      layers: null,
      steps: [],
      source: [],
      partial: null,
      open: null,
    });
    this.prefixKey = number ? "prefix2" : "prefix";
    this.target = element("div", { class: "target", "aria-label": `Translation by ${name}`, role: "group" });
    this.others = element("div", {});
    this.note = element("p", { class: "muted small" });
    this.picture = element("div", { class: "scroll" });
    this.readout = element("p", { class: "readout", "aria-live": "off" });
    this.controls = element("div", { class: "bar" });
    this.heads = element("div", {});
    this.saving = element("div", {});
    const seen = element("div", { class: "seen" }, element("div", {}, this.controls, this.picture, this.saving), this.heads);
    this.root = element(
      "section",
      { class: "panel", "aria-label": name, "data-model": name },
      element("h2", {}, name),
      this.target,
      this.readout,
      this.others,
      this.note,
      seen,
    );
  }

  get prefix() {
    return (this.context.state[this.prefixKey] ?? "")
      .split(",")
      .filter((each) => /^\d+$/.test(each))
      .map(Number);
  }
  get beams() {
    return Math.min(16, Math.max(1, Number(this.context.state.beams) || 5));
  }

  stop() {
    this.abort?.abort();
    this.abort = null;
  }

  async run(again = false) {
    const text = (this.context.state.text ?? "").trim(),
      wanted = JSON.stringify([text, this.prefix, this.beams]);
    if (!again && wanted === this.asked) return;
    this.stop();
    this.asked = wanted;
    Object.assign(this, { result: null, layers: null, steps: [], partial: null, open: null, failed: null, source: [] });
    this.others.replaceChildren();
    this.note.textContent = "";
    if (!text) {
      this.draw();
      return;
    }
    const abort = new AbortController();
    this.abort = abort;
    try {
      await this.context.api.stream(
        "api/translate",
        { model: this.name, text, prefix: this.prefix, settings: { beams: this.beams, nbest: this.beams } },
        (event) => {
          if (this.abort === abort) this.hear(event);
        },
        { signal: abort.signal },
      );
      if (this.abort !== abort) return;
      this.abort = null;
      if (this.result?.explanations.length) await this.loadLayers(wanted);
    } catch (error) {
      if (this.asked !== wanted) return;
      this.abort = null;
      this.failed = error.name === "AbortError" ? null : error;
      if (error.name === "AbortError") this.note.textContent = "Stopped.";
      this.draw();
    }
  }

  hear(event) {
    if (event.kind === "queue" && event.queue > 0) this.note.textContent = `${event.queue} requests are before this one.`;
    else if (event.kind === "start") {
      this.source = event.source_tokens;
      this.specials = new Set(event.specials);
      this.note.textContent = "";
    } else if (event.kind === "token" || event.kind === "beam") {
      this.partial = event;
      if (event.kind === "beam") this.steps.push(event);
      this.drawTarget();
    } else if (event.kind === "done") {
      this.result = event.prediction;
      this.alternatives = event.alternatives;
      this.hypotheses = event.others;
      this.partial = null;
      this.context.announce(`${this.name}: ${this.result?.text ?? "nothing"}`);
      this.draw();
    } else if (event.kind === "end")
      this.note.textContent = `Translated in ${format(event.seconds, 2)} s${event.queue ? `, after ${event.queue} other request${event.queue > 1 ? "s" : ""}` : ""}${this.result && !this.result.finished ? " · cut off: the model did not end the sentence" : ""}`;
  }

  async loadLayers(wanted) {
    try {
      const text = this.context.state.text.trim();
      const { explanations } = await this.context.api.post("api/layers", { model: this.name, text, ids: this.result.ids });
      if (this.asked !== wanted) return;
      this.layers = explanations.map((each) => ({
        name: each.layer,
        heads: each.weights.shape.length === 3 ? each.weights.values : [each.weights.values],
      }));
      this.draw();
    } catch (error) {
      this.readout.textContent = error.message;
    }
  }

  // the layer and head of the address, as "own", "mean", "cleanest", "LAYER" or "LAYER/HEAD"
  get head() {
    return this.context.state.head ?? "own";
  }

  cleanest() {
    const kept = this.kept();
    let best = null;
    for (const layer of this.layers ?? [])
      layer.heads.forEach((weights, head) => {
        const clean = cleanness(kept(weights).weights);
        if (!best || clean > best.clean) best = { clean, key: `${layer.name}/${head}` };
      });
    this.clean = best?.clean; // how clean it is
    return best?.key;
  }

  chosen() {
    const own = this.result.explanations[0]?.weights.values;
    if (!this.layers?.length || this.head === "own") return own;
    const key = this.head === "cleanest" ? this.cleanest() : this.head;
    if (key === "mean") return mean(this.layers.flatMap((layer) => layer.heads));
    const layer = this.layers.find((each) => each.name === key.replace(/\/\d+$/, ""));
    if (!layer) return own;
    return key.includes("/") ? (layer.heads[Number(key.split("/").at(-1))] ?? own) : mean(layer.heads);
  }

  // how weights of tokens become what is shown: whole words or pieces, with or without special tokens
  kept() {
    const whole = this.context.state.pieces !== "1",
      specials = this.context.state.specials === "1";
    const single = (tokens) =>
      tokens.map((token, number) => ({ text: shownToken(token), numbers: [number], special: /^<.*>$/.test(token) }));
    const rows = whole ? wordsOf(this.result.tokens) : single(this.result.tokens);
    const columns = (whole ? wordsOf(this.result.source_tokens) : single(this.result.source_tokens)).filter(
      (word) => specials || !word.special,
    );
    return (weights) => ({ rows, columns, weights: weightsOfWords(weights, rows, columns) });
  }

  draw() {
    this.drawTarget();
    this.drawPicture();
  }

  drawTarget() {
    if (this.failed) {
      this.target.replaceChildren(errorBox(this.failed));
      return;
    }
    if (!this.result) {
      const words = this.partial
        ? [element("span", { class: "coming" }, this.partial.text), element("span", { class: "caret", "aria-hidden": "true" })]
        : this.abort
          ? [element("span", { class: "caret" })]
          : [element("span", { class: "muted" }, this.asked && JSON.parse(this.asked)[0] ? "…" : "The translation appears here.")];
      this.target.replaceChildren(...words);
      return;
    }
    const whole = this.context.state.pieces !== "1";
    const words = whole
      ? wordsOf(this.result.tokens)
      : this.result.tokens.map((token, number) => ({ text: shownToken(token), numbers: [number] }));
    const given = this.prefix.length;
    this.target.replaceChildren(
      ...words.map((word, number) =>
        element(
          "button",
          {
            type: "button",
            class: word.numbers[0] < given ? "given" : "",
            "data-word": number,
            "aria-pressed": String(this.open === word.numbers[0]),
            title: "Where the model looked, and what else it might have said",
            onclick: () => {
              this.open = this.open === word.numbers[0] ? null : word.numbers[0];
              this.drawTarget();
              this.drawAlternatives(word);
              this.point?.(this.open === null ? null : number);
            },
            onpointerenter: () => this.point?.(number),
            onpointerleave: () => this.point?.(null),
          },
          word.text,
        ),
      ),
    );
    if (this.open === null) this.others.replaceChildren();
  }

  drawAlternatives(word) {
    if (this.open === null) {
      this.others.replaceChildren();
      return;
    }
    const at = this.open,
      before = this.result.ids.slice(0, at),
      likely = this.alternatives[at] ?? [];
    const go = (ids) => {
      this.open = null;
      this.context.setState({ [this.prefixKey]: ids.join(",") || undefined });
    };
    const own = element("input", { type: "text", maxlength: 40, "aria-label": "Another word", placeholder: "another word" });
    const typed = async () => {
      if (own.value.trim()) await this.force(before, own.value.trim());
    };
    own.addEventListener("keydown", (event) => {
      if (event.key === "Enter") typed();
    });
    this.others.replaceChildren(
      element(
        "div",
        { class: "panel" },
        element("h3", {}, `In place of “${word.text}”`),
        element(
          "p",
          { class: "muted small" },
          "The model's own choices here, with their probability. Choose one: the translation goes on from there.",
        ),
        element(
          "div",
          { class: "chips" },
          likely.map((each) =>
            element(
              "button",
              {
                type: "button",
                "data-alternative": each.id,
                disabled: each.id < 3,
                "aria-pressed": String(each.id === this.result.ids[at]),
                onclick: () => go([...before, each.id]),
              },
              `${shownToken(each.token)} ${percent(Math.exp(each.log_prob))}`,
            ),
          ),
        ),
        element(
          "div",
          { class: "bar", style: { margin: ".7rem 0 0" } },
          own,
          element("button", { type: "button", onclick: typed }, "Go on from here"),
          this.prefix.length ? element("button", { type: "button", onclick: () => go([]) }, "Free again") : null,
        ),
      ),
    );
  }

  async force(before, word) {
    // a word in letters: the server knows its tokens
    const text = this.context.state.text.trim();
    try {
      let ids = null;
      await this.context.api.stream("api/translate", { model: this.name, text, prefix: before, word, settings: { beams: 1 } }, (event) => {
        if (event.kind === "done") ids = event.prediction.ids.slice(0, event.prefix);
      });
      this.open = null;
      this.context.setState({ [this.prefixKey]: ids.join(",") });
    } catch (error) {
      this.others.append(errorBox(error));
    }
  }

  drawPicture() {
    const { state, theme, weightColour, saveButtons } = this.context,
      picture = state.picture ?? "matrix";
    this.point = null;
    this.readout.textContent = "";
    this.saving.replaceChildren();
    this.controls.replaceChildren();
    this.heads.replaceChildren();
    if (!this.result) {
      this.picture.replaceChildren();
      return;
    }
    if (picture === "tree") {
      this.drawTree();
      return;
    }
    if (!this.result.explanations.length) {
      this.picture.replaceChildren(
        element(
          "p",
          { class: "muted" },
          this.result.tokens.length
            ? "This model has no attention: it has all of the sentence in one vector."
            : "The translation has no words.",
        ),
      );
      return;
    }
    const { rows, columns, weights } = this.kept()(this.chosen());
    const names = [rows, columns].map((words) => words.map((word) => word.text)),
      label = `Weights of ${names[0].length} words of the translation over ${names[1].length} words of the source`;
    const told = (point) => {
      const most = point.weight >= Math.max(...weights[point.row]) ? " most" : "";
      return `“${names[0][point.row]}” looked${most} at “${names[1][point.column]}”: ${format(point.weight)} of its weight.`;
    };
    const strongest = (row) => ({ row, column: weights[row].indexOf(Math.max(...weights[row])), weight: Math.max(...weights[row]) });
    const rest = () => {
      const open = rows.findIndex((word) => word.numbers[0] === this.open);
      return open < 0 ? HINT : told(strongest(open));
    };
    const onPoint = (point) => {
      this.readout.textContent = point ? told(point) : rest();
    };
    onPoint(null);
    const onRow = (row) => {
      this.open = rows[row].numbers[0];
      this.drawTarget();
      this.drawAlternatives(rows[row]);
      onPoint(strongest(row));
    };
    const made =
      picture === "ribbons"
        ? ribbonPicture({ weights, rows: names[0], columns: names[1], label, onPoint, onRow })
        : matrixPicture({ weights, rows: names[0], columns: names[1], theme: theme(), colour: weightColour, label, onPoint, onRow });
    this.point = (row) =>
      picture === "ribbons" ? made.point(row) : row === null ? made.point(null, null) : made.point(row, strongest(row).column);
    const legend =
      picture === "ribbons"
        ? "Above the source, below the translation. A ribbon is as wide as its weight."
        : `Rows: the translation. Columns: the source. ${theme() === "dark" ? "Bright" : "Dark"} is much weight; a row sums to 1 with <eos>.`;
    this.picture.replaceChildren(made.picture, element("p", { class: "muted small" }, legend));
    if (saveButtons)
      this.saving.replaceChildren(
        saveButtons(`translation-${this.name}`, { picture: () => made.picture, json: () => this.result.explanations[0] }),
      );
    if (this.layers?.length) this.drawHeads();
  }

  drawHeads() {
    const cleanest = this.cleanest(),
      several = this.layers.length > 1 || this.layers[0].heads.length > 1;
    if (!several) return;
    const own = this.result.explanations[0]?.layer || "as the model says";
    const [, layer, head] = /^(.+), head (\d+)/.exec(own) ?? []; // "decoder.1.cross, head 3: the best aligned"
    const aligned = layer ? `${layer}/${head}` : null;
    const options = [
      ["own", own],
      ["mean", "mean of all"],
      ["cleanest", `the cleanest: ${spoken(cleanest)}`],
    ];
    for (const layer of this.layers) {
      options.push([layer.name, `${layer.name}, mean`]);
      layer.heads.forEach((_, head) => options.push([`${layer.name}/${head}`, `${layer.name}, head ${head}`]));
    }
    const choose = (head) => this.context.setState({ head: head === "own" ? undefined : head });
    this.controls.replaceChildren(
      choice("Layer and head", options, options.some(([key]) => key === this.head) ? this.head : "own", choose),
    );
    const kept = this.kept(),
      layers = this.layers.map((layer) => ({ name: layer.name, heads: layer.heads.map((weights) => kept(weights).weights) }));
    this.heads.replaceChildren(
      element(
        "details",
        {
          open: this.opened ?? true,
          ontoggle: (event) => {
            this.opened = event.target.open;
          },
        },
        element("summary", {}, "All layers and heads"),
        element(
          "p",
          { class: "small" },
          "★ The cleanest head of this sentence is ",
          element(
            "button",
            { type: "button", class: "plain", "data-cleanest": cleanest, onclick: () => choose("cleanest") },
            spoken(cleanest),
          ),
          `: its rows put most of their weight on one word (${format(this.clean, 2)} in the mean). `,
          aligned ? `${spoken(aligned)} is shown first, since on many held-out sentences it is the best aligned.` : null,
        ),
        headSquares({
          layers,
          chosen: { own: aligned, cleanest }[this.head] ?? this.head,
          cleanest,
          theme: this.context.theme(),
          onChoose: choose,
        }),
      ),
    );
  }

  drawTree() {
    if (!this.steps.length) {
      this.picture.replaceChildren(
        element("p", { class: "muted" }, "A greedy search follows one prefix and has no tree: choose more beams."),
      );
      return;
    }
    const best = new Set(),
      ids = this.result.ids;
    let node = null;
    const byStep = this.steps.map((step) => step.prefixes);
    for (let step = 0, parent = 0; step < Math.min(ids.length, byStep.length); step++) {
      node = byStep[step].find((prefix) => prefix.parent === parent && prefix.id === ids[step]);
      if (!node) break;
      best.add(node.node);
      parent = node.node;
    }
    const rows = this.hypotheses.map((each, rank) =>
      element(
        "tr",
        {},
        element("td", { class: "number" }, String(rank + 1)),
        element("td", {}, each.text),
        element("td", { class: "number", "data-score": each.score }, format(each.score)),
        element("td", { class: "number" }, format(each.log_prob)),
        element("td", {}, each.finished ? "" : "cut off"),
      ),
    );
    this.picture.replaceChildren(
      treePicture({ steps: this.steps, best, word: shownToken }),
      element(
        "table",
        {},
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            ["", "translation", "score", "log-probability", ""].map((name) =>
              element("th", { scope: "col", class: /score|log/.test(name) ? "number" : null }, name),
            ),
          ),
        ),
        element("tbody", {}, rows),
      ),
    );
    this.picture.append(
      element(
        "p",
        { class: "muted small" },
        `${this.steps.length} steps; the strong path is the winner. The score is the log-probability divided by a penalty for length.`,
      ),
    );
  }
}

function mean(matrices) {
  const [first] = matrices;
  return first.map((row, r) => row.map((_, c) => matrices.reduce((total, each) => total + each[r][c], 0) / matrices.length));
}
