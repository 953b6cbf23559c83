// The page: which views there are, which one is shown, in which language and which colours.
//
// A view is added so:
//   1. views/NAME.js: a custom element, exported as default: `export default class extends HTMLElement`
//      with connectedCallback() (and disconnectedCallback(), if something goes on until then). Before
//      it is shown it is given
//        this.t        (key, values) => its string in the language of the page
//        this.place    what follows #/NAME/ in the address, decoded, as a list
//        this.offered  what the server offers: {paths: Set, abilities: Set, models: […], version}
//        this.state    an object of its own that outlives it: what was typed, what was chosen
//        this.go(...)  changes the address: this.go("runs", "a run") opens #/runs/a%20run
//      It is made when it is first opened; an address with another place makes a new one, unless it
//      has a method moved(place), which is then called, perhaps before connectedCallback has ended.
//   2. strings/NAME.js: `export const en = {…}, zh = {…}`; a value is a text with {holes}, or a
//      function of the values. `title` heads the view, `about` says in a sentence what it is for.
//   3. a line in VIEWS: its name, and whether the server offers what it needs. Its name in the
//      navigation stands in strings/app.js under view_NAME.

import { ask, told } from "./api.js";
import { button, el, field, mistake, select, show } from "./elements.js";
import * as words from "./strings/app.js";

const VIEWS = [
  ["try", (offered) => offered.models.length > 0],
  ["look", (offered) => offered.paths.has("/v1/look/attention")],
  ["compare", (offered) => offered.models.length > 1],
  ["runs", (offered) => offered.paths.has("/v1/runs")],
  ["data", (offered) => offered.paths.has("/v1/corpora")],
  ["server", (offered) => offered.paths.has("/v1/server")],
  ["tour", (offered) => offered.abilities.has("fill")],
];
const LANGUAGES = ["en", "zh"];
const COLORS = ["auto", "light", "dark"];

const states = new Map();
const kept = (name, otherwise) => {
  try {
    return localStorage.getItem(`clozeworks.${name}`) ?? otherwise;
  } catch {
    return otherwise;
  }
};
const keep = (name, value) => {
  try {
    localStorage.setItem(`clozeworks.${name}`, value);
  } catch {
    // Nothing is kept where the browser forbids it.
  }
};

let language = kept("language", navigator.languages.some((each) => each.startsWith("zh")) && navigator.language.startsWith("zh") ? "zh" : "en");
let colors = kept("colors", "auto");
let offered = null;
let shown = null; // the name of the view and its element
let asked = 0;

const say = (strings) => (key, values = {}) => {
  const found = strings[language]?.[key] ?? strings.en?.[key] ?? key;
  if (typeof found === "object") return found;
  return typeof found === "function" ? found(values) : found.replace(/\{(\w+)\}/g, (hole, name) => values[name] ?? hole);
};
const t = say(words);

const main = el("main", { id: "main", tabindex: -1, "aria-busy": "true" });
const head = el("header", {});
const notice = el("div", { role: "status", "aria-live": "polite", class: "notice", hidden: true });

function place() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  const decoded = rest.map((each) => {
    try {
      return decodeURIComponent(each);
    } catch {
      return each;
    }
  });
  return [name ?? "", decoded];
}

const address = (name, ...rest) => `#/${[name, ...rest].map(encodeURIComponent).join("/")}`;

