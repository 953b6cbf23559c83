// Attention: all heads at a glance, one head as two matrices and as lines, all heads together.

import { button, el, field, live, number, select, show, svg } from "../elements.js";
import { colorOf, ofHead, paint, unpacked } from "./matrices.js";
import { name, pieceText } from "./pieces.js";

const MEASURES = ["entropy", "distance", "first", "separator", "previous", "same", "next"];
const LINES = 64; // more tokens than this are not joined by lines
const LABELS = 28; // nor written beside a matrix

/**
 * An attention: `record` is what the server says of one layer, or of all. `more(layer, head)` is a
 * promise of another layer's record; without it there is only what the record holds.
 */
export function attention(record, t, more) {
  const layers = new Map();
  let stream = record.streams[0];
  let layer = stream.layers.at(-1)?.layer ?? stream.depth;
  let head = stream.head ?? 1;
  let together = false;
  const first = () => Math.max(0, stream.queries.findIndex((each) => !each.special));
  let query = first();
  let measure = "entropy";
  let turn = 0;

  const key = (kind, number, one) => `${kind} ${number} ${one ?? "all"}`;
  function keep(found) {
    for (const own of found.streams) {
      for (const each of own.layers) {
        const matrices = Object.fromEntries(["weights", "added", "added_together", "rollout"].map((each2) => [each2, unpacked(each[each2])]));
        layers.set(key(own.kind, each.layer, own.head), { ...matrices, first: own.head ?? 1 });
      }
    }
  }
  const known = () => layers.get(key(stream.kind, layer)) ?? layers.get(key(stream.kind, layer, head));
  keep(record);

  const overview = el("div", { class: "heads", role: "group", "aria-label": t("heads") });
  const figures = el("div", { class: "columns" });
  const lines = el("div", {});
  const words = el("div", {});
  const said = live("");
  const about = el("p", {}, "");
  const wait = live("");

  const title = (each) => t("head_title", { layer: each.layer, head: each.head, measure: t(measure), value: each[measure] === null ? "–" : number(each[measure], 2) });

  function drawOverview() {
    const values = stream.summaries.map((each) => each[measure] ?? 0);
    const low = Math.min(...values), high = Math.max(...values);
    overview.style.setProperty("--heads", stream.heads);
    const cells = stream.summaries.map((each) => {
      const chosen = !together && each.layer === layer && each.head === head;
      const share = (high - low ? ((each[measure] ?? 0) - low) / (high - low) : 0.5);
      const cell = button("", () => { together = false; choose(each.layer, each.head); }, {
        class: "head", title: title(each), "aria-label": title(each), "aria-pressed": String(chosen),
        tabindex: each.layer === layer && each.head === head ? 0 : -1,
        style: { background: `color-mix(in srgb, var(--s1) ${Math.round(8 + share * 80)}%, var(--surface))` },
      });
      cell.dataset.at = `${each.layer} ${each.head}`;
      return cell;
    });
    const rows = [];
    for (let row = 0; row < stream.depth; row++) rows.push(el("span", { class: "quiet", "aria-hidden": "true" }, row + 1), cells.slice(row * stream.heads, (row + 1) * stream.heads));
    show(overview, rows);
  }

  overview.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!by) return;
    event.preventDefault();
    together = false;
    choose(Math.min(stream.depth, Math.max(1, layer + by[0])), Math.min(stream.heads, Math.max(1, head + by[1])));
    overview.querySelector(`[data-at="${layer} ${head}"]`)?.focus();
  });

  async function choose(nextLayer, nextHead) {
    [layer, head] = [nextLayer, nextHead];
    const mine = ++turn;
    markChosen();
    if (!known() && more) {
      show(wait, t("loading"));
      try {
        keep(await more(layer, head));
      } catch (error) {
        if (mine === turn) show(wait, error.message);
        return;
      }
      show(wait);
      if (mine !== turn) return;
    }
    draw();
  }

  function markChosen() {
    for (const cell of overview.querySelectorAll("button")) {
      const here = cell.dataset.at === `${layer} ${head}`;
      cell.setAttribute("aria-pressed", String(here && !together));
      cell.tabIndex = here ? 0 : -1;
    }
  }

  const shown = () => (together ? ["added_together", "rollout"] : ["weights", "added"]);

  function draw() {
    const found = known();
    show(about, together ? t("all_heads", { layer }) : t("one_head", { layer, head }));
    if (!found) {
      show(figures, el("p", { class: "quiet" }, t("not_here", { layer })));
      show(lines);
      show(words);
      return;
    }
    query = Math.min(query, stream.queries.length - 1);
    const pairs = shown().map((each) => [each, ofHead(found[each], head, found.first)]);
    show(figures, pairs.map(([each, values]) => matrix(each, values)));
    drawLines(pairs);
    drawWords(pairs);
  }

  function matrix(which, values) {
    const rows = stream.queries.length, columns = stream.keys.length;
    const most = values.reduce((high, each) => Math.max(high, each), 0);
    const canvas = el("canvas", { class: "matrix", tabindex: 0, role: "img", "aria-label": t("matrix_label", { what: t(which), rows, columns }) });
    const labels = Math.max(rows, columns) <= LABELS;
    const figure = el("figure", { class: "chart" }, el("figcaption", {}, t(which)),
      el("div", { class: labels ? "labelled matrix-box" : "matrix-box", style: { "--rows": rows, "--columns": columns } },
        labels ? el("ol", { class: "of-rows", "aria-hidden": "true" }, stream.queries.map((each) => el("li", {}, name(each)))) : null,
        canvas,
        labels ? el("ol", { class: "of-columns", "aria-hidden": "true" }, stream.keys.map((each) => el("li", {}, name(each)))) : null),
      el("p", { class: "quiet" }, el("small", {}, t("darkest", { value: number(most, 3) }))));
    requestAnimationFrame(() => paint(canvas, values, rows, columns, most, colorOf(figure, "--surface"), colorOf(figure, "--s1")));
    let at = [query, 0];
    const read = () => {
      const value = values[at[0] * columns + at[1]];
      show(said, t("cell", { query: name(stream.queries[at[0]]), key: name(stream.keys[at[1]]), what: t(which), value: number(value, 3) }));
    };
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      at = [Math.floor(((event.clientY - box.top) / box.height) * rows), Math.floor(((event.clientX - box.left) / box.width) * columns)].map((each, n) => Math.max(0, Math.min([rows, columns][n] - 1, each)));
      read();
    });
    canvas.addEventListener("click", () => { query = at[0]; draw(); });
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!by) return;
      event.preventDefault();
      at = [Math.max(0, Math.min(rows - 1, at[0] + by[0])), Math.max(0, Math.min(columns - 1, at[1] + by[1]))];
      read();
    });
    return figure;
  }

  function drawLines(pairs) {
    const most = Math.max(stream.queries.length, stream.keys.length);
    if (most > LINES) {
      show(lines, el("p", { class: "quiet" }, t("too_many_lines", { most: LINES })));
      return;
    }
    const step = 22, wide = 560, left = 190, right = wide - 190;
    const columns = stream.keys.length;
    const [which, values] = pairs[together ? 0 : 1];
    const high = values.reduce((top, each) => Math.max(top, each), 0) || 1;
    const drawn = [];
    for (let row = 0; row < stream.queries.length; row++) {
      for (let column = 0; column < columns; column++) {
        const share = values[row * columns + column] / high;
        if (share < (row === query ? 0.02 : 0.15)) continue;
        drawn.push(svg("line", {
          x1: left + 6, y1: row * step + 12, x2: right - 6, y2: column * step + 12,
          class: row === query ? "of-query" : "of-others", "stroke-width": row === query ? 1 + 3 * share : 1 + share,
          style: { opacity: String(row === query ? 0.35 + 0.65 * share : 0.12 + 0.3 * share) },
        }));
      }
    }
    const label = (piece, n, x, anchor, own) => svg("text", { x, y: n * step + 16, "text-anchor": anchor, class: `${piece.special ? "special" : ""}${own ? " chosen" : ""}` }, name(piece).slice(0, 24));
    show(lines, el("figure", { class: "chart lines" }, el("figcaption", {}, t("lines", { what: t(which) })),
      svg("svg", { viewBox: `0 0 ${wide} ${most * step + 8}`, role: "img", "aria-label": t("lines", { what: t(which) }) },
        drawn, stream.queries.map((each, n) => label(each, n, left, "end", n === query)), stream.keys.map((each, n) => label(each, n, right, "start", false)))));
  }

  function drawWords(pairs) {
    const columns = stream.keys.length;
    const rows = pairs.map(([which, values]) => {
      const row = Array.from(values.subarray(query * columns, (query + 1) * columns));
      const high = Math.max(...row) || 1;
      return el("div", {}, el("h3", {}, t("words_of", { query: name(stream.queries[query]), what: t(which) })),
        pieceText(stream.keys, { shares: row.map((each) => each / high), label: t(which) }));
    });
    show(words, el("h2", {}, t("one_token")), el("p", { class: "quiet" }, t("choose_token")),
      pieceText(stream.queries, { chosen: query, label: t("choose_token"), act: (n) => {
        query = n;
        draw();
        words.querySelectorAll("button")[n]?.focus();
      } }), rows);
  }

  const kinds = record.streams.map((each) => [each.kind, t(`kind_${each.kind}`)]);
  const controls = el("div", { class: "row" },
    kinds.length > 1 ? field(t("which"), select(kinds, stream.kind, (chosen) => {
      stream = record.streams.find((each) => each.kind === chosen);
      layer = Math.min(layer, stream.depth);
      query = first();
      drawOverview();
      choose(layer, Math.min(head, stream.heads));
    })) : null,
    field(t("measure"), select(MEASURES.map((each) => [each, t(each)]), measure, (chosen) => { measure = chosen; drawOverview(); }), t("measure_hint")),
    field(t("show"), select([["head", t("show_head")], ["all", t("show_all")]], "head", (chosen) => { together = chosen === "all"; markChosen(); draw(); })));
  drawOverview();
  draw();
  return el("div", {}, el("p", { class: "quiet" }, t("attention_caution")), controls, overview, wait, about, figures, said, lines, words);
}
