// Tour: from a sentence to the gap that a model fills, one picture a step, for people who are new to it.

import { ask } from "../api.js";
import { busy, likely } from "../asking.js";
import { barList, heatMap } from "../charts.js";
import { button, el, field, mistake, number, percent, select, show } from "../elements.js";
import { cosines } from "../numbers.js";

const STEPS = ["sentence", "pieces", "vectors", "attention", "masks", "gap"];
const CHOSEN = 0.15, MASKED = 0.8, REPLACED = 0.1;
const MOST = 40; // pieces of a sentence in a picture

export default class extends HTMLElement {
  async connectedCallback() {
    const { t, state, language } = this;
    try {
      this.models = (await ask("v1/abilities")).models.filter((each) => Object.values(each.forms).some((form) => form.kind === "gaps"));
    } catch (error) {
      return show(this, mistake(error));
    }
    if (!this.models.length) return show(this, el("p", {}, t("no_models")));
    this.model = this.models.find((each) => each.name === state.model) ?? this.models[0];
    const reads = this.model.reads ?? [];
    this.reads = reads.includes(language) || !reads.length ? language : reads[0];
    state.sentence ??= this.sentences()[0];
    this.draw();
  }

  moved() {
    if (this.model) this.draw(true);
  }

  sentences() {
    return this.t("sentences", { language: this.reads });
  }

  get gap() {
    return Object.values(this.model.forms).find((form) => form.kind === "gaps");
  }

  draw(moved = false) {
    const { t } = this;
    const at = Math.max(0, STEPS.indexOf(this.place[0]));
    const name = STEPS[at];
    const to = (n) => () => this.go("tour", STEPS[n]);
    const list = el("ol", { class: "steps", "aria-label": t("steps") }, STEPS.map((each, n) => el("li", {}, el("a", { href: `#/tour/${each}`, "aria-current": n === at ? "step" : null }, t(`step_${each}`)))));
    const body = el("div", { class: "result" });
    const head = el("h2", { tabindex: -1 }, t("step_of", { number: at + 1, all: STEPS.length, title: t(`step_${name}`) }));
    show(this, list, el("section", { class: "card tour" }, head, t(`explain_${name}`, { model: this.model.name, vocabulary: number(this.gap.vocabulary ?? 0), mask: this.gap.mask }).split("\n").map((each) => el("p", {}, each)), body,
      el("p", { class: "row" }, at > 0 ? button(t("back"), to(at - 1)) : null, at + 1 < STEPS.length ? button(t("next"), to(at + 1), { class: "main" }) : el("a", { href: `#/try/${encodeURIComponent(this.model.name)}` }, t("go_on")))));
    if (moved) head.focus();
    busy(body, null, () => this[`show_${name}`](body), mistake);
  }

  /** The pieces of a text: {text, id, special, start, stop}. */
  async pieces(text) {
    const [found] = await ask("tokenize", { inputs: text, model: this.model.name });
    return found;
  }

  async own() {
    const found = await this.pieces(this.state.sentence);
    if (found.filter((each) => !each.special).length > MOST) throw new Error(this.t("too_long", { most: MOST }));
    return found;
  }

  // The steps.

  show_sentence(body) {
    const { t, state } = this;
    const sentences = this.sentences();
    const text = el("textarea", { rows: 2, value: state.sentence, oninput: (event) => { state.sentence = event.target.value; } });
    const choice = select([["", t("own_sentence")], ...sentences], sentences.includes(state.sentence) ? state.sentence : "", (chosen) => { if (chosen) text.value = state.sentence = chosen; });
    const model = this.models.length > 1 ? field(t("model"), select(this.models.map((each) => each.name), this.model.name, (name) => { this.state.model = name; this.state.sentence = undefined; this.connectedCallback(); })) : null;
    show(body, el("div", { class: "row" }, model, field(t("choose_sentence"), choice)), field(t("sentence"), text));
  }

  drawn(found, mark = () => ({})) {
    return el("ul", { class: "pieces", role: "list" }, found.map((piece, n) => {
      const { kind = "", below = piece.id, text = piece.text } = mark(piece, n);
      return el("li", { class: `piece ${piece.special ? "special" : ""} ${kind} ${n && !piece.special && piece.start === found[n - 1].stop ? "joined" : ""}` }, el("span", {}, text.replace(/^ /, "") || "␣"), el("small", {}, below));
    }));
  }

