// Gaps: ranked words for each; a word that is clicked goes into the text.

import { ask } from "../api.js";
import { busy, likely, usage } from "../asking.js";
import { barList } from "../charts.js";
import { button, el, field, mistake, select, show } from "../elements.js";

export default function widget({ model, form, t, state, language }) {
  const gap = form.mask ?? "[MASK]";
  const examples = t("gap_examples", { language }).map((each) => each.replace("[MASK]", gap));
  const fresh = state.text === undefined;
  state.text ??= examples[0];
  state.top ??= "8";
  const text = el("textarea", { rows: 3, value: state.text, spellcheck: "false", oninput: (event) => { state.text = event.target.value; } });
  const top = el("input", { type: "number", min: 1, max: 100, value: state.top, oninput: (event) => { state.top = event.target.value; } });
  const words = el("input", { value: state.words ?? "", oninput: (event) => { state.words = event.target.value; } });
  const example = select([["", t("gap_own")], ...examples], examples.includes(state.text) ? state.text : "", (chosen) => { if (chosen) write(chosen); });
  const result = el("div", { class: "result", "aria-live": "polite" }, el("p", { class: "quiet" }, t("answer_here")));
  const control = button(t("gap_ask"), null, { class: "main" });
  const write = (words) => {
    text.value = state.text = words;
  };
  const run = () => busy(result, control, async () => {
    if (![gap, "[MASK]", "<mask>"].some((each) => text.value.includes(each))) throw new Error(t("gap_none", { gap }));
    const only = (words.value || "").split(/[,，、]/).map((each) => each.trim()).filter(Boolean);
    const answer = await ask(form.path, { model: model.name, inputs: text.value, top: Number(top.value) || 8, words: only.length ? only : undefined, show: true });
    const { gaps, best } = answer.outputs;
    show(result,
      el("p", {}, el("span", { class: "quiet" }, t("gap_best")), " ", best),
      gaps.map((candidates, n) => [
        el("h3", {}, gaps.length > 1 ? t("gap_number", { number: n + 1 }) : t("gap_words")),
        barList(candidates.map((each, rank) => ({
          label: each.word, value: each.score, text: likely(each.score),
          act: async () => {
            write(answer.shown[n][rank]);
            if (gaps.length > 1) await run();
            text.focus();
          },
        })), { label: t("gap_words") }),
      ]),
      el("p", { class: "quiet small" }, t("gap_note")), usage(answer, t));
  }, mistake);
  control.addEventListener("click", run);
  // Somebody who has typed nothing yet is shown the example that this model knows best: in fewest pieces.
  if (fresh) ask("tokenize", { inputs: examples, model: model.name }).then((found) => {
    const pieces = found.map((each, n) => each.length / Array.from(examples[n]).length);
    if (state.text === examples[0]) write((example.value = examples[pieces.indexOf(Math.min(...pieces))]));
  }).catch(() => {});
  const insert = () => {
    const { selectionStart: begin, selectionEnd: end, value } = text;
    write(value.slice(0, begin) + gap + value.slice(end));
    text.focus();
    text.setSelectionRange(begin + gap.length, begin + gap.length);
  };
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      run();
    }
  });
  return el("div", { class: "columns" },
    el("div", {}, field(t("gap_choose"), example), field(t("text"), text, t("gap_hint", { gap })),
      el("div", { class: "row" }, field(t("gap_top"), top), field(t("gap_only"), words)),
      el("p", { class: "row" }, control, button(t("gap_insert", { gap }), insert))),
    el("section", { "aria-label": t("answer") }, result));
}