function drawHead() {
  const [name] = place();
  const views = VIEWS.filter(there);
  const links = views.map(([each]) => el("a", { href: address(each), "aria-current": each === (shown?.name ?? name) ? "page" : null }, t(`view_${each}`)));
  show(head,
    el("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, t("skip")),
    el("a", { class: "brand", href: "#/" }, el("img", { src: "page/icon.svg", alt: "", width: 20, height: 20 }), "Clozeworks"),
    el("nav", { "aria-label": t("views") }, links),
    el("div", { class: "settings" },
      select(LANGUAGES.map((each) => [each, words[each].language]), language, (chosen) => { language = chosen; keep("language", chosen); restyle(); open(true); }),
      select(COLORS.map((each) => [each, t(`colors_${each}`)]), colors, (chosen) => { colors = chosen; keep("colors", chosen); restyle(); })));
  const [ofLanguage, ofColors] = head.querySelectorAll("select");
  ofLanguage.setAttribute("aria-label", t("language_label"));
  ofColors.setAttribute("aria-label", t("colors_label"));
}

function restyle() {
  document.documentElement.lang = language;
  document.documentElement.dataset.colors = colors;
}

/** Whether a view is part of this page, and the server has what it shows. */
const there = ([name, has]) => offered?.views.includes(name) && has(offered);

async function open(again = false) {
  const mine = ++asked;
  const current = () => mine === asked;
  let [name, rest] = place();
  const views = VIEWS.filter(there);
  if (!name) name = views[0]?.[0] ?? "";
  if (!again && shown?.name === name && shown.element.moved) {
    shown.element.place = rest;
    shown.element.moved(rest);
    return;
  }
  main.setAttribute("aria-busy", "true");
  const before = shown?.name;
  const focus = again ? document.activeElement?.getAttribute("aria-label") : null;
  let content;
  try {
    if (!views.some(([each]) => each === name)) throw new Error(name ? t("no_view", { name }) : t("no_models"));
    const [made, strings] = await Promise.all([import(`./views/${name}.js`), import(`./strings/${name}.js`)]);
    if (!current()) return;
    if (!customElements.get(`view-${name}`)) customElements.define(`view-${name}`, made.default);
    if (!states.has(name)) states.set(name, {});
    content = document.createElement(`view-${name}`);
    const own = say(strings);
    Object.assign(content, { t: own, place: rest, offered, state: states.get(name), language, go: (...parts) => { location.hash = address(...parts); } });
    show(main, el("h1", {}, own("title")), el("p", { class: "about" }, own("about")), content);
    shown = { name, element: content };
    document.title = `${own("title")} · Clozeworks`;
  } catch (error) {
    if (!current()) return;
    shown = null;
    show(main, el("h1", {}, "Clozeworks"), mistake(error));
  }
  drawHead();
  main.removeAttribute("aria-busy");
  if (focus) head.querySelector(`[aria-label="${CSS.escape(t(focus === words.en.colors_label || focus === words.zh.colors_label ? "colors_label" : "language_label"))}"]`)?.focus();
  else if (before !== undefined && before !== name) main.focus({ preventScroll: true });
}

// What happens while the server is asked.

told.sentence = (name) => t(`said_${name}`);
told.away = () => {
  show(notice, t("away"));
  notice.hidden = false;
};
told.back = async () => {
  notice.hidden = true;
  await load().catch(() => {});
  drawHead();
  document.dispatchEvent(new CustomEvent("clozeworks:back"));
};
let keyAsked = null;
told.key = () => {
  keyAsked ??= new Promise((done) => {
    const input = el("input", { type: "password", autocomplete: "off", required: true });
    const box = el("dialog", { class: "card", "aria-label": t("key_needed") },
      el("form", { method: "dialog" }, field(t("key_label"), input, t("key_hint")), el("p", {}, button(t("key_send"), () => box.close(input.value), { class: "main", type: "submit" }))));
    box.addEventListener("close", () => {
      box.remove();
      keyAsked = null;
      done(box.returnValue || null); // none if it was closed with Escape
    });
    document.body.append(box);
    box.showModal();
  });
  return keyAsked;
};

async function load() {
  const found = await ask("v1/page");
  offered = { ...found, paths: new Set(found.paths), abilities: new Set(found.abilities) };
}

async function begin() {
  document.body.replaceChildren(head, notice, main);
  restyle();
  try {
    await load();
  } catch (error) {
    drawHead();
    main.removeAttribute("aria-busy");
    show(main, el("h1", {}, "Clozeworks"), mistake(error), button(t("again"), begin, { class: "main" }));
    return;
  }
  await open();
}

addEventListener("hashchange", () => offered && open());
await begin();
