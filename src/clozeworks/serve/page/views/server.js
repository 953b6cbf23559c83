// Server: what it is doing now, and how long that takes. It is asked each second while this is shown.

import { ask } from "../api.js";
import { lineChart } from "../charts.js";
import { el, number, percent, show, table } from "../elements.js";

const SECONDS = 1;
const KEPT = 300; // moments
const WINDOW = 30; // seconds that latencies are taken from
const STAGES = ["tokenization", "queue", "inference", "total"];
const QUANTILES = [0.5, 0.95];

const sum = (rows, taken = () => true) => rows.filter(taken).reduce((total, each) => total + each.count, 0);
const isRefused = ({ status }) => ["413", "429", "503", "504"].includes(status);

/** The seconds that a share of the requests did not exceed, by counts of buckets; null if there were none. */
function quantile(share, now, before) {
  const counts = now.below.map(([bound, count], n) => [bound, count - (before?.below[n]?.[1] ?? 0)]);
  const all = counts.at(-1)?.[1] ?? 0;
  if (!all) return null;
  let low = 0, under = 0;
  for (const [bound, count] of counts) {
    if (count >= share * all) {
      if (bound === null) return low;
      return low + (bound - low) * ((share * all - under) / Math.max(1, count - under));
    }
    low = bound, under = count;
  }
  return low;
}

export default class extends HTMLElement {
  connectedCallback() {
    const t = this.t;
    this.moments = this.state.moments ??= [];
    this.figures = el("dl", { class: "figures" });
    const chart = (name) => lineChart({ title: t(`chart_${name}`), x: t("seconds_ago"), height: 200, least: 0 });
    this.charts = Object.fromEntries(["requests", "tokens", "latency", "fill", "queue"].map((name) => [name, chart(name)]));
    this.paths = el("div", {});
    this.stages = el("div", {});
    show(this, this.figures,
      el("div", { class: "charts" }, Object.values(this.charts).map((each) => el("div", { class: "card" }, each))),
      el("h2", {}, t("stages")), this.stages, el("p", { class: "quiet" }, t("stages_about", { seconds: WINDOW })),
      el("h2", {}, t("paths")), this.paths);
    this.ending = new AbortController();
    this.look();
  }

  disconnectedCallback() {
    this.ending.abort();
    clearTimeout(this.next);
  }

  async look() {
    try {
      const now = await ask("v1/server", undefined, { signal: this.ending.signal });
      const last = this.moments.at(-1);
      // Another server, or the same begun anew: what was counted before is of no use.
      if (last && (now.seconds < last.seconds || sum(now.requests) < sum(last.requests))) this.moments.length = 0;
      this.moments.push(now);
      if (this.moments.length > KEPT) this.moments.shift();
      this.draw();
    } catch (error) {
      if (this.ending.signal.aborted) return; // the page says that nobody answers
    }
    this.next = setTimeout(() => this.look(), SECONDS * 1000);
  }

  /** What was counted each second, at each moment but the first. */
  rates(counted) {
    const latest = this.moments.at(-1).seconds;
    return this.moments.slice(1).map((each, n) => {
      const before = this.moments[n];
      return [each.seconds - latest, (counted(each) - counted(before)) / Math.max(1e-3, each.seconds - before.seconds)];
    });
  }

  /** What was so at each moment. */
  values(value) {
    const latest = this.moments.at(-1).seconds;
    return this.moments.map((each) => [each.seconds - latest, value(each)]);
  }

