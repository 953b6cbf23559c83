// Try: asks a model.

import { ask } from "../api.js";
import { el, mistake, show, table } from "../elements.js";

export default class extends HTMLElement {
  async connectedCallback() {
    try {
      const { models } = await ask("v1/abilities");
      show(this, table(this.t("models"), [{ title: this.t("model"), head: true }, this.t("abilities")], models.map((each) => [each.name, each.abilities.join(", ")])));
    } catch (error) {
      show(this, mistake(error));
    }
  }
}
