// Makes elements. Whatever a text holds, it becomes text: nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (["value", "checked", "selected", "disabled", "indeterminate"].includes(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

/** An element: `el("p", {class: "quiet", onclick: act}, "a text", another)`. */
export function el(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** Puts children into an element in place of what was there. */
export function show(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

let names = 0;

/** An id that no other element has. */
export const fresh = (word = "id") => `${word}-${++names}`;

/** A control with its label above it, and a sentence below it. */
export function field(label, control, hint) {
  control.id ||= fresh("field");
  const below = hint ? el("small", { id: `${control.id}-hint`, class: "quiet" }, hint) : null;
  if (below) control.setAttribute("aria-describedby", below.id);
  return el("div", { class: "field" }, el("label", { for: control.id }, label), control, below);
}

/** A choice of one: options are texts, or pairs of a value and what is shown. */
export function select(options, chosen, onchange) {
  const pairs = options.map((each) => (Array.isArray(each) ? each : [each, each]));
  const made = el("select", { onchange: (event) => onchange?.(event.target.value) }, pairs.map(([value, shown]) => el("option", { value }, shown)));
  if (chosen !== undefined && chosen !== null) made.value = chosen;
  return made;
}

/** A button. */
export const button = (text, onclick, properties) => el("button", { type: "button", onclick, ...properties }, text);

/** A switch that is on or off. */
export function check(label, checked, onchange) {
  const box = el("input", { type: "checkbox", checked, onchange: (event) => onchange?.(event.target.checked) });
  return el("label", { class: "check" }, box, " ", label);
}

/** A sentence about what went wrong, which a screen reader reads at once. */
export const mistake = (error) => el("p", { class: "mistake", role: "alert" }, error?.message ?? String(error));

/** A place for sentences that come later; a screen reader reads them when it is idle. */
export const live = (...children) => el("p", { class: "quiet", role: "status", "aria-live": "polite" }, ...children);

/** A table: columns are texts or {title, number}; rows hold texts, numbers or elements. */
export function table(caption, columns, rows) {
  const heads = columns.map((each) => (typeof each === "string" ? { title: each } : each));
  const cells = (row) => row.map((cell, n) => el(n === 0 && heads[0].head ? "th" : "td", { class: heads[n]?.number ? "number" : null, scope: n === 0 && heads[0].head ? "row" : null }, cell instanceof Node ? cell : String(cell ?? "")));
  // Whatever is wider than the screen scrolls by itself, with the keyboard too.
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, heads.map((each) => el("th", { scope: "col", class: each.number ? "number" : null }, each.title)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, cells(row))))));
}

/** Something to open and close. */
export const details = (summary, ...children) => el("details", {}, el("summary", {}, summary), ...children);

/** A file for the person to keep. */
export function save(name, text, type = "text/plain") {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = el("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A number as people read it in the language of the page. */
export const number = (value, digits = 0) => Number(value).toLocaleString(document.documentElement.lang, { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** A share as a percentage. */
export const percent = (share, digits = 1) => `${number(share * 100, digits)}%`;
