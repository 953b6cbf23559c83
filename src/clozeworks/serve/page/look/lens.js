// The lens: a table of layers and places with the word that each layer would say.

import { barList } from "../charts.js";
import { button, el, field, number, percent, select, show } from "../elements.js";
import { name, shade } from "./pieces.js";

const PLACES = 40; // that are shown at a time
const MEASURES = ["best", "right", "divergence", "entropy"];

/** What a model would say at each layer. */
export function lens(record, t) {
  let measure = "best";
  let begin = 0;
  const grid = el("div", {});
  const close = el("div", { role: "status", "aria-live": "polite" });

  const value = (reading) => ({ best: reading.words[0]?.[1], right: reading.probability, divergence: reading.divergence, entropy: reading.entropy })[measure];

  function draw() {
    const places = record.places.slice(begin, begin + PLACES);
    const layers = places[0].readings.length;
    const most = measure === "best" || measure === "right" ? 1 : Math.max(...places.flatMap((each) => each.readings.map(value)), 1e-9);
    const rows = [];
    for (let layer = layers - 1; layer >= 0; layer--) {
      rows.push(el("tr", {}, el("th", { scope: "row", class: "number" }, layer === 0 ? t("embeddings") : layer),
        places.map((place) => {
          const reading = place.readings[layer];
          const own = value(reading);
          const isRight = place.right !== null && reading.rank === 1;
          return el("td", { style: { background: own === null || own === undefined ? "none" : shade(own / most) } },
            button(reading.words[0]?.[0] || "␣", () => look(place, reading), { class: `cell${isRight ? " is-right" : ""}`, title: t("lens_cell", { value: own === null ? "–" : number(own, 3), measure: t(`lens_${measure}`) }) }));
        })));
    }
    const heads = places.map((place) => el("th", { scope: "col" }, el("span", { class: place.piece.special ? "quiet" : "" }, name(place.piece)), place.right === null ? null : el("div", { class: "quiet" }, el("small", {}, `→ ${place.right}`))));
    show(grid, el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("lens") },
      el("table", { class: "lens" }, el("caption", { class: "hidden" }, t("lens")), el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("layer")), heads)), el("tbody", {}, rows))),
    record.places.length > PLACES ? el("p", {},
      t("lens_some", { first: begin + 1, last: begin + places.length, count: record.places.length }), " ",
      button(t("earlier"), () => { begin = Math.max(0, begin - PLACES); draw(); }, { class: "small", disabled: begin === 0 }), " ",
      button(t("later"), () => { begin += PLACES; draw(); }, { class: "small", disabled: begin + PLACES >= record.places.length })) : null);
  }

  function look(place, reading) {
    const facts = [t("lens_kl", { value: number(reading.divergence, 2) }), t("lens_bits", { value: number(reading.entropy, 2) })];
    if (place.right !== null) facts.push(t("lens_rank", { word: place.right, rank: number(reading.rank), value: percent(reading.probability, 2) }));
    show(close, el("h3", {}, t("lens_at", { layer: reading.layer === 0 ? t("embeddings") : reading.layer, piece: name(place.piece) })),
      barList(reading.words.map(([word, p]) => ({ label: word || "␣", value: p, text: percent(p, 2) })), { label: t("lens_words") }), el("p", { class: "quiet" }, facts.join(t("between"))));
  }

  draw();
  const first = record.places[0];
  look(first, first.readings.at(-1));
  return el("div", {}, el("p", { class: "quiet" }, t(record.tuned ? "lens_tuned" : "lens_caution"), t("between"), record.follows ? t("lens_follows") : t("lens_gap")),
    el("div", { class: "row" }, field(t("measure"), select(MEASURES.map((each) => [each, t(`lens_${each}`)]), measure, (chosen) => { measure = chosen; draw(); }))),
    grid, close);
}
