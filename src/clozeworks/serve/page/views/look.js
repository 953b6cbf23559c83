// Look inside: asks for a view into a model, and shows it.

import { ask } from "../api.js";
import { button, el, field, live, mistake, save, select, show } from "../elements.js";
import { parts } from "../look/all.js";

const WHOLE = 160; // tokens of a text whose layers are fetched before they are asked for

export default class extends HTMLElement {
  async connectedCallback() {
    this.stopped = new AbortController();
    try {
      const { models } = await ask("v1/look/models", undefined, { signal: this.stopped.signal });
      this.models = models;
      if (models.length) this.draw();
      else show(this, el("p", {}, this.t("nothing")));
    } catch (error) {
      if (error.name !== "AbortError") show(this, mistake(error));
    }
  }

  disconnectedCallback() {
    this.stopped.abort();
    this.asked?.abort();
  }

  moved(place) {
    this.place = place;
    if (this.models?.length) this.draw();
  }

  get model() {
    return this.models.find((each) => each.name === this.place[0]) ?? this.models[0];
  }

  get view() {
    return this.model.views.includes(this.place[1]) ? this.place[1] : this.model.views[0];
  }

  draw() {
    const { model, view, t } = this;
    this.asked?.abort();
    const typed = (this.state[`${model.name} ${view}`] ??= {});
    const out = el("div", { class: "looked" });
    const wait = live("");
    const main = button(t("look"), null, { class: "main", type: "submit" });
    const stop = button(t("stop"), () => this.asked?.abort(), { hidden: true });
    const form = el("form", { class: "card", onsubmit: (event) => { event.preventDefault(); this.show(view, out, wait, stop); } },
      el("div", { class: "row" },
        field(t("model"), select(this.models.map((each) => each.name), model.name, (chosen) => this.go("look", chosen, view))),
        field(t("view"), select(model.views.map((each) => [each, t(`view_${each}`)]), view, (chosen) => this.go("look", model.name, chosen)))),
      this.fields(view, model, typed), el("p", {}, main, " ", stop));
    show(this, form, wait, out);
    if (typed.record) this.present(view, out, typed.record);
  }

  /** The inputs of a view; what is typed is kept. */
  fields(view, model, typed) {
    const { t } = this;
    const input = (name, label, first, hint, tag = "input") => {
      const control = el(tag, { value: typed[name] ?? first ?? "", oninput: (event) => { typed[name] = event.target.value; } });
      typed[name] ??= first ?? "";
      return field(label, control, hint);
    };
    const choose = (name, label, options, first) => {
      typed[name] ??= first;
      return field(label, select(options, typed[name], (chosen) => { typed[name] = chosen; }));
    };
    const gap = model.mask && (view === "lens" || (view === "attributions" && !model.labels));
    const start = gap ? t("example_gap", { mask: model.mask }) : t("example");
    if (view === "contexts") {
      return [input("word", t("the_word"), t("example_word")), input("texts", t("texts"), t("example_texts"), t("texts_hint"), "textarea"),
        el("div", { class: "row" },
          choose("layer", t("layer_field"), [["", t("last")], ...(model.layers >= 4 ? [["sum_last_four", t("sum_last_four")]] : []), ...[...Array(model.layers + 1).keys()].map((each) => [String(each), each === 0 ? t("embeddings") : String(each)])], ""),
          choose("correction", t("correction"), ["raw", "centred", "whitened"].map((each) => [each, t(`correction_${each}`)]), "centred"))];
    }
    const pair = model.pairs && view !== "lens";
    const [one, two] = pair && model.texts.includes("context") ? [t("question"), t("context_text")] : [t("text"), t("second")];
    const made = [input("inputs", one, start, gap ? t("gap_hint", { mask: model.mask }) : null, "textarea")];
    if (pair) made.push(input("pair", two, t("example"), null, "textarea"));
    if (model.writes && view !== "tokens" && (view !== "attributions" || !model.labels)) made.push(input("target", t("target"), ""));
    if (view === "lens" && gap) made.push(input("right", t("right_words"), ""));
    if (view === "attributions") {
      if (model.follows) made.push(input("target", t("field_follows"), ""));
      if (gap) made.push(input("gapword", t("word_in_gap"), ""));
      const labels = model.labels && !(pair && model.texts.includes("context"));
      made.push(el("div", { class: "row" },
        labels ? choose("label", t("label"), [["", t("likeliest")], ...model.labels], "") : null,
        model.per_word ? input("number", t("word_number"), "1") : null,
        choose("baseline", t("baseline_field"), [["", t("usual")], ...["mask", "pad", "zero", "mean"].map((each) => [each, t(`baseline_${each}`)])], "")));
      if (!pair) made.push(input("other", model.labels || model.views.includes("lens") ? t("other") : t("other_needed"), ""));
    }
    return made;
  }

