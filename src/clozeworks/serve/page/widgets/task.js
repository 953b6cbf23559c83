// Any task: fields for its inputs, and its prediction as the task itself shows it.

import { ask } from "../api.js";
import { busy, fieldsOf, optionsOf, shownAnswer, usage } from "../asking.js";
import { button, el, mistake, show } from "../elements.js";

export default function widget({ model, form, t, state, example }) {
  state.inputs ??= {};
  state.options ??= {};
  const fields = fieldsOf(form, t, state.inputs, example(form));
  const options = optionsOf(form, t, state.options);
  const result = el("div", { class: "result", "aria-live": "polite" }, el("p", { class: "quiet" }, t("answer_here")));
  const control = button(t("ask"), null, { class: "main" });
  const run = () => busy(result, control, async () => {
    const inputs = fields.read();
    const answer = await ask(form.path, { model: model.name, inputs, show: true, ...options.read() });
    show(result, shownAnswer(answer.shown, t, inputs), usage(answer, t));
  }, mistake);
  control.addEventListener("click", run);
  return el("div", { class: "columns" },
    el("div", { onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(); } }, fields.element, options.element, el("p", {}, control)),
    el("section", { "aria-label": t("answer") }, result));
}
