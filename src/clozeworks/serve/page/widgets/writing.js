// Writing: token by token as it comes, with what else could have come; or a chat, and what the model reads of it.

import { stream } from "../api.js";
import { likely } from "../asking.js";
import { barList } from "../charts.js";
import { button, check, details, el, field, live, mistake, show } from "../elements.js";
import { readable, tokenButton } from "../tokens.js";

const ALTERNATIVES = 8;

export default function widget({ model, form, t, state, language }) {
  state.prompt ??= t("writing_example", { language });
  state.settings ??= { max_new_tokens: "60", temperature: "0", top_p: "", seed: "0" };
  state.tokens ??= []; // of the text, or of the last answer of the chat
  state.turns ??= [];
  state.chat ??= form.chat;
  let going = null; // aborts what is being written
  let chosen = null; // the token whose alternatives are shown

  const prompt = el("textarea", { rows: 4, value: state.prompt, oninput: (event) => { state.prompt = event.target.value; } });
  const settings = ["max_new_tokens", "temperature", "top_p", "seed"].map((name) => field(t(name), el("input", {
    type: "number", min: 0, step: name === "max_new_tokens" || name === "seed" ? 1 : 0.05, value: state.settings[name],
    oninput: (event) => { state.settings[name] = event.target.value; },
  }), t(`${name}_hint`)));
  const turns = el("div", { class: "turns" });
  const written = el("div", { class: "tokens", role: "group", "aria-label": t("written") });
  const others = el("div", { "aria-live": "polite" });
  const said = live(t("writing_hint"));
  const read = el("pre", { tabindex: 0, "aria-label": t("read_by_model") });
  const template = details(t("read_by_model"), el("p", { class: "quiet small" }, t("read_hint")), read);
  const begin = button("", null, { class: "main" });
  const step = button(t("step"), () => go({ first: state.tokens.map((each) => each.token), most: state.tokens.length + 1 }));
  const stop = button(t("stop"), () => going?.abort());
  const clear = button(t("clear"), () => {
    Object.assign(state, { tokens: [], turns: [] });
    draw();
    show(said, t("writing_hint"));
  });

  function draw() {
    begin.textContent = state.chat ? t("send") : t("write");
    show(turns, state.turns.map(({ role, content }) => el("p", { class: `turn ${role}` }, el("strong", { class: "quiet small" }, t(`role_${role}`)), el("br"), content)),
      state.chat && state.tokens.length ? el("p", { class: "quiet small" }, el("strong", {}, t("role_assistant"))) : null);
    show(written, state.tokens.map((token, n) => tokenButton(token, n, alternatives, chosen)));
    show(others);
    prompt.parentElement?.querySelector("label")?.replaceChildren(state.chat ? t("message") : t("prompt"));
    step.disabled = stop.disabled = false;
    stop.disabled = !going;
    begin.disabled = clear.disabled = Boolean(going);
    step.disabled = Boolean(going) || (state.chat && !state.tokens.length);
  }

  function alternatives(n) {
    chosen = n;
    [...written.children].forEach((each, m) => each.setAttribute("aria-pressed", String(m === n)));
    const token = state.tokens[n];
    const items = token.others.map((each) => ({
      label: readable(each.text) || "∅", value: Math.exp(each.log), text: likely(Math.exp(each.log)),
      act: going ? null : () => go({ first: [...state.tokens.slice(0, n).map((one) => one.token), each.token] }),
    }));
    show(others, el("h3", {}, t("alternatives", { token: readable(token.text), probability: likely(Math.exp(token.log)) })), barList(items, { label: t("alternatives_label") }), el("p", { class: "quiet small" }, t("alternatives_hint")));
  }

  /** Writes on; `first` are tokens that the text begins with, `most` how many there are to be. */
  async function go({ first = [], most } = {}) {
    going?.abort();
    const mine = going = new AbortController();
    const kept = state.tokens.slice(0, 0);
    state.tokens = kept;
    chosen = null;
    draw();
    show(said, t("writing"));
    const set = Object.fromEntries(Object.entries(state.settings).filter(([, value]) => value !== "").map(([name, value]) => [name, Number(value)]));
    if (!set.temperature) {
      delete set.top_p;
      delete set.seed;
    }
    const room = most ?? Math.max(set.max_new_tokens || 60, first.length + 1);
    const asked = state.chat ? { messages: state.turns } : { inputs: state.prompt };
    let end = null, tokens = 0;
    try {
      for await (const { data } of stream(form.path, { model: model.name, ...asked, ...set, max_new_tokens: room, first_tokens: first.length ? first : undefined, top_logprobs: ALTERNATIVES, stream: true, show: true }, { signal: mine.signal })) {
        if (data.prompts) {
          read.textContent = data.prompts[0];
          tokens = data.input_tokens[0];
        }
        for (const token of data.tokens ?? []) {
          written.append(tokenButton(token, state.tokens.length, alternatives));
          state.tokens.push(token);
        }
        if (data.whole) end = data.whole;
      }
      state.answer = end?.text ?? "";
      show(said, t(`ended_${end?.finish_reason ?? "stop"}`, { count: state.tokens.length, read: tokens }));
    } catch (error) {
      if (error.name === "AbortError") show(said, t("stopped"));
      else show(said, mistake(error));
    } finally {
      if (going === mine) going = null;
      const focused = others.contains(document.activeElement);
      draw();
      if (focused) written.lastElementChild?.focus();
    }
  }

  begin.addEventListener("click", () => {
    if (state.chat) {
      const content = prompt.value.trim();
      if (!content) return;
      // What was answered last becomes a turn of its own.
      if (state.tokens.length) state.turns.push({ role: "assistant", content: state.answer ?? "" });
      state.turns.push({ role: "user", content });
      prompt.value = state.prompt = "";
    }
    go();
  });
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && (state.chat || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (!going) begin.click();
    }
  });
  const mode = form.chat ? check(t("as_chat"), state.chat, (on) => {
    Object.assign(state, { chat: on, tokens: [], turns: [] });
    draw();
  }) : null;
  const element = el("div", { class: "columns" },
    el("div", {}, mode, field(t("prompt"), prompt, t("writing_keys")), details(t("settings"), settings), el("div", { class: "row" }, begin, step, stop, clear)),
    el("section", { "aria-label": t("answer") }, turns, written, said, others, template));
  element.stop = () => going?.abort();
  draw();
  return element;
}