  /** What is asked of the server. */
  body(view) {
    const { model } = this;
    const typed = this.state[`${model.name} ${view}`];
    const body = { model: model.name };
    if (view === "contexts") {
      const lines = typed.texts.split("\n").filter((each) => each.trim()).map((each) => each.split("\t"));
      const layer = typed.layer === "" ? null : /^\d+$/.test(typed.layer) ? Number(typed.layer) : typed.layer;
      return { ...body, word: typed.word, texts: lines.map((each) => each[0]), layer, correction: typed.correction,
        labels: lines.some((each) => each.length > 1) ? lines.map((each) => each[1] ?? null) : null };
    }
    body.inputs = typed.inputs;
    if (typed.pair) body.pair = typed.pair;
    if (typed.target) body.target = typed.target;
    if (view === "attention") return { ...body, layer: -1, packed: true };
    if (view === "lens") return typed.right ? { ...body, right: typed.right.split(/[,，]/).map((each) => each.trim()) } : body;
    if (view === "attributions") {
      if (typed.label) body.label = typed.label;
      if (typed.gapword) body.word = typed.gapword;
      if (model.per_word) body.word = Math.max(0, Number(typed.number) - 1) || 0;
      if (typed.baseline) body.baseline = typed.baseline;
      if (typed.other) Object.assign(body, { other: typed.other, word: undefined, label: undefined });
    }
    return body;
  }

  async show(view, out, wait, stop) {
    this.asked?.abort();
    const mine = (this.asked = new AbortController());
    const typed = this.state[`${this.model.name} ${view}`];
    show(wait, this.t("loading"));
    stop.hidden = false;
    out.setAttribute("aria-busy", "true");
    try {
      const body = this.body(view);
      const { output } = await ask(`v1/look/${view}`, body, { signal: mine.signal });
      typed.record = output;
      typed.body = body;
      this.present(view, out, output);
    } catch (error) {
      if (error.name !== "AbortError") show(out, mistake(error));
    } finally {
      if (mine === this.asked) {
        show(wait);
        stop.hidden = true;
        out.removeAttribute("aria-busy");
      }
    }
  }

  present(view, out, record) {
    const typed = this.state[`${this.model.name} ${view}`];
    const drawn = view === "attention" ? parts.attention(record, this.t, this.fetching(typed, record)) : parts[view](record, this.t);
    show(out, el("section", { class: "card" }, drawn), button(this.t("save"), () => save(`${view}.json`, JSON.stringify(record, null, 1), "application/json"), { class: "small" }));
  }

  /** Gets other layers: of short texts all of them, one after the other, before they are asked for. */
  fetching(typed, record) {
    const signal = (this.asked ?? this.stopped).signal;
    const known = new Map();
    const short = record.streams.every((each) => each.keys.length <= WHOLE);
    const get = (layer, head) => {
      const key = short ? `${layer}` : `${layer} ${head}`;
      if (!known.has(key)) {
        const body = { ...typed.body, layer, ...(short ? {} : { head }) };
        const found = ask("v1/look/attention", body, { signal }).then(({ output }) => output);
        found.catch(() => known.delete(key));
        known.set(key, found);
      }
      return known.get(key);
    };
    if (short) {
      (async () => {
        const depth = Math.max(...record.streams.map((each) => each.depth));
        for (let layer = depth - 1; layer >= 1 && !signal.aborted; layer--) await get(layer).catch(() => {});
      })();
    }
    return get;
  }
}
