// Attributions: the words of a text coloured by what they do, and the numbers below.

import { el, number, percent, table } from "../elements.js";
import { shade } from "./pieces.js";

/** What each word does to a number that the model computes. */
export function attributions(record, t) {
  const most = Math.max(...record.words.map((each) => Math.abs(each.integrated)), 1e-12);
  const parts = record.texts.map((text, part) => {
    const words = record.words.filter((each) => each.part === part && !each.special && each.end);
    const shown = [];
    let done = 0;
    for (const word of words) {
      shown.push(text.slice(done, word.begin), el("span", { class: "word", style: { background: shade(word.integrated / most) }, title: number(word.integrated, 3) }, text.slice(word.begin, word.end)));
      done = word.end;
    }
    return el("p", { class: "attributed" }, shown, el("span", { class: "quiet" }, text.slice(done)));
  });
  const signed = (value) => (value === null ? "–" : `${value > 0 ? "+" : ""}${number(value, 3)}`);
  const rows = record.words.filter((each) => !each.special).map((each) => [each.text, signed(each.integrated), signed(each.left_out), signed(each.gradient_input)]);
  const difference = record.value - record.baseline_value;
  const facts = [
    t("attributed", { target: t(`target_${record.about.kind}`, record.about), value: number(record.value, 3), baseline: t(`baseline_${record.baseline}`), other: number(record.baseline_value, 3) }),
    t("complete", { difference: number(difference, 3), rest: percent(record.rest_fraction, 2), steps: number(record.steps) }),
  ];
  if (record.rest_fraction > 0.05) facts.push(t("incomplete"));
  if (record.rank_correlation !== null) facts.push(t("agree", { value: number(record.rank_correlation, 2) }));
  return el("div", {}, el("p", { class: "quiet" }, t("attributions_caution")), el("p", {}, facts.join(" ")),
    el("p", { class: "legend-line" }, el("span", { class: "word", style: { background: shade(-1) } }, t("lowers")), " ", el("span", { class: "word", style: { background: shade(1) } }, t("raises"))),
    parts, table(t("attributions"), [{ title: t("word"), head: true }, { title: t("share"), number: true }, { title: t("left_out"), number: true }, { title: t("gradient_input"), number: true }], rows));
}
