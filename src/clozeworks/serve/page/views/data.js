// Data: what any step of training sees of a corpus; what labelled files hold, and what looks odd.

import { ask } from "../api.js";
import { barList } from "../charts.js";
import { button, details, el, field, live, mistake, number, percent, select, show, table } from "../elements.js";

const STATES = ["masked", "replaced", "kept", "gap", "special"];
const MOST_BARS = 30;

export default class extends HTMLElement {
  async connectedCallback() {
    this.ending = new AbortController();
    const { signal } = this.ending;
    this.kept = this.state.kept ??= {};
    try {
      const [of, files] = await Promise.all([ask("v1/corpora", undefined, { signal }), ask("v1/files", undefined, { signal })]);
      this.corpora = new Map(of.corpora.map((each) => [each.name, each]));
      this.objectives = of.objectives;
      this.files = new Map(files.files.map((each) => [each.name, each]));
      this.tasks = files.tasks;
    } catch (error) {
      if (!signal.aborted) show(this, mistake(error));
      return;
    }
    const all = [...[...this.corpora.keys()].map((name) => ["corpus", name]), ...[...this.files.keys()].map((name) => ["file", name])];
    if (!all.length) {
      show(this, el("p", {}, this.t("none")));
      return;
    }
    const options = all.map(([kind, name]) => [`${kind}/${name}`, this.t(kind, { name })]);
    const asked = this.place.length > 1 ? `${this.place[0]}/${this.place.slice(1).join("/")}` : this.state.shown;
    const first = options.some(([value]) => value === asked) ? asked : options[0][0];
    this.choice = select(options, first, (value) => this.open(value));
    this.content = el("div", {});
    show(this, field(this.t("which"), this.choice), this.content);
    this.open(first);
  }

  disconnectedCallback() {
    this.ending?.abort();
  }

  open(value) {
    this.state.shown = value;
    const [, kind, name] = /^(corpus|file)\/(.*)$/s.exec(value);
    if (kind === "corpus") this.openCorpus(name);
    else this.openFile(name);
  }

