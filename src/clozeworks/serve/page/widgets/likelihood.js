// Likelihood: how likely each token of a text is after those before it.

import { ask } from "../api.js";
import { busy, likely, usage } from "../asking.js";
import { tokenButtons } from "../tokens.js";
import { button, el, field, mistake, number, show } from "../elements.js";

export default function widget({ model, form, t, state, language }) {
  state.text ??= t("likelihood_example", { language });
  const text = el("textarea", { rows: 4, value: state.text, oninput: (event) => { state.text = event.target.value; } });
  const result = el("div", { class: "result", "aria-live": "polite" }, el("p", { class: "quiet" }, t("answer_here")));
  const control = button(t("likelihood_ask"), null, { class: "main" });
  control.addEventListener("click", () => busy(result, control, async () => {
    const answer = await ask(form.path, { model: model.name, inputs: text.value });
    const { tokens, logprobs } = answer.outputs;
    const mean = logprobs.reduce((sum, each) => sum + each, 0) / (logprobs.length || 1);
    const read = el("p", { role: "status", class: "quiet" }, t("token_hint"));
    show(result, tokenButtons(tokens.map((each, n) => ({ text: each, log: logprobs[n] })), { label: t("likelihood_title"), act: (n) => show(read, t("token_said", { token: tokens[n], probability: likely(Math.exp(logprobs[n])) })) }), read,
      el("p", {}, t("likelihood_total", { perplexity: number(Math.exp(-mean), 2), count: number(tokens.length) })), usage(answer, t));
  }, mistake));
  return el("div", { class: "columns" }, el("div", {}, field(t("text"), text), el("p", {}, control)), el("section", { "aria-label": t("answer") }, result));
}
