// Compare: two models on one input, and on a file: where they say something else.

import { ask } from "../api.js";
import { busy, fieldsOf, shownAnswer, worded } from "../asking.js";
import { barList, heatMap } from "../charts.js";
import { button, el, field, live, mistake, number, percent, save, select, show, table } from "../elements.js";
import { correlation, cosines } from "../numbers.js";
import { answerRows, asked, csv, inputsOf, questionOf } from "../rows.js";
import { clipped, columnFields, droppable, fileChooser } from "../widgets/file.js";

const KINDS = ["task", "gaps", "vectors", "likelihood"];
const SHOWN = 200;
const MOST_VECTORS = 1000;

export default class extends HTMLElement {
  async connectedCallback() {
    const { t } = this;
    try {
      this.models = (await ask("v1/abilities")).models.filter((each) => Object.values(each.forms).some((form) => KINDS.includes(form.kind)));
    } catch (error) {
      return show(this, mistake(error));
    }
    droppable(this, (dropped) => this.chooser?.read(dropped));
    if (this.models.length < 2) return show(this, el("p", {}, t("two_needed")));
    this.draw();
  }

  disconnectedCallback() {
    this.going?.abort();
  }

  shared([one, other]) {
    return Object.keys(one.forms).filter((ability) => KINDS.includes(one.forms[ability].kind) && other.forms[ability]?.kind === one.forms[ability].kind);
  }

  draw() {
    const { t, state } = this;
    this.going?.abort();
    const named = (name, otherwise) => this.models.find((each) => each.name === name) ?? otherwise;
    const first = named(state.first, this.models[0]);
    const second = named(state.second, this.models.find((each) => each !== first && this.shared([first, each]).length) ?? this.models[1]);
    const pair = [first, second];
    const abilities = this.shared(pair);
    const usual = abilities.includes(first.task) ? first.task : abilities[0];
    const ability = abilities.includes(state.ability) ? state.ability : usual;
    Object.assign(state, { first: first.name, second: second.name, ability });
    const names = this.models.map((each) => each.name);
    const choose = (what) => select(names, state[what], (name) => { state[what] = name; this.draw(); this.querySelector(`[data-choice=${what}]`).focus(); });
    const [one, other] = ["first", "second"].map(choose);
    one.dataset.choice = "first";
    other.dataset.choice = "second";
    const heads = el("div", { class: "row chooser" }, field(t("model_one"), one), field(t("model_two"), other));
    if (!ability) return show(this, heads, el("p", {}, t("nothing_shared")));
    const form = first.forms[ability];
    heads.append(field(t("ability"), select(abilities.map((each) => [each, first.forms[each].title ? worded(t, first.forms[each].title) : t(`kind_${first.forms[each].kind}`)]), ability, (chosen) => { state.ability = chosen; this.draw(); })));
    show(this, heads, this.input(pair, form, ability), this.file(pair, form, ability));
  }

  // One input.

  input(pair, form, ability) {
    const { t, state, language } = this;
    const reads = pair.every(({ reads = [language] }) => reads.includes(language)) ? language : pair[0].reads?.[0] ?? "en";
    const values = (state[`inputs ${ability}`] ??= {});
    const examples = { gaps: t("gap_examples", { language: reads })[0], vectors: t("vectors_example", { language: reads }) };
    const example = { text: examples[form.kind] ?? t("text_example", { language: reads }) };
    const inputs = inputsOf(form);
    const single = inputs.filter((each) => each.kind === "text" && each.required).length === 1;
    const fields = fieldsOf({ ...form, inputs }, t, values, single ? { [inputs[0].name]: example.text } : {});
    const result = el("div", { class: "result", "aria-live": "polite" }, el("p", { class: "quiet" }, t("answer_here")));
    const control = button(t("compare"), null, { class: "main" });
    control.addEventListener("click", () => busy(result, control, async () => {
      const given = fields.read();
      show(result, ...(form.kind === "vectors" ? await this.vectors(pair, form, given.text) : await this.answers(pair, form, given)));
    }, mistake));
    return el("section", { class: "card" }, el("h2", {}, t("one_input")), form.kind === "vectors" ? el("p", { class: "quiet" }, t("vectors_hint")) : null, fields.element, el("p", {}, control), result);
  }

