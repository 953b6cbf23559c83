// Runs: how far each is, their curves in one chart, live; stop and go on.

import { Refused, ask, follow } from "../api.js";
import { lineChart } from "../charts.js";
import { button, check, details, el, field, live, number, select, show, table } from "../elements.js";

// What is drawn, if it was measured: the name of a panel, and of its series; what is held out is dashed.
const PANELS = [
  ["loss", ["loss", "evaluation.loss"]],
  ["learning_rate", ["learning_rate"]],
  ["tokens_per_second", ["tokens_per_second"]],
  ["gradient", ["gradient"]],
];
const ALWAYS = PANELS.flatMap(([, series]) => series);
const COLUMNS = 700;
const MOST_POINTS = 12_000; // of a line; with more it is asked for again, thinned
const MOST_LINES = 12;
const DRAWN_EVERY = 200;

const key = (run, part) => `${run}\u0000${part}`;

/** Seconds as people say them: 2 h 5 min, 3 min 20 s, 8 s. */
function duration(seconds, t) {
  const whole = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  if (h) return t("hours", { h: number(h), m });
  return m ? t("minutes", { m, s }) : t("seconds", { s });
}

/** Means of neighbours, the later the more; 0 leaves everything as it is. */
function smoothed(points, weight) {
  if (!weight) return points;
  let mean = null;
  return points.map(([step, value]) => {
    mean = mean === null ? value : weight * mean + (1 - weight) * value;
    return [step, mean];
  });
}

