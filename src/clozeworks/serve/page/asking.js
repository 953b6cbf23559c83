// What views share that ask models: fields for whatever a model takes, and answers as people see them.

import { barList } from "./charts.js";
import { button, details, el, field, number, percent, show } from "./elements.js";

/** Characters as Python counts them: some take two places in a string of JavaScript. */
export const characters = (text) => Array.from(text);
const place = (text, at) => Array.from(text.slice(0, at)).length;

/** What the server calls things, in the language of the page where it has a word for it. */
export const worded = (t, text, otherwise = text) => t("words")[text] ?? otherwise;

/**
 * Fields for the inputs of a form: {element, read()}. `read` gives the inputs as the server takes
 * them, or throws a sentence. What is typed is kept in `values`.
 */
export function fieldsOf(form, t, values, example = {}) {
  const controls = new Map();
  const texts = form.inputs.filter((each) => each.kind === "text");
  const of = (input) => {
    const { name, kind, required } = input;
    values[name] ??= (kind === "text" && example[name]) || (required ? input.example : null) || "";
    const label = worded(t, name);
    if (kind === "span") return span(input, label);
    const control = el("textarea", { rows: kind === "text" ? rows(values[name]) : 1, value: values[name], class: kind === "text" ? null : "mono", spellcheck: "false", oninput: (event) => { values[name] = event.target.value; } });
    controls.set(name, control);
    return field(required ? label : `${label} (${t("optional")})`, control, kind === "json" ? t("json_hint") : null);
  };
  const rows = (text) => (texts.length === 1 ? 4 : Math.max(2, Math.min(8, Math.ceil(text.length / 80))));

  // A stretch of the text is chosen where the text stands: with the mouse, or with Shift and the arrow keys.
  function span({ name }, label) {
    const shown = el("output", { class: "mono" });
    const source = () => controls.get(texts[0].name);
    const write = () => show(shown, values[name] ? `“${characters(source().value).slice(...values[name]).join("")}” (${values[name].join("–")})` : t("span_none"));
    const take = () => {
      const { selectionStart: begin, selectionEnd: end, value } = source();
      values[name] = begin < end ? [place(value, begin), place(value, end)] : null;
      write();
    };
    if (!Array.isArray(values[name])) values[name] = null;
    queueMicrotask(write);
    return el("div", { class: "field" }, el("div", { class: "label" }, label), el("div", { class: "row" }, button(t("span_take", { name: label }), take, { class: "small" }), shown), el("small", { class: "quiet" }, t("span_hint")));
  }

  const needed = form.inputs.filter((each) => each.required || each.kind === "text").map(of);
  const more = form.inputs.filter((each) => !each.required && each.kind !== "text").map(of);
  const element = el("div", {}, needed, more.length ? details(t("more_fields"), more) : null);
  const read = () => {
    const found = {};
    for (const { name, kind, required } of form.inputs) {
      let value = values[name];
      if (kind === "json" && typeof value === "string" && value.trim()) {
        try {
          value = JSON.parse(value);
        } catch {
          // It is a text then.
        }
      }
      if (typeof value === "string" && !value.trim()) value = null;
      if (value !== null && value !== undefined) found[name] = value;
      else if (required) throw new Error(t("empty_field", { name: worded(t, name) }));
    }
    return found;
  };
  return { element, read };
}

/** Fields for the options of a form: {element, read()}; element is null if there are none. */
export function optionsOf(form, t, values) {
  const of = ({ name, help, type, enum: choices }) => {
    values[name] ??= "";
    const oninput = (event) => { values[name] = event.target.type === "checkbox" ? event.target.checked : event.target.value; };
    const control = choices
      ? el("select", { oninput }, ["", ...choices].map((each) => el("option", { value: each, selected: each === values[name] }, String(each) || "–")))
      : type === "boolean"
        ? el("input", { type: "checkbox", checked: values[name] === true, oninput })
        : el("input", { type: type === "integer" || type === "number" ? "number" : "text", step: type === "integer" ? 1 : "any", value: values[name], oninput });
    return field(worded(t, name), control, worded(t, `help ${name}`, help));
  };
  const read = () => {
    const found = {};
    for (const { name, type } of form.options) {
      const value = values[name];
      if (value === "" || value === null || value === undefined) continue;
      found[name] = type === "integer" || type === "number" ? Number(value) : value;
    }
    return found;
  };
  return { element: form.options.length ? details(t("options"), form.options.map(of)) : null, read };
}