  async answers(pair, form, given) {
    const { t } = this;
    const found = await Promise.all(pair.map((model) => questionOf(model, model.forms[this.state.ability])([given])));
    const [[one], [other]] = found;
    const same = one.headline === other.headline;
    return [
      el("p", {}, el("strong", {}, same ? t("same") : t("different"))),
      el("div", { class: "columns" }, [one, other].map((answer, n) => el("section", {}, el("h3", {}, pair[n].name),
        answer.shown ? shownAnswer(answer.shown, t, given) : answer.output.gaps ? answer.output.gaps.map((candidates) => barList(candidates.map((each) => ({ label: each.word, value: each.score })), { label: t("gap_words") })) : el("p", {}, answer.headline)))),
    ];
  }

  async vectors(pair, form, text) {
    const { t } = this;
    const lines = text.split("\n").map((each) => each.trim()).filter(Boolean);
    if (lines.length < 2) throw new Error(t("vectors_few"));
    if (lines.length > 40) throw new Error(t("vectors_many", { most: 40 }));
    const found = await Promise.all(pair.map((model) => ask(form.path, { model: model.name, inputs: lines })));
    const [one, other] = found.map((each) => cosines(each.outputs));
    const pairs = one.flatMap((row, n) => row.slice(0, n).map((value, m) => ({ n, m, value, by: other[n][m] - value })));
    pairs.sort((left, right) => Math.abs(right.by) - Math.abs(left.by));
    const write = (value) => number(value, 2);
    return [
      pairs.length > 1 ? el("p", {}, t("correlated", { value: number(correlation(pairs.map((each) => each.value), pairs.map((each) => each.value + each.by)), 3) })) : null,
      el("p", {}, t("most_changed", { first: pairs[0].m + 1, second: pairs[0].n + 1, one: write(pairs[0].value), other: write(pairs[0].value + pairs[0].by) })),
      el("div", { class: "columns" }, [one, other].map((values, n) => heatMap({ title: pair[n].name, labels: lines, values, show: write }))),
    ];
  }

  // A file.

  file(pair, form, ability) {
    const { t } = this;
    const place = el("div", {});
    const inputs = inputsOf(form);
    const ready = (found) => {
      this.going?.abort();
      const columns = columnFields(t, inputs, found);
      const bar = el("progress", { max: found.rows.length, value: 0, "aria-label": t("file_progress") });
      const said = live(), body = el("div", {});
      const start = button(t("compare_rows"), null, { class: "main" });
      const stop = button(t("stop"), () => this.going?.abort(), { disabled: true });
      start.addEventListener("click", async () => {
        const mine = (this.going = new AbortController());
        start.disabled = true;
        stop.disabled = false;
        const rows = form.kind === "vectors" ? found.rows.slice(0, MOST_VECTORS) : found.rows;
        const answers = [];
        let done = 0;
        const questions = pair.map((model) => questionOf(model, model.forms[ability]));
        const both = async (some, signal) => {
          const [one, other] = await Promise.all(questions.map((question) => question(some, signal)));
          return one.map((each, n) => [each, other[n]]);
        };
        try {
          await answerRows(rows.map((row) => asked(row, inputs, columns.chosen)), both, (n, answer, error) => {
            answers[n] = { n, row: rows[n], one: answer?.[0], other: answer?.[1], error };
            bar.value = done += 1;
            show(said, t("file_done", { done: number(done), all: number(rows.length) }));
          }, mine.signal);
        } catch (error) {
          if (error.name !== "AbortError") show(body, mistake(error));
        }
        start.disabled = false;
        stop.disabled = true;
        this.results(body, pair, form, found, answers.filter(Boolean), columns.chosen[inputs[0].name]);
      });
      show(place, columns.element, el("p", { class: "row" }, start, stop), bar, said, body);
    };
    return el("section", { class: "card" }, el("h2", {}, t("file_title")), el("p", { class: "quiet" }, t("file_about")), (this.chooser = fileChooser(t, ready)), place);
  }

