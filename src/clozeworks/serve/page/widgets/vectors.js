// Vectors: how similar several texts are, each with each.

import { ask } from "../api.js";
import { busy, usage } from "../asking.js";
import { heatMap } from "../charts.js";
import { button, el, field, mistake, number, select, show } from "../elements.js";
import { cosines } from "../numbers.js";

const MOST = 40;

export default function widget({ model, form, t, state, language }) {
  state.texts ??= t("vectors_example", { language });
  const texts = el("textarea", { rows: 8, value: state.texts, oninput: (event) => { state.texts = event.target.value; } });
  const prompts = Object.keys(model.prompts?.texts ?? {});
  const prompt = prompts.length ? select([["", t("vectors_no_prompt")], ...prompts], state.prompt ?? "", (chosen) => { state.prompt = chosen; }) : null;
  const result = el("div", { class: "result", "aria-live": "polite" }, el("p", { class: "quiet" }, t("answer_here")));
  const control = button(t("vectors_ask"), null, { class: "main" });
  control.addEventListener("click", () => busy(result, control, async () => {
    const lines = texts.value.split("\n").map((each) => each.trim()).filter(Boolean);
    if (lines.length < 2) throw new Error(t("vectors_few"));
    if (lines.length > MOST) throw new Error(t("vectors_many", { most: MOST }));
    const answer = await ask(form.path, { model: model.name, inputs: lines, prompt: state.prompt || undefined });
    const found = cosines(answer.outputs);
    const pairs = found.flatMap((row, n) => row.slice(0, n).map((value, m) => [value, m, n])).sort((one, other) => other[0] - one[0]);
    const [nearest] = pairs, farthest = pairs.at(-1);
    show(result, heatMap({ title: t("vectors_title"), labels: lines, values: found, show: (value) => number(value, 2) }),
      el("p", {}, t("vectors_nearest", { first: nearest[1] + 1, second: nearest[2] + 1, value: number(nearest[0], 3) })),
      pairs.length > 1 ? el("p", {}, t("vectors_farthest", { first: farthest[1] + 1, second: farthest[2] + 1, value: number(farthest[0], 3) })) : null,
      el("p", { class: "quiet small" }, t("vectors_note", { width: number(answer.outputs[0].length), pooling: model.pooling ?? "" })), usage(answer, t));
  }, mistake));
  return el("div", { class: "columns" },
    el("div", {}, field(t("vectors_texts"), texts, t("vectors_hint")), prompt ? field(t("vectors_prompt"), prompt) : null, el("p", {}, control)),
    el("section", { "aria-label": t("answer") }, result));
}
