// A whole file: its rows are answered one after the other, and kept by the person.

import { worded } from "../asking.js";
import { barList } from "../charts.js";
import { button, el, field, live, mistake, number, save, select, show, table } from "../elements.js";
import { answerRows, asked, csv, guessed, inputsOf, questionOf, readRows } from "../rows.js";

const SHOWN = 100;

/** Lets files be dropped anywhere on an element: read(file) is called with each. */
export function droppable(element, read) {
  element.addEventListener("dragover", (event) => {
    event.preventDefault();
    element.classList.add("dropping");
  });
  element.addEventListener("dragleave", () => element.classList.remove("dropping"));
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    element.classList.remove("dropping");
    const [dropped] = event.dataTransfer.files;
    if (dropped) read(dropped);
  });
}

/** A place to choose a file or to drop one: calls take({name, columns, rows}). */
export function fileChooser(t, take) {
  const said = el("div", {});
  const input = el("input", { type: "file", accept: ".txt,.csv,.tsv,.jsonl,.ndjson", onchange: () => input.files[0] && read(input.files[0]) });
  async function read(file) {
    try {
      const found = await readRows(file);
      show(said, el("p", {}, t("file_read", { name: file.name, rows: number(found.rows.length), columns: found.columns.join(", ") })));
      take(found);
    } catch (error) {
      const known = ["file_large", "file_kind", "file_empty", "file_long"].includes(error.message);
      show(said, mistake(known ? t(error.message) : t("file_broken", { name: file.name, reason: error.message })));
    }
  }
  const element = el("div", {}, field(t("file_choose"), input, t("file_hint")), said);
  element.read = read;
  return element;
}

/** Fields that say which column each input is read from: {element, chosen}. */
export function columnFields(t, inputs, found) {
  const chosen = guessed(inputs, found);
  const fields = inputs.map((input) => field(worded(t, input.name), select([...(input.required ? [] : [["", "–"]]), ...found.columns], chosen[input.name] ?? (input.required ? (chosen[input.name] = found.columns[0]) : ""), (column) => { chosen[input.name] = column || undefined; })));
  return { element: el("fieldset", {}, el("legend", {}, t("file_columns")), el("div", { class: "row" }, fields)), chosen };
}

export default function widget({ model, form, t }) {
  const place = el("div", {});
  const inputs = inputsOf(form);
  let going = null;

  function ready(found) {
    going?.abort();
    const columns = columnFields(t, inputs, found);
    const bar = el("progress", { max: found.rows.length, value: 0, "aria-label": t("file_progress") });
    const said = live();
    const body = el("div", {});
    const start = button(t("file_start"), () => run(), { class: "main" });
    const stop = button(t("stop"), () => going?.abort(), { disabled: true });
    show(place, columns.element, el("p", { class: "row" }, start, stop), bar, said, body);

    async function run() {
      const mine = going = new AbortController();
      const answers = new Array(found.rows.length).fill(null);
      let done = 0, failed = 0, drawn = 0;
      start.disabled = true;
      stop.disabled = false;
      const draw = (last) => {
        bar.value = done;
        if (!last && performance.now() - drawn < 300) return;
        drawn = performance.now();
        show(said, t("file_done", { done: number(done), all: number(found.rows.length) }), failed ? ` ${t("file_failed", { failed: number(failed) })}` : "");
      };
      try {
        await answerRows(found.rows.map((row) => asked(row, inputs, columns.chosen)), questionOf(model, form), (n, answer, error) => {
          answers[n] = answer ?? { error };
          done += 1;
          failed += answer ? 0 : 1;
          draw(false);
        }, mine.signal);
      } catch (error) {
        if (error.name !== "AbortError") show(body, mistake(error));
        else show(body, el("p", {}, t("stopped")));
      }
      if (going !== mine) return;
      going = null;
      start.disabled = false;
      stop.disabled = true;
      draw(true);
      results(body, found, answers, columns.chosen);
    }
  }

  function results(body, found, answers, chosen) {
    const answered = answers.map((answer, n) => [answer, n]).filter(([answer]) => answer);
    if (!answered.length) return;
    const counts = new Map();
    for (const [{ headline, error }] of answered) if (!error) counts.set(headline, (counts.get(headline) ?? 0) + 1);
    const most = [...counts].sort((one, other) => other[1] - one[1]);
    const first = chosen[inputs[0].name];
    const stem = found.name.replace(/\.\w+$/, "");
    const column = (name) => (found.columns.includes(name) ? `${name} (${model.name})` : name);
    const flat = answered.map(([answer, n]) => ({ ...found.rows[n], [column("prediction")]: answer.error ? "" : answer.headline, [column("score")]: answer.score ?? "", [column("error")]: answer.error ?? "" }));
    show(body, body.firstChild,
      most.length > 1 && most.length <= 20 && most.length < answered.length ? barList(most.map(([label, count]) => ({ label: label || "–", value: count, text: number(count) })), { most: most[0][1], label: t("file_counts") }) : null,
      el("p", { class: "row" },
        button(t("save_csv"), () => save(`${stem}.answers.csv`, csv([...found.columns, column("prediction"), column("score"), column("error")], flat), "text/csv")),
        button(t("save_jsonl"), () => save(`${stem}.answers.jsonl`, answered.map(([answer, n]) => JSON.stringify({ ...found.rows[n], ...(answer.error ? { error: answer.error } : { answer: answer.output }) }) + "\n").join(""), "application/jsonl"))),
      table(t("file_answers"), [{ title: t("file_row"), number: true }, worded(t, inputs[0].name), t("prediction"), { title: t("score"), number: true }],
        answered.slice(0, SHOWN).map(([answer, n]) => [number(n + 1), clipped(found.rows[n][first]), answer.error ? el("span", { class: "bad" }, answer.error) : answer.headline, answer.score === null || answer.score === undefined ? "" : number(answer.score, 3)])),
      answered.length > SHOWN ? el("p", { class: "quiet" }, t("file_more", { count: number(answered.length - SHOWN) })) : null);
  }

  const chooser = fileChooser(t, ready);
  const element = el("section", { class: "card" }, el("h2", {}, t("file_title")), el("p", { class: "quiet" }, t("file_about")), chooser, place);
  element.read = chooser.read;
  element.stop = () => going?.abort();
  return element;
}

/** The beginning of a text, for a cell of a table. */
export const clipped = (text, most = 120) => {
  const points = Array.from(String(text ?? ""));
  return points.length > most ? `${points.slice(0, most).join("")}…` : points.join("");
};
