// One word in many contexts: a map, how alike it is in each layer, and the nearest contexts.

import { lineChart } from "../charts.js";
import { button, el, number, percent, show, svg, table } from "../elements.js";

const WIDE = 640, HIGH = 420, EDGE = 24;
const SHAPES = [
  (x, y) => svg("circle", { cx: x, cy: y, r: 6 }),
  (x, y) => svg("rect", { x: x - 5.5, y: y - 5.5, width: 11, height: 11 }),
  (x, y) => svg("path", { d: `M${x} ${y - 7}L${x + 7} ${y + 5}L${x - 7} ${y + 5}Z` }),
  (x, y) => svg("path", { d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z` }),
];

/** A word in its contexts. */
export function contexts(record, t) {
  const places = record.occurrences;
  const names = [...new Set(places.map((each) => each.label).filter((each) => each !== null))];
  const kind = (each) => (names.length ? Math.max(0, names.indexOf(each.label)) : each.cluster);
  const close = el("div", { role: "status", "aria-live": "polite" });
  const across = places.map((each) => each.x), down = places.map((each) => each.y);
  const scale = (values, size) => {
    const low = Math.min(...values), high = Math.max(...values);
    return (value) => EDGE + ((value - low) / (high - low || 1)) * (size - 2 * EDGE);
  };
  const x = scale(across, WIDE), y = scale(down, HIGH);

  const context = (each) => el("span", {}, each.before, el("strong", {}, each.word), each.after);
  const points = places.map((each, n) => {
    const point = SHAPES[kind(each) % SHAPES.length](x(each.x), HIGH - y(each.y));
    point.setAttribute("class", "point");
    point.style.setProperty("fill", `var(--s${(kind(each) % 8) + 1})`);
    point.append(svg("title", {}, `${n + 1}. ${each.before}${each.word}${each.after}`));
    point.addEventListener("click", () => look(n));
    return point;
  });

  function look(n) {
    const each = places[n];
    points.forEach((point, m) => point.classList.toggle("chosen", m === n));
    points.forEach((point, m) => point.classList.toggle("near", each.nearest.some(([other]) => other === m)));
    show(close, el("h3", {}, t("nearest_of", { number: n + 1 })), el("p", {}, context(each)),
      el("ol", {}, each.nearest.map(([other, cosine]) => el("li", {}, context(places[other]), " ", el("span", { class: "quiet number" }, number(cosine, 2)), " ", button(t("go"), () => look(other), { class: "small", "aria-label": t("go_to", { number: other + 1 }) })))));
  }

  const chart = lineChart({ title: t("similarity"), x: t("layer"), y: t("cosine") });
  const series = [{ name: t("self_similarity"), points: record.layers.map((each) => [each.layer, each.self_similarity]) }];
  if (record.layers[0].baseline !== null) series.push({ name: t("baseline"), points: record.layers.map((each) => [each.layer, each.baseline]), dashed: true });
  chart.update(series);

  const legend = names.length ? names : record.clusters > 1 ? [...Array(record.clusters).keys()].map((n) => t("cluster", { number: n + 1 })) : [];
  const rows = places.map((each, n) => [n + 1, each.label ?? t("cluster", { number: each.cluster + 1 }), context(each), button(t("nearest"), () => { look(n); close.scrollIntoView?.({ block: "nearest" }); }, { class: "small", "aria-label": t("nearest_of", { number: n + 1 }) })]);
  look(0);
  const facts = [t("map_shows", { share: percent(record.explained, 0) })];
  if (record.others < 20) facts.push(t("few_others", { count: record.others }));
  if (record.senses) facts.push(t("senses", { right: percent(record.senses.right), macro: percent(record.senses.macro), most: percent(record.senses.most_frequent) }));
  return el("div", {}, el("p", { class: "quiet" }, t("contexts_caution")), el("p", {}, facts.join(t("between"))),
    el("div", { class: "columns" },
      el("figure", { class: "chart" }, el("figcaption", {}, t("map", { word: record.word, layer: record.layer === "sum_last_four" ? t("sum_last_four") : record.layer })),
        svg("svg", { class: "map", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": t("map_label", { count: places.length }) }, points),
        legend.length ? el("ul", { class: "legend" }, legend.map((each, n) => el("li", {}, el("span", { class: "swatch", "aria-hidden": "true", style: { background: `var(--s${(n % 8) + 1})` } }), each))) : null),
      el("div", {}, chart, close)),
    el("h2", {}, t("all_contexts")),
    table(t("all_contexts"), [{ title: "#", number: true }, t("group"), t("context"), t("nearest")], rows));
}
