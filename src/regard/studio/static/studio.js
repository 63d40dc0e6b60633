// The shell of the studio: menu, addresses, theme, keyboard, announcements. Each view is a file of its own.
import { StudioError, fromFiles, live } from "./api.js";
import { element, errorBox, shade } from "./parts.js";

const TITLES = {
  home: "Home",
  translate: "Translate",
  look: "Look",
  read: "Read and remember",
  playground: "Playground",
  lecture: "Lecture",
  model: "Any model",
  runs: "Runs",
};
const KEYS = [
  ["?", "this help"],
  ["t", "light or dark"],
  ["1 … 9", "a view of the menu"],
  ["/", "the first text field of the page"],
  ["Esc", "close what is open, stop what runs"],
  ["Tab", "the next control"],
  ["Enter", "do it; in a text field: Ctrl or ⌘ with Enter"],
];
const content = document.getElementById("content"),
  menu = document.getElementById("menu"),
  keys = document.getElementById("keys");
const shared = { weightColour: shade, saveButtons: null }; // what views have in common; see loadShared
let about = { views: [] },
  api = live(),
  current = null,
  mounted = 0;

// ── the address ─────────────────────────────────────────────────────────────────────────────────────────────────────

function readAddress() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { name: /^[a-z]+$/.test(path) ? path : "home", state: Object.fromEntries(new URLSearchParams(query)) };
}

function addressOf(name, state) {
  const kept = Object.entries(state).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(kept.map(([key, value]) => [key, String(value)])).toString();
  return `#/${name}${query ? `?${query}` : ""}`;
}

function setState(name, patch, { replace = false } = {}) {
  const here = readAddress();
  if (here.name !== name) return;
  const address = addressOf(name, { ...here.state, ...patch });
  if (address === location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  tell(readAddress().state);
}

function tell(state) {
  if (!current?.view?.update) return;
  current.context.state = state;
  try {
    current.view.update(state);
  } catch (error) {
    fail(error);
  }
}

// ── views ───────────────────────────────────────────────────────────────────────────────────────────────────────────

async function open() {
  const { name, state } = readAddress();
  if (current && current.name === name) {
    tell(state);
    return;
  }
  const number = ++mounted;
  leave();
  for (const link of menu.querySelectorAll("a")) {
    if (link.dataset.view === name) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone the menu is longer than the page is wide
    } else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[name] ?? name} · regard studio`;
  if (!about.views.includes(name)) {
    content.replaceChildren(errorBox(new StudioError({ what: `this page has no view “${name}”`, cure: "choose one in the menu above" })));
    return;
  }
  content.replaceChildren(element("p", { class: "muted" }, "The view is loading …"));
  let view;
  try {
    view = await import(`./views/${name}.js`);
  } catch (error) {
    if (number === mounted) fail(error, `the view “${TITLES[name] ?? name}” could not be loaded`);
    return;
  }
  if (number !== mounted) return; // another one was chosen meanwhile
  const root = element("section", { class: `view view-${name}`, "aria-label": view.title ?? TITLES[name] });
  content.replaceChildren(root);
  const context = { state, setState: (patch, options) => setState(name, patch, options), api, theme, announce, about, ...shared };
  current = { name, context, view: null };
  try {
    current.view = view.mount(root, context);
  } catch (error) {
    fail(error);
  }
}

function leave() {
  try {
    current?.view?.destroy?.();
  } catch (error) {
    console.warn(error);
  }
  current = null;
}

function fail(error, what = "this view stopped working") {
  console.warn(error);
  const told = error instanceof StudioError ? error : new StudioError({ what, got: error.message, cure: "load the page again" });
  content.prepend(errorBox(told));
  announce(told.sentence);
}

// ── theme, announcements, keyboard ──────────────────────────────────────────────────────────────────────────────────

const dark = matchMedia("(prefers-color-scheme: dark)");
function theme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen || (dark.matches ? "dark" : "light");
}
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("regard-theme", name);
  } catch {
    /* a browser without storage forgets it */
  }
  tell(readAddress().state);
  document.dispatchEvent(new CustomEvent("themechange"));
  announce(`The page is ${name} now.`);
}
const announcer = document.getElementById("announcer");
function announce(text) {
  announcer.textContent = "";
  requestAnimationFrame(() => {
    announcer.textContent = text;
  });
}

function toggleHelp() {
  if (keys.open) keys.close();
  else keys.showModal();
}

function onKey(event) {
  const inField = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.ctrlKey || event.metaKey || event.altKey || (inField && event.key !== "Escape")) return;
  if (event.key === "?") {
    event.preventDefault();
    toggleHelp();
  } else if (event.key === "t") setTheme(theme() === "dark" ? "light" : "dark");
  else if (event.key === "/") {
    const field = content.querySelector("textarea, input[type=text], input:not([type])");
    if (field) {
      event.preventDefault();
      field.focus();
    }
  } else if (/^[1-9]$/.test(event.key)) {
    const link = menu.querySelectorAll("a")[Number(event.key) - 1];
    if (link) location.hash = link.hash;
  }
}

// ── start ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function forgetToken() {
  // it is in a cookie now; an address that is shared shows nothing of it
  const address = new URL(location.href);
  if (address.searchParams.has("token")) {
    address.searchParams.delete("token");
    history.replaceState(null, "", address.pathname + address.search + address.hash);
  }
}

async function loadShared() {
  try {
    if (about.files.includes("colours.js")) shared.weightColour = (await import("./colours.js")).weightColour;
    if (about.files.includes("save.js")) shared.saveButtons = (await import("./save.js")).saveButtons;
  } catch (error) {
    console.warn(error);
  } // colours of our own, and nothing can be saved
}

async function start() {
  forgetToken();
  try {
    const kept = localStorage.getItem("regard-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    /* as above */
  }
  document.getElementById("theme").addEventListener("click", () => setTheme(theme() === "dark" ? "light" : "dark"));
  document.getElementById("help").addEventListener("click", toggleHelp);
  document.getElementById("keys-close").addEventListener("click", () => keys.close());
  document
    .getElementById("keys-list")
    .replaceChildren(...KEYS.flatMap(([key, what]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)]));
  addEventListener("keydown", onKey);
  addEventListener("hashchange", open);
  addEventListener("popstate", () => {
    if (current && readAddress().name === current.name) tell(readAddress().state);
  });
  dark.addEventListener("change", () => tell(readAddress().state));
  try {
    about = document.documentElement.dataset.export
      ? await fetch("answers/index.json").then((answer) => answer.json())
      : await api.get("api/studio");
    if (about.static) api = fromFiles(about);
  } catch (error) {
    content.replaceChildren(errorBox(error));
    return;
  }
  await loadShared();
  menu.replaceChildren(...about.views.map((name) => element("a", { href: `#/${name}`, "data-view": name }, TITLES[name] ?? name)));
  open();
}
start();