  draw() {
    const t = this.t;
    const now = this.moments.at(-1);
    const before = this.moments.findLast?.((each) => each.seconds <= now.seconds - WINDOW) ?? this.moments[0];
    // Latencies are those of late; of all requests if there were none lately.
    const since = now.stages.total && before.stages.total?.count < now.stages.total.count ? before : null;
    const asked = this.rates((each) => sum(each.requests));
    const read = this.rates((each) => each.tokens.read ?? 0);
    const wrote = this.rates((each) => each.tokens.written ?? 0);
    const last = (points) => points.at(-1)?.[1] ?? 0;
    const total = (share) => (now.stages.total ? quantile(share, now.stages.total, since?.stages.total) : null);
    const fills = this.moments.slice(1).map((each, n) => {
      const batches = each.batches - this.moments[n].batches;
      return [each.seconds - now.seconds, batches ? (each.batch_tokens - this.moments[n].batch_tokens) / batches / each.most_batch_tokens : null];
    });
    const fill = now.batches ? now.batch_tokens / now.batches : 0;
    const shown = (seconds) => (seconds === null ? "–" : t("ms", { ms: number(seconds * 1000, seconds < 0.01 ? 1 : 0) }));
    const figure = (name, value, more) => el("div", {}, el("dt", {}, t(name)), el("dd", {}, value, more ? el("small", {}, more) : null));
    show(this.figures,
      figure("requests", number(sum(now.requests)), t("per_second", { count: number(last(asked), 1) })),
      figure("refused", number(sum(now.requests, isRefused)), t("refused_about")),
      figure("failed", number(sum(now.requests, ({ status }) => status === "500")), t("failed_about")),
      figure("in_flight", number(now.in_flight), t("growing", { count: number(now.growing_texts) })),
      figure("queue", number(now.queue_inputs), t("in_hand", { tokens: number(now.tokens_in_hand), most: number(now.most_tokens) })),
      figure("tokens", number((now.tokens.read ?? 0) + (now.tokens.written ?? 0)), t("per_second", { count: number(last(read) + last(wrote)) })),
      figure("fill", t("tokens_each", { tokens: number(fill) }), t("fill_about", { share: percent(fill / now.most_batch_tokens), most: number(now.most_batch_tokens) })),
      figure("latency", shown(total(0.5)), t("slow", { time: shown(total(0.95)) })));
    this.charts.requests.update([{ name: t("requests"), points: asked }, { name: t("refused"), points: this.rates((each) => sum(each.requests, isRefused)), color: 6 }]);
    this.charts.tokens.update([{ name: t("read"), points: read }, { name: t("written"), points: wrote }]);
    this.charts.latency.update(QUANTILES.map((share) => ({ name: t("quantile", { share: percent(share, 0) }), points: this.moments.map((each, n) => {
      const from = this.moments.slice(0, n).findLast?.((one) => one.seconds <= each.seconds - WINDOW) ?? this.moments[0];
      const found = each.stages.total && from !== each ? quantile(share, each.stages.total, from.stages.total) : null;
      return [each.seconds - now.seconds, found === null ? null : found * 1000];
    }) })));
    this.charts.fill.update([{ name: t("fill"), points: fills.map(([x, y]) => [x, y === null ? null : y * 100]) }]);
    this.charts.queue.update([{ name: t("queue"), points: this.values((each) => each.queue_inputs) }, { name: t("in_flight"), points: this.values((each) => each.in_flight) }]);
    // A chart without any number yet would be an empty card.
    for (const chart of Object.values(this.charts)) chart.parentElement.hidden = !chart.querySelector(".line");
    this.keep(this.stages, () => table(t("stages"), [{ title: t("stage"), head: true }, ...[t("mean"), ...QUANTILES.map((share) => t("quantile", { share: percent(share, 0) }))].map((title) => ({ title, number: true }))],
      STAGES.filter((each) => now.stages[each]?.count).map((each) => {
        const stage = now.stages[each], old = since?.stages[each];
        const count = stage.count - (old?.count ?? 0);
        return [t(`stage_${each}`), shown(count ? (stage.sum - (old?.sum ?? 0)) / count : null), ...QUANTILES.map((share) => shown(quantile(share, stage, old)))];
      })));
    this.keep(this.paths, () => (now.requests.length
      ? table(t("paths"), [{ title: t("path"), head: true }, t("status"), { title: t("count"), number: true }], [...now.requests].sort((one, other) => other.count - one.count).map((each) => [each.path, each.status, number(each.count)]))
      : el("p", {}, t("nobody"))));
  }

  /** Draws something anew unless somebody reads it with the keyboard just now. */
  keep(place, draw) {
    if (!place.contains(document.activeElement)) show(place, draw());
  }
}