export default class extends HTMLElement {
  connectedCallback() {
    this.records = new Map();
    this.rows = new Map();
    this.curves = new Map();
    this.asked = new Map();
    this.state.log ??= false;
    this.state.smoothing ??= 0;
    this.state.series ??= "";
    this.ending = new AbortController();
    this.list = el("ul", { class: "runs", "aria-label": this.t("list") });
    this.said = live();
    this.empty = el("p", { hidden: true }, this.t("none"));
    this.panels = el("div", { class: "charts" });
    this.more = el("div", { class: "wide-cells" });
    this.extra = select([["", this.t("no_more")]], "", (name) => { this.state.series = name; this.fetchAll(); });
    const smoothing = el("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: this.state.smoothing, oninput: (event) => { this.state.smoothing = Number(event.target.value); this.drawSoon(); } });
    show(this, this.list, this.empty, this.said,
      el("div", { class: "card row" },
        el("div", { class: "field" }, check(this.t("log"), this.state.log, (on) => { this.state.log = on; this.makePanels(); })),
        field(this.t("smoothing"), smoothing), field(this.t("more_series"), this.extra)),
      this.panels, el("p", { class: "quiet" }, this.t("legend")), this.more);
    this.makePanels();
    follow("v1/runs/events", ({ data }) => this.take(data), { signal: this.ending.signal }).catch((error) => show(this.said, error.message));
  }

  disconnectedCallback() {
    this.ending.abort();
    clearTimeout(this.drawing);
  }

  // What happens.

  take(event) {
    if (event.kind === "runs") {
      const names = new Set(event.runs.map((each) => each.name));
      for (const name of this.records.keys()) if (!names.has(name)) this.lose(name);
      for (const record of event.runs) this.put(record);
      this.choose(event.runs);
      this.empty.hidden = this.records.size > 0;
      this.fetchAll();
      this.drawMore();
    } else if (event.kind === "run") {
      const isNew = !this.records.has(event.run.name);
      this.put(event.run);
      if (isNew && event.run.status === "running") this.pick(event.run.name, true);
      else if (this.chosen().includes(event.run.name)) this.fetchMissing(event.run.name);
    } else if (event.kind === "gone") this.lose(event.run);
    else if (event.kind === "lines") this.append(event);
    else if (event.kind === "anew" && this.curves.has(key(event.run, event.part))) this.fetch(event.run, event.part);
    this.empty.hidden = this.records.size > 0;
  }

  /** At first: the run of the address, or those that train, or the one that changed last. */
  choose(runs) {
    const named = this.place[0];
    if (named !== undefined && this.records.has(named)) this.state.chosen = [named];
    this.place = [];
    this.state.chosen = (this.state.chosen ?? []).filter((name) => this.records.has(name));
    if (!this.state.chosen.length) {
      const training = runs.filter((each) => each.status === "running").slice(0, 4).map((each) => each.name);
      const last = [...runs].sort((one, other) => (other.updated ?? "").localeCompare(one.updated ?? ""))[0];
      this.state.chosen = training.length ? training : last ? [last.name] : [];
    }
    for (const [name, row] of this.rows) row.box.checked = this.state.chosen.includes(name);
  }

  chosen() {
    return (this.state.chosen ?? []).filter((name) => this.records.has(name));
  }

  pick(name, on) {
    this.state.chosen = on ? [...new Set([...this.chosen(), name])] : this.chosen().filter((each) => each !== name);
    const row = this.rows.get(name);
    if (row) row.box.checked = on;
    if (on) this.fetchMissing(name);
    this.drawSoon();
    this.drawMore();
  }

  lose(name) {
    this.records.delete(name);
    this.rows.get(name)?.element.remove();
    this.rows.delete(name);
    for (const each of [...this.curves.keys()]) if (each.startsWith(key(name, ""))) this.curves.delete(each);
    show(this.said, this.t("gone", { name }));
    this.drawSoon();
    this.drawMore();
  }

  // The list.

  put(record) {
    this.records.set(record.name, record);
    let row = this.rows.get(record.name);
    if (!row) {
      row = this.makeRow(record.name);
      this.rows.set(record.name, row);
      const after = [...this.rows.keys()].filter((name) => name > record.name).sort()[0];
      this.list.insertBefore(row.element, after === undefined ? null : this.rows.get(after).element);
    }
    const t = this.t;
    const status = t(`status_${record.status}`);
    row.badge.className = `badge ${record.status}`;
    show(row.badge, status);
    row.bar.hidden = record.steps === null;
    row.bar.max = record.steps || 1;
    row.bar.value = Math.min(record.step, record.steps || 1);
    const steps = record.steps === null ? "" : t("step_of", { step: number(record.step), steps: number(record.steps) });
    const pace = record.status === "running" && record.steps_per_second ? t("pace", { steps: number(record.steps_per_second, record.steps_per_second < 10 ? 2 : 0) }) : "";
    const left = record.status === "running" && record.seconds_left !== null ? t("left", { time: duration(record.seconds_left, t) }) : "";
    show(row.progress, [record.part, steps, pace, left].filter(Boolean).join(" · "));
    const loss = record.loss === null ? "" : t("held_out", { loss: number(record.loss, 3) });
    const best = record.value === null ? "" : `${record.metric} ${number(record.value, 4)}`;
    const speed = record.tokens_per_second === null ? "" : t("speed", { tokens: number(record.tokens_per_second) });
    show(row.numbers, [loss, best, speed].filter(Boolean).map((each) => el("div", {}, each)));
    row.stop.hidden = record.status !== "running";
    row.on.hidden = record.continue_command === null;
    row.report.hidden = !record.has_report;
    row.report.href = `v1/runs/report?run=${encodeURIComponent(record.name)}`;
    if (record.status !== "running" || row.wanted !== "stop") row.stop.disabled = false;
    if (record.status === "running") row.on.disabled = false;
    row.problem.hidden = !record.problem || record.status === "running";
    show(row.problem, record.problem ?? "");
    if (record.problem) row.on.disabled = false;
  }

  makeRow(name) {
    const t = this.t;
    const box = el("input", { type: "checkbox", checked: this.chosen().includes(name), onchange: (event) => this.pick(name, event.target.checked) });
    const badge = el("span", { class: "badge" });
    const progress = el("span", { class: "quiet" });
    const bar = el("progress", { "aria-label": t("progress", { name }) });
    const numbers = el("div", { class: "quiet number" });
    const stop = button(t("stop"), () => this.change(name, "stop"), { class: "small", "aria-label": t("stop_run", { name }) });
    const on = button(t("continue"), () => this.change(name, "continue"), { class: "small", "aria-label": t("continue_run", { name }) });
    const report = el("a", { target: "_blank", rel: "noopener", "aria-label": t("report_of", { name }) }, t("report"));
    const problem = el("p", { class: "wide mistake", hidden: true });
    const element = el("li", {},
      el("div", {}, el("label", { class: "check" }, box, el("strong", {}, name)), " ", badge),
      el("div", {}, bar, el("small", {}, progress)), numbers,
      el("div", { class: "acts" }, report, stop, on), problem);
    return { element, box, badge, progress, bar, numbers, stop, on, report, problem, wanted: "" };
  }

  /** Asks whether it is meant, then stops a run or goes on with it. */
  change(name, what) {
    const record = this.records.get(name);
    const row = this.rows.get(name);
    if (!record || !row) return;
    const t = this.t;
    const control = what === "stop" ? row.stop : row.on;
    const said = what === "stop" ? t("sure_stop", { name }) : t("sure_continue", { name });
    const box = el("dialog", { class: "card", "aria-label": said },
      el("p", {}, said),
      what === "continue" && record.continue_command ? el("pre", {}, record.continue_command) : null,
      el("form", { method: "dialog", class: "row" },
        el("button", { value: "yes", class: "main" }, t(what)),
        el("button", { value: "" }, t("leave"))));
    box.addEventListener("close", async () => {
      box.remove();
      if (box.returnValue === "yes") {
        row.wanted = what;
        control.disabled = true;
        try {
          await ask(`v1/runs/${what}`, { run: name });
          show(this.said, t(`told_${what}`, { name }));
        } catch (error) {
          control.disabled = false;
          show(row.problem, error.message);
          row.problem.hidden = false;
        }
      }
      control.focus();
    });
    document.body.append(box);
    box.showModal();
  }

  // The curves.

  wanted() {
    return [...new Set([...ALWAYS, ...(this.state.series ? [this.state.series] : [])])];
  }

  /** What is drawn: a run, or each of its seeds. */
  drawn() {
    return this.chosen().flatMap((name) => this.records.get(name).parts.map((part) => [name, part])).slice(0, MOST_LINES);
  }

  fetchAll() {
    for (const [name, part] of this.drawn()) this.fetch(name, part);
    this.drawSoon();
  }

  fetchMissing(name) {
    for (const [run, part] of this.drawn()) if (run === name && !this.curves.has(key(run, part))) this.fetch(run, part);
  }

  async fetch(run, part) {
    const id = key(run, part);
    if (this.asked.get(id)) { // once more when that has come
      this.asked.set(id, "again");
      return;
    }
    this.asked.set(id, "once");
    const query = new URLSearchParams({ run, part, series: this.wanted().join(","), columns: COLUMNS });
    try {
      const found = await ask(`v1/runs/curves?${query}`, undefined, { signal: this.ending.signal });
      if (this.records.has(run)) this.curves.set(id, found);
    } catch (error) {
      if (this.ending.signal.aborted) return;
      // A run that has measured nothing yet, or is gone: there will be news.
      if (!(error instanceof Refused)) throw error;
    } finally {
      const again = this.asked.get(id) === "again";
      this.asked.delete(id);
      if (again && !this.ending.signal.aborted) this.fetch(run, part);
    }
    this.offerSeries();
    this.drawSoon();
  }

  append({ run, part, identity, begin, end, lines }) {
    const curve = this.curves.get(key(run, part));
    if (!curve) {
      if (this.chosen().includes(run)) this.fetch(run, part);
      return;
    }
    if (curve.identity === identity && end <= curve.offset) return;
    if (curve.identity !== identity || begin !== curve.offset) {
      this.fetch(run, part);
      return;
    }
    curve.offset = end;
    for (const { step, values, marks } of lines) {
      for (const name of this.wanted()) {
        if (!(name in values)) continue;
        const series = (curve.series[name] ??= { steps: [], values: [] });
        series.steps.push(step);
        series.values.push(values[name]);
      }
      for (const name of Object.keys(values)) if (!curve.names.includes(name)) curve.names.push(name);
      for (const [kind, count] of Object.entries(marks)) curve.marks.push({ step, kind, count, loss: values.loss ?? null });
    }
    if (Object.values(curve.series).some((each) => each.steps.length > MOST_POINTS)) this.fetch(run, part);
    this.drawSoon();
  }

  offerSeries() {
    const names = [...new Set([...this.curves.values()].flatMap((each) => each.names))].filter((name) => !ALWAYS.includes(name));
    const known = [...this.extra.options].map((each) => each.value).filter(Boolean);
    if (names.join("\n") === known.join("\n")) return;
    show(this.extra, el("option", { value: "" }, this.t("no_more")), names.map((name) => el("option", { value: name }, name)));
    this.extra.value = names.includes(this.state.series) ? this.state.series : "";
  }

  makePanels() {
    this.charts = new Map();
    show(this.panels);
    this.drawSoon();
  }

  drawSoon() {
    this.drawing ??= setTimeout(() => {
      this.drawing = undefined;
      if (this.isConnected) this.draw();
    }, this.charts.size ? DRAWN_EVERY : 0);
  }

  draw() {
    const panels = [...PANELS, ...(this.state.series ? [[this.state.series, [this.state.series]]] : [])];
    const runs = this.chosen();
    const seen = new Set();
    for (const [panel, names] of panels) {
      const lines = [];
      this.drawn().forEach(([run, part], n) => {
        const curve = this.curves.get(key(run, part));
        if (!curve) return;
        const label = part === "." ? run : `${run}, ${part}`;
        const color = this.drawn().length > runs.length ? n : runs.indexOf(run);
        for (const name of names) {
          const series = curve.series[name];
          if (!series?.steps.length) continue;
          const isHeldOut = names.length > 1 && name.startsWith("evaluation.");
          const raw = series.steps.map((step, at) => [step, series.values[at]]);
          const marks = panel === "loss" && !isHeldOut ? this.marks(curve, raw) : [];
          lines.push({ name: isHeldOut ? this.t("held_out_of", { name: label }) : label, color, dashed: isHeldOut, points: isHeldOut ? raw : smoothed(raw, this.state.smoothing), marks });
        }
      });
      if (!lines.length) continue;
      seen.add(panel);
      if (!this.charts.has(panel)) {
        const title = PANELS.some(([name]) => name === panel) ? this.t(`panel_${panel}`) : panel;
        const chart = lineChart({ title, x: this.t("step"), height: panel === "loss" ? 300 : 220, log: this.state.log });
        this.charts.set(panel, chart);
        const card = el("div", { class: "card" }, chart);
        const after = panels.map(([name]) => name).slice(panels.findIndex(([name]) => name === panel) + 1).find((name) => this.charts.has(name));
        this.panels.insertBefore(card, after ? this.charts.get(after).parentElement : null);
      }
      this.charts.get(panel).update(lines);
    }
    for (const [panel, chart] of [...this.charts]) if (!seen.has(panel)) {
      chart.parentElement.remove();
      this.charts.delete(panel);
    }
  }

  /** Spikes as dots, skipped steps as crosses, on the line where it was then. */
  marks(curve, points) {
    return curve.marks.map(({ step, kind, count, loss }) => {
      let y = loss;
      if (y === null) y = (points.findLast?.(([at]) => at <= step) ?? points[0])?.[1] ?? null;
      return [step, y, this.t(`mark_${kind}`, { step: number(step), count: number(count) }), kind === "skipped" ? "cross" : "dot"];
    });
  }

  // What the chosen runs were set to, and what they noted.

  async drawMore() {
    const names = this.chosen().slice(0, 8);
    const mine = (this.drawnMore = {});
    const found = [];
    for (const name of names) {
      try {
        found.push(await ask(`v1/runs/details?${new URLSearchParams({ run: name })}`, undefined, { signal: this.ending.signal }));
      } catch (error) {
        if (this.ending.signal.aborted) return;
      }
    }
    if (mine !== this.drawnMore || !this.isConnected) return;
    const t = this.t;
    // What somebody opened stays open.
    const opened = new Map([...this.more.querySelectorAll("details")].map((each) => [each.querySelector("summary").textContent, each.open]));
    const parts = [];
    if (found.length > 1) {
      const paths = [...new Set(found.flatMap((each) => Object.keys(each.settings)))].filter((path) => path !== "run" && new Set(found.map((each) => each.settings[path] ?? "")).size > 1);
      const shown = details(t("differences_count", { count: number(paths.length) }), table(t("differences"), [{ title: t("setting"), head: true }, ...found.map((each) => each.run)], paths.map((path) => [path, ...found.map((each) => each.settings[path] ?? "–")])));
      shown.open = paths.length <= 15;
      parts.push(el("h2", {}, t("differences")), paths.length ? shown : el("p", {}, t("no_differences")));
    }
    for (const each of found) {
      parts.push(details(t("about_run", { name: each.run }),
        each.notes.length ? [el("h3", {}, t("notes")), table(t("notes"), [{ title: t("step"), number: true }, t("note")], each.notes.map((note) => [note.step ?? "", note.note]))] : null,
        el("h3", {}, t("settings")), table(t("settings"), [{ title: t("setting"), head: true }, t("value")], Object.entries(each.settings)),
        each.sessions.length ? [el("h3", {}, t("sessions")), table(t("sessions"), [t("began"), "clozeworks", "torch", t("device"), t("threads"), t("ranks")], each.sessions.map((one) => [one.began.replace("T", " ").replace("+00:00", " UTC"), one.clozeworks, one.torch, one.device, one.threads, one.ranks]))] : null));
    }
    show(this.more, parts);
    for (const each of this.more.querySelectorAll("details")) each.open = opened.get(each.querySelector("summary").textContent) ?? each.open;
  }
}