  /** Asks, and shows what comes or what is wrong; an answer to an earlier question is dropped. */
  async answer(place, path, values, draw) {
    const mine = (this.asking = {});
    place.setAttribute("aria-busy", "true");
    try {
      const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== null));
      const found = await ask(`${path}?${query}`, undefined, { signal: this.ending.signal });
      if (mine === this.asking) show(place, draw(found));
    } catch (error) {
      if (mine === this.asking && !this.ending.signal.aborted) show(place, mistake(error));
    } finally {
      if (mine === this.asking) place.removeAttribute("aria-busy");
    }
  }

  // A corpus.

  openCorpus(name) {
    const t = this.t;
    const corpus = this.corpora.get(name);
    if (corpus.problem) {
      show(this.content, mistake(new Error(corpus.problem)));
      return;
    }
    const own = (this.kept[`corpus/${name}`] ??= { objective: "bert", split: "train", step: 0, seed: 0, length: "", show: 3 });
    const splits = Object.keys(corpus.splits);
    if (!splits.includes(own.split)) own.split = splits[0];
    const seen = el("div", {});
    const step = this.numeric(own, "step", 0, () => look());
    const look = () => this.answer(seen, "v1/corpora/batch", { corpus: name, ...own }, (found) => this.drawStep(found));
    const by = (change) => () => {
      own.step = Math.max(0, own.step + change);
      step.value = own.step;
      look();
    };
    show(this.content,
      el("div", { class: "card" },
        table(t("counts"), [{ title: "", head: true }, ...splits.map((each) => ({ title: each, number: true }))], [
          ...["documents", "sentences", "tokens"].map((what) => [t(what), ...splits.map((each) => number(corpus.splits[each][what]))]),
          [t("tokens_per_word"), ...splits.map((each) => number(corpus.splits[each].tokens / Math.max(1, corpus.splits[each].words), 2))],
          [t("unknown"), ...splits.map((each) => percent(corpus.splits[each].unknown / Math.max(1, corpus.splits[each].tokens), 3))],
        ]),
        el("p", { class: "quiet" }, t("tokenizer", { kind: corpus.tokenizer.kind, size: number(corpus.tokenizer.size) })),
        details(t("lengths"), el("div", { class: "columns" }, ["sentence", "document"].map((what) => el("div", {}, el("h3", {}, t(`${what}_lengths`)), this.lengths(corpus, what)))))),
      el("h2", {}, t("step_sees")),
      el("p", { class: "quiet" }, t("step_sees_about")),
      el("div", { class: "card" },
        el("div", { class: "row" },
          field(t("objective"), select(this.objectives, own.objective, (value) => { own.objective = value; look(); })),
          field(t("split"), select(splits, own.split, (value) => { own.split = value; look(); })),
          field(t("step"), step),
          el("div", { class: "row" }, button("−", by(-1), { "aria-label": t("step_before") }), button("+", by(1), { "aria-label": t("step_after") })),
          field(t("seed"), this.numeric(own, "seed", 0, look)),
          field(t("length"), this.numeric(own, "length", 8, look)),
          field(t("examples"), select([1, 3, 10, 20].map(String), String(own.show), (value) => { own.show = Number(value); look(); })))),
      seen);
    look();
  }

  /** A number to type; nothing typed is left to the server. */
  numeric(own, name, least, act) {
    return el("input", { type: "number", min: least, step: 1, inputmode: "numeric", value: own[name], onchange: (event) => {
      const typed = event.target.value.trim();
      own[name] = typed === "" ? (name === "length" ? "" : least) : Math.max(least, Math.floor(Number(typed)) || least);
      event.target.value = own[name];
      act();
    } });
  }

  lengths(corpus, what) {
    const totals = [];
    for (const split of Object.values(corpus.splits)) split[`${what}_lengths`].forEach((count, n) => { totals[n] = (totals[n] ?? 0) + count; });
    const most = Math.max(1, ...totals);
    const bars = totals.map((count, n) => {
      const [low, high] = [(1 << n) >> 1, 2 ** n - 1];
      return { label: low >= high ? number(low) : `${number(low)}–${number(high)}`, value: count ?? 0, text: number(count ?? 0) };
    }).filter(({ value }, n, every) => value || (every.slice(0, n).some((each) => each.value) && every.slice(n).some((each) => each.value)));
    return barList(bars, { most, label: this.t(`${what}_lengths`) });
  }

  drawStep(found) {
    const t = this.t;
    const asked = Object.entries(found.asked).map(([name, count]) => `${name} ${number(count)}`).join(", ");
    const states = new Set(found.examples.flatMap((each) => [...each.tokens, ...each.written]).map(([, state]) => state));
    return [
      el("p", { role: "status" }, t("step_holds", { step: number(found.step), epoch: number(found.epoch, 2), examples: number(found.examples_of_step), tokens: number(found.tokens_of_step), asked })),
      el("div", { class: "chart" }, el("ul", { class: "legend", role: "list", "aria-label": t("colours") }, STATES.filter((each) => states.has(each)).map((each) => el("li", {}, el("span", { class: `token ${each}` }, t(`state_${each}`)), " ", el("span", { class: "quiet" }, t(`means_${each}`)))))),
      found.examples.map((each) => el("article", { class: "card" },
        el("h3", {}, t("example", { number: number(each.number + 1), index: number(each.index), epoch: number(each.epoch) })),
        this.drawTokens(each.tokens),
        each.written.length ? [el("h3", {}, t("written")), this.drawTokens(each.written)] : null,
        each.targets.map((line) => el("p", { class: "quiet" }, line)))),
    ];
  }

  drawTokens(tokens) {
    return el("p", { class: "tokens" }, tokens.flatMap(([shown, state, original]) => [
      original === null
        ? el("span", { class: state ? `token ${state}` : "token" }, shown)
        : el("span", { class: `token ${state}` }, el("ins", {}, original), " ", el("del", {}, shown)),
      " ",
    ]));
  }

  // A labelled file.

  openFile(name) {
    const t = this.t;
    const own = (this.kept[`file/${name}`] ??= { task: this.tasks.some((each) => each.name === "classify") ? "classify" : this.tasks[0].name });
    const report = el("div", {});
    const look = () => {
      show(report, live(t("reading")));
      this.answer(report, "v1/files/check", { file: name, task: own.task }, (found) => this.drawReport(found));
    };
    show(this.content,
      el("div", { class: "card row" },
        field(t("task"), select(this.tasks.map((each) => each.name), own.task, (value) => { own.task = value; look(); }), t("task_about")),
        el("p", { class: "quiet" }, t("bytes", { kilobytes: number(this.files.get(name).bytes / 1000, 1) }))),
      report);
    look();
  }

  drawReport({ report, rows }) {
    const t = this.t;
    const part = report.train;
    const findings = report.findings.map((each) => el("li", { class: "card" },
      el("h3", {}, `${number(each.count)} × ${each.name}`), el("p", {}, each.what),
      el("ul", {}, each.examples.map((one) => el("li", {}, el("span", { class: "quiet" }, `${one.source_location}: `), one.text, one.note ? el("span", { class: "quiet" }, ` (${one.note})`) : null)))));
    const sentences = (title, all, count) => (count ? details(`${title}: ${number(count)}`, el("ul", {}, all.map((each) => el("li", {}, each)))) : null);
    return [
      report.obstacle ? mistake(new Error(report.obstacle)) : null,
      el("p", { role: "status" }, t("rows", { rows: number(part.rows) })),
      el("p", { class: "quiet" }, part.description),
      el("h2", {}, t("findings")),
      findings.length || report.warnings.length ? null : el("p", {}, t("nothing_odd")),
      report.warnings.map((each) => el("p", {}, each)),
      el("ul", { class: "columns", role: "list", style: { "list-style": "none", padding: "0" } }, findings),
      sentences(t("bad_rows"), part.bad_rows, part.bad), sentences(t("repaired"), part.repaired_rows, part.repaired),
      el("div", { class: "columns" },
        [[t("labels"), part.labels], [t("types"), part.types], [t("answers"), part.answers]].filter(([, amounts]) => amounts.length).map(([title, amounts]) => el("div", { class: "card" },
          el("h3", {}, title),
          barList(amounts.slice(0, MOST_BARS).map((each) => ({ label: each.name, value: each.fraction, text: `${number(each.count)} (${percent(each.fraction)})` })), { most: Math.max(...amounts.map((each) => each.fraction)), label: title }),
          amounts.length > MOST_BARS ? el("p", { class: "quiet" }, t("and_more", { count: number(amounts.length - MOST_BARS) })) : null))),
      el("h2", {}, t("sizes")),
      table(t("sizes"), [{ title: "", head: true }, ...["least", "mean", "median", "90 %", "99 %", "most"].map((each) => ({ title: /\d/.test(each) ? each : t(each), number: true }))],
        [...part.lengths, ...(part.numbers ? [part.numbers] : [])].map((each) => [each.what, ...[each.minimum, each.mean, each.median, each.ninety, each.ninety_nine, each.maximum].map((value) => number(value, Number.isInteger(value) ? 0 : 1))])),
      el("h2", {}, t("first_rows")),
      table(t("first_rows"), [{ title: t("place"), head: true }, t("texts"), t("label")], rows.map((each) => [each.source_location, each.texts.join(" | "), each.labels.join(" ")])),
    ];
  }
}
