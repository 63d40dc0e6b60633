// Equations: a small part of TeX becomes MathML, which browsers draw by themselves.
// math("w_{ij} = \\frac{\\exp e_{ij}}{\\sum_j \\exp e_{ij}}") gives a <math> element.

const SPACE = "http://www.w3.org/1998/Math/MathML";
const SIGNS = {
  alpha: "α",
  beta: "β",
  gamma: "γ",
  lambda: "λ",
  mu: "μ",
  pi: "π",
  rho: "ρ",
  sigma: "σ",
  tau: "τ",
  theta: "θ",
  phi: "φ",
  epsilon: "ε",
};
const OPERATORS = {
  cdot: "·",
  times: "×",
  top: "⊤",
  to: "→",
  in: "∈",
  le: "≤",
  ge: "≥",
  ne: "≠",
  approx: "≈",
  sim: "∼",
  infty: "∞",
  circ: "∘",
  ldots: "…",
  sum: "∑",
  prod: "∏",
  lvert: "|",
  rvert: "|",
  lVert: "‖",
  rVert: "‖",
  mid: "|",
  propto: "∝",
  odot: "⊙",
  partial: "∂",
  nabla: "∇",
  prime: "′",
};
const NAMES = new Set([
  "exp",
  "log",
  "tanh",
  "softmax",
  "max",
  "min",
  "argmax",
  "sin",
  "cos",
  "cosine",
  "ReLU",
  "LeakyReLU",
  "softplus",
  "MLP",
]);
const ACCENTS = { bar: "¯", tilde: "˜", hat: "^", vec: "→" };

function element(name, ...children) {
  const node = document.createElementNS(SPACE, name);
  node.append(...children);
  return node;
}

/** Spaces count inside of \text{…} alone. */
function tokens(source) {
  const kept = source.replace(/\\(text|mathrm|mathbf)\{([^}]*)\}/g, (_, name, words) => `\\${name}{${words.replaceAll(" ", "\\ ")}}`);
  return kept.match(/\\[A-Za-z]+|\\[,;!|{} ]|[0-9]+(?:[.][0-9]+)*|./gu).filter((token) => token.trim() || token === "\\ ");
}

class Reader {
  constructor(source) {
    this.tokens = tokens(source);
    this.place = 0;
  }

  get next() {
    return this.tokens[this.place];
  }

  take() {
    const token = this.tokens[this.place];
    this.place += 1;
    return token;
  }

  group() {
    if (this.next !== "{") return this.atom();
    this.take();
    const row = this.row("}");
    if (this.take() !== "}") throw new Error("} is missing in an equation");
    return row;
  }

  row(end) {
    const items = [];
    while (this.next !== undefined && this.next !== end) items.push(this.scripted());
    return items.length === 1 ? items[0] : element("mrow", ...items);
  }

  scripted() {
    const base = this.atom();
    let below;
    let above;
    while (this.next === "_" || this.next === "^") {
      if (this.take() === "_") below = this.group();
      else above = this.group();
    }
    const limits = base.textContent === "∑" || base.textContent === "∏" || ["max", "min", "argmax"].includes(base.textContent);
    if (below && above) return element(limits ? "munderover" : "msubsup", base, below, above);
    if (below) return element(limits ? "munder" : "msub", base, below);
    return above ? element("msup", base, above) : base;
  }

  atom() {
    const token = this.take();
    if (token === undefined) throw new Error("an equation ends too early");
    if (token === "{") {
      this.place -= 1;
      return this.group();
    }
    if (token.startsWith("\\")) return this.command(token.slice(1));
    if (/^[0-9]/.test(token)) return element("mn", token);
    if (/^[\p{L}]/u.test(token)) return element("mi", token);
    const sign = element("mo", token === "-" ? "−" : token);
    if (token === "-" && this.opens(this.tokens[this.place - 2])) sign.setAttribute("form", "prefix");
    if ("()[]|".includes(token)) sign.setAttribute("stretchy", "false");
    return sign;
  }

  /** Whether a minus after this token is that of a number, and stands close to it. */
  opens(token) {
    return token === undefined || "([{=+-·,|/^_".includes(token) || ["\\cdot", "\\to", "\\le", "\\quad", "\\times"].includes(token);
  }

  command(name) {
    if (name in SIGNS) return element("mi", SIGNS[name]);
    if (name === "top") return element("mi", "⊤");
    if (name in OPERATORS) {
      const sign = this.operator(OPERATORS[name]);
      if (/^[lr][vV]ert$/.test(name)) sign.setAttribute("form", name.startsWith("l") ? "prefix" : "postfix");
      return sign;
    }
    if (NAMES.has(name)) {
      const word = element("mi", name);
      if (this.next === undefined || "(_^,})".includes(this.next)) return word;
      const space = element("mspace");
      space.setAttribute("width", "0.17em");
      return element("mrow", word, space);
    }
    if (name in ACCENTS) {
      const over = element("mover", this.group(), element("mo", ACCENTS[name]));
      over.setAttribute("accent", "true");
      return over;
    }
    if (name === "frac") return element("mfrac", this.group(), this.group());
    if (name === "sqrt") return element("msqrt", this.group());
    if (name === "text" || name === "mathrm") return element(name === "text" ? "mtext" : "mi", this.words());
    if (name === "mathbf") {
      const bold = element("mi", this.words());
      bold.setAttribute("class", "bold");
      return bold;
    }
    if ([",", ";", " ", "quad", "!"].includes(name)) {
      const space = element("mspace");
      space.setAttribute("width", name === "quad" ? "1.2em" : name === "!" ? "0" : "0.25em");
      return space;
    }
    if ("{}|".includes(name)) return this.operator(name === "|" ? "‖" : name);
    throw new Error(`unknown command \\${name} in an equation`);
  }

  operator(sign) {
    const node = element("mo", sign);
    if ("|‖".includes(sign)) node.setAttribute("stretchy", "false");
    return node;
  }

  words() {
    let depth = 0;
    let text = "";
    do {
      const token = this.take();
      if (token === undefined) throw new Error("} is missing in an equation");
      if (token === "{") depth += 1;
      if (token === "}") depth -= 1;
      if (token !== "{" && token !== "}") text += token === "\\ " ? " " : token;
    } while (depth > 0);
    return text;
  }
}

/** A line of TeX as MathML; `block` puts it in the middle of a line of its own. */
export function math(source, { block = true } = {}) {
  const reader = new Reader(source);
  const row = reader.row();
  const root = element("math", row);
  if (block) root.setAttribute("display", "block");
  else root.setAttribute("displaystyle", "true");
  root.setAttribute("data-tex", source);
  return root;
}
