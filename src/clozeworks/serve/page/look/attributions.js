// Attributions: the words of a text coloured by what they do, and the numbers below.

import { el, number, percent, table } from "../elements.js";
import { shade } from "./pieces.js";

/** What each word does to a number that the model computes. */
export function attributions(record, t) {
  const most = Math.max(...record.words.map((each) => Math.abs(each.integrated)), 1e-12);
  const digits = Math.min(8, Math.max(3, 2 - Math.floor(Math.log10(most))));
  const signed = (value) => (value === null ? "–" : `${value > 0 ? "+" : ""}${number(value, digits)}`);
  const parts = record.texts.map((text, part) => {
    const words = record.words.filter((each) => each.part === part && !each.special && each.end);
    const shown = [];
    let done = 0;
    for (const word of words) {
      shown.push(text.slice(done, word.begin), el("span", { class: "word", style: { background: shade(word.integrated / most) }, title: signed(word.integrated) }, text.slice(word.begin, word.end)));
      done = word.end;
    }
    return el("p", { class: "attributed" }, shown, el("span", { class: "quiet" }, text.slice(done)));
  });
  const rows = record.words.filter((each) => !each.special).map((each) => [each.text, signed(each.integrated), signed(each.left_out), signed(each.gradient_input)]);
  const difference = record.value - record.baseline_value;
  const facts = [
    t("attributed", { target: t(`target_${record.about.kind}`, record.about), value: number(record.value, digits), baseline: t(`baseline_${record.baseline}`), other: number(record.baseline_value, digits) }),
    t("complete", { difference: number(difference, digits), rest: percent(record.rest_fraction, 2), steps: number(record.steps) }),
  ];
  if (record.rest_fraction > 0.05) facts.push(t("incomplete"));
  if (record.rank_correlation !== null) facts.push(t("agree", { value: number(record.rank_correlation, 2) }));
  return el("div", {}, el("p", { class: "quiet" }, t("attributions_caution")), el("p", {}, facts.join(t("between"))),
    el("p", { class: "legend-line" }, el("span", { class: "word", style: { background: shade(-1) } }, t("lowers")), " ", el("span", { class: "word", style: { background: shade(1) } }, t("raises"))),
    parts, table(t("attributions"), [{ title: t("word"), head: true }, { title: t("share"), number: true }, { title: t("left_out"), number: true }, { title: t("gradient_input"), number: true }], rows));
}
