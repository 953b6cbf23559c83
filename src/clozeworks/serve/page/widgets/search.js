// Search: the documents of an index that fit a query, each with its passage in its place.

import { ask } from "../api.js";
import { busy } from "../asking.js";
import { button, details, el, field, mistake, number, select, show, table } from "../elements.js";

export default function widget({ model, form, t, state, offered, models, language }) {
  state.query ??= t("search_example", { language });
  state.by ??= "vectors";
  state.top ??= "5";
  const query = el("input", { value: state.query, oninput: (event) => { state.query = event.target.value; } });
  const by = select([["vectors", t("search_vectors")], ["words", t("search_words")], ["both", t("search_both")]], state.by, (chosen) => { state.by = chosen; });
  const top = el("input", { type: "number", min: 1, max: 100, value: state.top, oninput: (event) => { state.top = event.target.value; } });
  const rankers = models.filter((each) => Object.values(each.forms).some((one) => one.kind === "ranking")).map((each) => each.name);
  const rerank = rankers.length ? select([["", t("search_no_rerank")], ...rankers], state.rerank ?? "", (chosen) => { state.rerank = chosen; }) : null;
  const result = el("div", { class: "result", "aria-live": "polite" }, el("p", { class: "quiet" }, t("search_size", { count: number(form.documents) })));
  const control = button(t("search_ask"), null, { class: "main" });
  const run = () => busy(result, control, async () => {
    if (!query.value.trim()) throw new Error(t("empty_field", { name: t("search_query") }));
    const answer = await ask(form.path, { model: model.name, inputs: query.value, by: state.by, top: Number(top.value) || 5, rerank: state.rerank || undefined, show: true });
    const hits = answer.outputs;
    show(result, hits.length ? el("ol", { class: "hits" }, hits.map((hit, n) => {
      const { before, after } = answer.shown[n];
      const known = Object.entries(hit.columns ?? {});
      return el("li", {},
        el("p", { class: "quiet small" }, el("strong", {}, hit.id), ` · ${number(hit.score, 3)}`, hit.source_location ? ` · ${hit.source_location}` : ""),
        el("p", { class: "marked" }, el("span", { class: "quiet" }, hit.begin > before.length ? "… " : "", before), el("mark", { class: "k1" }, hit.passage), el("span", { class: "quiet" }, after)),
        known.length ? details(t("search_columns"), table(t("search_columns"), [t("search_name"), t("search_value")], known.map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]))) : null);
    })) : el("p", {}, t("search_nothing")));
  }, mistake);
  control.addEventListener("click", run);
  query.addEventListener("keydown", (event) => { if (event.key === "Enter") run(); });
  return el("div", {}, field(t("search_query"), query),
    el("div", { class: "row" }, field(t("search_by"), by), field(t("search_top"), top), rerank ? field(t("search_rerank"), rerank) : null),
    el("p", {}, control), el("section", { "aria-label": t("answer") }, result));
}