  async show_pieces(body) {
    const { t, state } = this;
    const found = await this.own();
    const plain = found.filter((each) => !each.special);
    const split = plain.filter((each, n) => n && each.start === plain[n - 1].stop && /[\p{L}\p{N}]$/u.test(plain[n - 1].text) && /^[\p{L}\p{N}]/u.test(each.text)).length;
    show(body, this.drawn(found), el("p", {}, t("pieces_count", { pieces: number(plain.length), special: number(found.length - plain.length), characters: number(Array.from(state.sentence).length) })), el("p", { class: "quiet" }, split && this.reads === "en" ? t("pieces_split", { split: number(split) }) : t("pieces_whole")));
  }

  async show_vectors(body) {
    const { t, state } = this;
    const found = await this.own();
    const [vectors] = await ask("embed_all", { inputs: state.sentence, model: this.model.name });
    const labels = found.map((each) => each.text.trim() || "␣");
    const values = cosines(vectors);
    const off = values.flatMap((row, n) => row.filter((_, m) => m !== n));
    show(body, heatMap({ title: t("vectors_picture"), labels, columns: labels, values, low: Math.min(...off), high: Math.max(...off), show: (value) => number(Math.round(value * 10) / 10 || 0, 1) }),
      el("p", {}, t("vectors_width", { width: number(vectors[0].length), pieces: number(found.length) })), el("p", { class: "quiet" }, t("vectors_caution")),
      el("details", {}, el("summary", {}, t("vectors_numbers", { piece: labels[1] ?? labels[0] })), el("p", { class: "mono small" }, (vectors[1] ?? vectors[0]).slice(0, 24).map((each) => number(each, 2)).join("  "), " …")));
  }

  async show_attention(body) {
    const { t, state } = this;
    if (!this.offered.paths.has("/v1/look/attention")) return show(body, el("p", { class: "quiet" }, t("attention_missing")));
    await this.own();
    const asked = { model: this.model.name, inputs: state.sentence };
    const one = (answer) => (answer.output ?? answer.outputs).streams[0];
    let layer = state.layer ?? -1, head = state.head ?? 0;
    const picture = el("div", {});
    const place = el("div", { class: "row" });
    const drawn = async () => {
      const stream = one(await ask("v1/look/attention", { ...asked, layer }));
      const [shown] = stream.layers;
      layer = shown.layer;
      head = Math.min(head, stream.heads - 1);
      Object.assign(state, { layer, head });
      const numbers = (count) => Array.from({ length: count }, (_, n) => [String(n + 1), String(n + 1)]);
      const layers = select(numbers(stream.depth), String(layer), (chosen) => { layer = Number(chosen); redraw("layer"); });
      const heads = select(numbers(stream.heads), String(head + 1), (chosen) => { head = Number(chosen) - 1; redraw("head"); });
      layers.dataset.choice = "layer";
      heads.dataset.choice = "head";
      show(place, field(t("layer"), layers), field(t("head"), heads));
      const labels = (pieces) => pieces.map((each) => each.text.trim() || "␣");
      show(picture, heatMap({ title: t("attention_picture", { layer, head: head + 1 }), labels: labels(stream.queries), columns: labels(stream.keys), values: shown.weights[head], low: 0, show: (value) => (value >= 0.005 ? number(value, 2).replace(/^0/, "") : "") }));
    };
    const redraw = (focus) => busy(picture, null, async () => {
      await drawn();
      place.querySelector(`[data-choice=${focus}]`).focus();
    }, mistake);
    await drawn();
    show(body, place, picture, el("p", { class: "quiet" }, t("attention_caution")));
  }

