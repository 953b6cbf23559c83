// Ranking: documents in order for a query.

import { ask } from "../api.js";
import { busy, usage } from "../asking.js";
import { barList } from "../charts.js";
import { button, el, field, mistake, number, show } from "../elements.js";

export default function widget({ model, form, t, state, language }) {
  state.query ??= t("search_example", { language });
  state.documents ??= t("vectors_example", { language });
  const query = el("input", { value: state.query, oninput: (event) => { state.query = event.target.value; } });
  const documents = el("textarea", { rows: 8, value: state.documents, oninput: (event) => { state.documents = event.target.value; } });
  const result = el("div", { class: "result", "aria-live": "polite" }, el("p", { class: "quiet" }, t("answer_here")));
  const control = button(t("ranking_ask"), null, { class: "main" });
  control.addEventListener("click", () => busy(result, control, async () => {
    const lines = documents.value.split("\n").map((each) => each.trim()).filter(Boolean);
    if (!query.value.trim() || !lines.length) throw new Error(t("ranking_empty"));
    const answer = await ask(form.path, { model: model.name, query: query.value, documents: lines });
    const scores = answer.outputs.map((each) => each.score);
    const low = Math.min(0, ...scores), high = Math.max(1, ...scores);
    show(result, barList(answer.outputs.map((each) => ({ label: lines[each.index], value: each.score - low, text: number(each.score, 3) })), { most: high - low, label: t("ranking_title") }),
      el("p", { class: "quiet small" }, t("ranking_note")), usage(answer, t));
  }, mistake));
  return el("div", { class: "columns" },
    el("div", {}, field(t("search_query"), query), field(t("ranking_documents"), documents, t("vectors_hint")), el("p", {}, control)),
    el("section", { "aria-label": t("answer") }, result));
}
