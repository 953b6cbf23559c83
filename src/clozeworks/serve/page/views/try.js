// Try: a model, one of its abilities, and the widget that suits what the ability takes.

import { ask } from "../api.js";
import { worded } from "../asking.js";
import { el, field, mistake, select, show } from "../elements.js";
import file, { droppable } from "../widgets/file.js";

const FILES = ["task", "gaps", "writing", "likelihood"]; // kinds whose rows a file may hold
const FIRST = ["gaps", "writing"]; // what a model without a task is asked first

export default class extends HTMLElement {
  async connectedCallback() {
    const { t } = this;
    droppable(this, (dropped) => this.file?.read(dropped));
    try {
      const { models } = await ask("v1/abilities");
      this.models = models.filter((each) => each.abilities.length);
    } catch (error) {
      return show(this, mistake(error));
    }
    if (!this.models.length) return show(this, el("p", {}, t("no_models")));
    await this.draw();
  }

  disconnectedCallback() {
    this.widget?.stop?.();
    this.file?.stop();
  }

  moved() {
    if (!this.models) return; // it is drawn when they have come
    this.disconnectedCallback();
    return this.draw();
  }

  async draw() {
    const { t, state, language } = this;
    const [name = state.model, ability = state.ability] = this.place;
    const model = this.models.find((each) => each.name === name) ?? this.models[0];
    if (this.place[0] && model.name !== this.place[0]) return show(this, mistake(t("no_model", { name: this.place[0] })));
    const usual = model.forms[model.task] ? model.task : FIRST.map((kind) => model.abilities.find((each) => model.forms[each].kind === kind)).find(Boolean);
    const chosen = model.forms[ability] ? ability : usual ?? model.abilities[0];
    Object.assign(state, { model: model.name, ability: chosen });
    const form = model.forms[chosen];
    const title = ([each, { title: own, kind }]) => [each, own ? worded(t, own) : t(`kind_${kind}`)];
    const models = select(this.models.map((each) => each.name), model.name, (other) => this.go("try", other));
    const abilities = select(Object.entries(model.forms).map(title), chosen, (other) => this.go("try", model.name, other));
    const summary = form.title ? worded(t, `about ${form.title}`, form.summary) : t(`about_${form.kind}`);
    const focused = this.contains(document.activeElement) ? document.activeElement.dataset.choice : null;
    models.dataset.choice = "model";
    abilities.dataset.choice = "ability";
    const place = el("div", {});
    show(this, el("div", { class: "row chooser" }, field(t("model"), models), field(t("ability"), abilities)),
      el("div", { class: "card" }, el("p", { class: "quiet" }, summary, model.max_length ? ` ${t("longest", { tokens: model.max_length })}` : ""), place));
    if (focused) this.querySelector(`[data-choice=${focused}]`)?.focus();
    const { default: widget } = await import(`../widgets/${form.kind}.js`);
    if (!place.isConnected) return; // something else was chosen meanwhile
    // Where a model does not read the language of the page, examples are in one that it reads.
    const reads = model.reads?.length && !model.reads.includes(language) ? model.reads[0] : language;
    const own = (state[`${model.name} ${chosen}`] ??= {});
    const about = { model, form, t, state: own, offered: this.offered, models: this.models, language: reads, example: (asked) => examples(t, asked, reads) };
    this.widget = widget(about);
    show(place, this.widget);
    this.file = null;
    if (FILES.includes(form.kind)) this.append((this.file = file(about)));
  }
}

/** A text to begin with for a form of one text; others have the examples of their task. */
function examples(t, form, language) {
  const texts = form.inputs.filter((each) => each.kind === "text" && each.required);
  return texts.length === 1 ? { [texts[0].name]: t("text_example", { language }) } : {};
}