  async show_masks(body) {
    const { t, state } = this;
    const text = [state.sentence, ...this.sentences().filter((each) => each !== state.sentence)].join(" ");
    const found = (await this.pieces(text)).filter((each) => !each.special).slice(0, 120);
    const size = this.gap.vocabulary ?? 1000;
    const ids = Array.from({ length: 60 }, () => [Math.floor(Math.random() * size)]);
    const words = (await ask("decode", { ids, model: this.model.name })).map((each) => each.trim()).filter((each) => each && !each.includes("\ufffd"));
    const counts = { drawn: 0, masked: 0, replaced: 0, kept: 0 };
    const picture = el("div", {}), sums = el("div", { role: "status" });
    // As the papers have it: first which pieces are asked about, then what becomes of each.
    const draw = () => {
      const many = Math.max(1, Math.round(found.length * CHOSEN));
      const chosen = new Set(found.map((_, n) => [Math.random(), n]).sort((one, other) => one[0] - other[0]).slice(0, many).map(([, n]) => n));
      counts.drawn += found.length;
      return found.map((_, n) => {
        if (!chosen.has(n)) return "";
        const chance = Math.random();
        const fate = chance < MASKED ? "masked" : chance < MASKED + REPLACED ? "replaced" : "kept";
        counts[fate] += 1;
        return fate;
      });
    };
    const add = (times) => {
      let fates;
      for (let n = 0; n < times; n++) fates = draw();
      show(picture, this.drawn(found, (piece, n) => ({
        kind: fates[n], below: fates[n] ? t(`fate_${fates[n]}`) : "",
        text: fates[n] === "masked" ? this.gap.mask : fates[n] === "replaced" ? words[Math.floor(Math.random() * words.length)] ?? "?" : piece.text,
      })));
      const asked = counts.masked + counts.replaced + counts.kept;
      show(sums, el("p", {}, t("masks_sum", { asked: number(asked), drawn: number(counts.drawn), share: percent(asked / counts.drawn) })),
        barList(["masked", "replaced", "kept"].map((each) => ({ label: t(`fate_${each}`), value: counts[each] / asked, text: percent(counts[each] / asked) })), { label: t("masks_picture") }));
    };
    add(1);
    show(body, picture, el("p", { class: "row" }, button(t("draw"), () => add(1)), button(t("draw_many"), () => add(200))), sums, el("p", { class: "quiet" }, t("masks_why")));
  }

  async show_gap(body) {
    const { t, state } = this;
    const found = (await this.own()).filter((each) => !each.special);
    const points = Array.from(state.sentence);
    const question = el("div", {});
    const hide = (n) => {
      const { start, stop, text } = found[n];
      const begin = start + (text.length - text.trimStart().length);
      const asked = points.slice(0, begin).join("") + this.gap.mask + points.slice(stop).join("");
      const guess = el("input", { autocomplete: "off", spellcheck: "false" });
      const result = el("div", { "aria-live": "polite" });
      const control = button(t("reveal"), () => reveal(), { class: "main" });
      const reveal = () => busy(result, control, async () => {
        const own = guess.value.trim();
        const all = await ask(this.gap.path, { model: this.model.name, inputs: asked, top: 1000 });
        const candidates = all.outputs.gaps[0];
        const plain = (word) => word.trim().replace(/^##/, "").toLowerCase();
        const rank = (word) => candidates.findIndex((each) => plain(each.word) === plain(word));
        const said = (word, key) => {
          const place = rank(word);
          return place < 0 ? t(`${key}_far`, { word }) : t(key, { word, rank: number(place + 1), probability: likely(candidates[place].score) });
        };
        show(result, barList(candidates.slice(0, 8).map((each) => ({ label: each.word, value: each.score, text: likely(each.score) })), { label: t("model_says") }),
          el("p", {}, said(text.trim(), "right_word")), own ? el("p", {}, said(own, "your_word")) : null);
      }, mistake);
      guess.addEventListener("keydown", (event) => { if (event.key === "Enter") reveal(); });
      show(question, el("p", { class: "headline" }, asked), el("div", { class: "row" }, field(t("your_guess"), guess), control), result);
      guess.focus();
    };
    show(body, el("div", { class: "tokens", role: "group", "aria-label": t("hide_one") }, found.map((each, n) => button(each.text.trim() || "␣", () => hide(n), { class: "token" }))), el("p", { class: "quiet" }, t("hide_one")), question);
  }
}