/** A text with marks {begin, end, name} in it, which may overlap; the same name has the same colour. */
export function markedText(text, marks, { tall = false } = {}) {
  const points = characters(text);
  const names = [...new Set(marks.map((each) => each.name))].sort();
  const kind = (mark) => `k${(names.indexOf(mark.name) % 8) + 1}`;
  const cuts = [...new Set([0, points.length, ...marks.flatMap((each) => [each.begin, each.end])])].sort((one, other) => one - other);
  const found = [];
  for (let n = 0; n + 1 < cuts.length; n++) {
    const [begin, end] = [cuts[n], cuts[n + 1]];
    const inside = marks.filter((each) => each.begin <= begin && end <= each.end);
    const piece = points.slice(begin, end).join("");
    const ending = inside.filter((each) => each.end === end && each.name);
    const labels = ending.map((each) => el("span", { class: `label ${kind(each)}` }, each.name));
    found.push(inside.length ? el("mark", { class: kind(inside.at(-1)) }, piece, labels.length ? [" ", labels] : null) : piece);
  }
  const element = el("p", { class: tall ? "marked tall" : "marked", tabindex: tall ? 0 : null, role: tall ? "group" : null }, found);
  if (tall) queueMicrotask(() => {
    const first = element.querySelector("mark");
    if (first) element.scrollTop = first.offsetTop - element.offsetTop - element.clientHeight / 2;
  });
  return element;
}

/** A prediction about inputs as the task shows it: headline and score, marked text, candidates, lines. */
export function shownAnswer(shown, t, inputs) {
  // A text that was asked about and has no marks holds nothing; one that was written is the answer.
  const bare = shown.marked && !shown.headline && !shown.marked.marks.length;
  const empty = bare && (!shown.marked.text || Object.values(inputs).includes(shown.marked.text));
  const [best] = shown.scores;
  const repeated = shown.scores.length > 1 && best?.[0] === shown.headline;
  const most = Math.max(1, ...shown.scores.map(([, score]) => score));
  return el("div", { class: "answer" },
    shown.headline ? el("p", { class: "headline" }, el("strong", {}, shown.headline), shown.score === null || repeated ? null : el("span", { class: "quiet" }, ` ${number(shown.score, 3)}`)) : null,
    shown.marked?.text ? (shown.marked.marks.length || !shown.headline ? markedText(shown.marked.text, shown.marked.marks, { tall: !shown.whole && shown.marked.text.length > 600 }) : null) : null,
    empty ? el("p", { class: "quiet" }, t(shown.marked.text ? "nothing_marked" : "nothing_written")) : null,
    shown.scores.length > 1 ? barList(shown.scores.map(([label, value]) => ({ label, value, text: number(value, 3) })), { most, label: t("candidates") }) : null,
    shown.lines.map((each) => el("p", { class: "mono small" }, each)));
}

/** Runs something that a button asks for; the button is off and `result` is busy meanwhile. */
export async function busy(result, control, act, mistake) {
  result.setAttribute("aria-busy", "true");
  if (control) control.disabled = true;
  try {
    await act();
  } catch (error) {
    if (error.name !== "AbortError") show(result, mistake(error));
  } finally {
    result.removeAttribute("aria-busy");
    if (control) control.disabled = false;
  }
}

/** What was read for an answer, in a few words. */
export const usage = (answer, t) => el("p", { class: "quiet small" }, t("usage", { read: number(answer.usage.input_tokens), written: answer.usage.output_tokens ? number(answer.usage.output_tokens) : "" }));

/** A share as a percentage, exact enough for small ones. */
export const likely = (share) => (share >= 0.0995 ? percent(share, 0) : percent(share, share >= 0.001 ? 1 : 3));