  results(body, pair, form, found, answers, column) {
    const { t } = this;
    const answered = answers.filter((each) => each.one);
    const failed = answers.length - answered.length;
    if (!answered.length) return show(body, el("p", {}, failed ? answers[0].error : t("stopped")));
    const notes = form.kind === "vectors" ? this.neighbours(answered, column) : [];
    const numbers = answered.every(({ one, other }) => one.score === null && other.score === null && [one, other].every((each) => each.headline !== "" && Number.isFinite(Number(each.headline))));
    // Two numbers are as far apart as they are; two answers count as much as both models are sure of them.
    for (const each of answered) {
      const { one, other } = each;
      each.same = one.headline === other.headline;
      each.weight = numbers ? Math.abs(one.headline - other.headline) : one.score === null || other.score === null ? 0 : Math.min(one.score, other.score);
    }
    const others = answered.filter((each) => !each.same).sort((one, other) => other.weight - one.weight);
    if (numbers) {
      const [ones, twos] = ["one", "other"].map((which) => answered.map((each) => Number(each[which].headline)));
      notes.push(t("numbers_note", { value: number(correlation(ones, twos), 3), apart: number(answered.reduce((sum, each) => sum + each.weight, 0) / answered.length, 3) }));
    }
    const kinds = new Map();
    if (!numbers && form.kind === "task") for (const { one, other } of others) {
      const change = `${one.headline} → ${other.headline}`;
      kinds.set(change, (kinds.get(change) ?? 0) + 1);
    }
    const changes = [...kinds].sort((one, other) => other[1] - one[1]).slice(0, 12);
    const cell = ({ headline, score }) => (score === null || score === undefined ? headline : `${headline} (${number(score, 3)})`);
    const own = pair.map(({ name }) => (found.columns.includes(name) ? `${name} (model)` : name));
    const columns = [...found.columns, own[0], `${own[0]} score`, own[1], `${own[1]} score`, "same"];
    const flat = answered.map(({ row, one, other, same }) => ({ ...row, [own[0]]: one.headline, [`${own[0]} score`]: one.score ?? "", [own[1]]: other.headline, [`${own[1]} score`]: other.score ?? "", same }));
    const stem = found.name.replace(/\.\w+$/, "");
    show(body,
      el("p", {}, el("strong", {}, t("agree", { same: number(answered.length - others.length), all: number(answered.length), share: percent(1 - others.length / answered.length) })), failed ? ` ${t("file_failed", { failed: number(failed) })}` : ""),
      notes.map((each) => el("p", {}, each)),
      changes.length > 1 ? barList(changes.map(([label, count]) => ({ label, value: count, text: number(count) })), { most: changes[0][1], label: t("changes") }) : null,
      el("p", { class: "row" }, button(t("save_csv"), () => save(`${stem}.compared.csv`, csv(columns, flat), "text/csv")),
        button(t("save_jsonl"), () => save(`${stem}.compared.jsonl`, answered.map(({ row, one, other, same }) => JSON.stringify({ ...row, same, answers: { [pair[0].name]: one.output, [pair[1].name]: other.output } }) + "\n").join(""), "application/jsonl"))),
      others.length ? [el("h3", {}, t("disagree")), el("p", { class: "quiet small" }, numbers ? t("sorted_numbers") : t("sorted")),
        table(t("disagree"), [{ title: t("file_row"), number: true }, column, pair[0].name, pair[1].name], others.slice(0, SHOWN).map(({ n, row, one, other }) => [number(n + 1), clipped(row[column]), cell(one), cell(other)])),
        others.length > SHOWN ? el("p", { class: "quiet" }, t("file_more", { count: number(others.length - SHOWN) })) : null] : el("p", {}, t("no_difference")));
  }

  /** Of vectors what they are for is compared: which other row of the file is the nearest one. */
  neighbours(answered, column) {
    const { t } = this;
    const sides = ["one", "other"].map((which) => cosines(answered.map((each) => each[which].output.vector)));
    answered.forEach((each, n) => ["one", "other"].forEach((which, side) => {
      const row = sides[side][n];
      let best = -1;
      row.forEach((value, m) => { if (m !== n && (best < 0 || value > row[best])) best = m; });
      Object.assign(each[which], { headline: best < 0 ? "" : clipped(answered[best].row[column], 60), score: best < 0 ? null : row[best] });
    }));
    const all = sides.map((side) => side.flatMap((row, n) => row.slice(0, n)));
    return [t("vectors_rows"), all[0].length > 1 ? t("correlated", { value: number(correlation(...all), 3) }) : ""].filter(Boolean);
  }
}
