// Charts: a bar for each of some numbers, and lines. Colours are --s1 to --s8 of style.css.

import { el, fresh, number, percent, show, svg } from "./elements.js";

/** A bar for each {label, value, text, act}: of `most` (1 if not given), with its text at its end. */
export function barList(items, { most = 1, label } = {}) {
  const bar = ({ label: name, value, text, act }) => {
    const inner = el("span", { style: { width: `${Math.max(0, Math.min(1, value / most)) * 100}%` } });
    return el("li", {},
      act ? el("button", { type: "button", onclick: act }, name) : el("span", {}, name),
      el("span", { class: "bar", "aria-hidden": "true" }, inner),
      el("span", { class: "number" }, text ?? percent(value)));
  };
  // A list whose items are not boxes of their own is none to some screen readers, unless it says so.
  return el("ul", { class: "bars", role: "list", "aria-label": label }, items.map(bar));
}

const WIDTH = 720; // of a drawing, until it is known how wide its place is
const LEFT = 64, RIGHT = 12, TOP = 10, BOTTOM = 34;

function steps(low, high, most = 5) {
  const span = high - low || 1;
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

/** A number in few characters: 12k, 0.031, 2e-5. */
export function brief(value) {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return String(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(1).replace("e+", "e").replace(".0e", "e");
  if (size >= 1e6) return `${number(value / 1e6, size % 1e6 ? 1 : 0)}M`;
  if (size >= 1e4) return `${number(value / 1e3, size % 1e3 ? 1 : 0)}k`;
  return number(value, size >= 100 || Number.isInteger(value) ? 0 : size >= 1 ? 2 : 4).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

/** Of many points of a line those that can be told apart: of each column the first, lowest, highest, last. */
function thinned(points, low, high, columns) {
  if (points.length <= 4 * columns) return points;
  const found = [];
  let column = null, first, least, most, last;
  const end = () => {
    const own = [...new Set([first, least, most, last])].sort((one, other) => one[0] - other[0]);
    found.push(...own);
  };
  for (const point of points) {
    const at = Math.floor(((point[0] - low) / (high - low || 1)) * columns);
    if (at !== column) {
      if (column !== null) end();
      column = at;
      first = least = most = last = point;
    }
    if (point[1] < least[1]) least = point;
    if (point[1] > most[1]) most = point;
    last = point;
  }
  if (column !== null) end();
  return found;
}

/**
 * Lines over one axis: `lineChart({title, x: "step", y: "loss"})`, then `.update(series)` with
 * [{name, points: [[x, y], …], marks: [[x, y, what, "cross"], …], dashed, color}], as often as there
 * is news; `color` counts from 0 and is the place in the list if not given.
 * Points are in order of x; gaps (y is null) break a line. With the pointer, or with the arrow
 * keys, the values at one x are read below. `least` is where the axis begins, unless a value is below.
 */
export function lineChart({ title, x = "", y = "", height = 260, log = false, least } = {}) {
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, tabindex: 0, role: "img", "aria-label": title });
  const legend = el("ul", { class: "legend" });
  const figure = el("figure", { class: "chart" }, title ? el("figcaption", {}, title) : null, picture, legend);
  const clip = fresh("clip");
  let width = WIDTH;
  let series = [], low = 0, high = 1, bottom = 0, top = 1, at = null;
  const scaled = (value) => (log ? Math.log10(value) : value);
  const toX = (value) => LEFT + ((value - low) / (high - low || 1)) * (width - LEFT - RIGHT);
  const toY = (value) => TOP + (1 - (scaled(value) - bottom) / (top - bottom || 1)) * (height - TOP - BOTTOM);
  const color = (n) => `var(--s${((series[n].color ?? n) % 8) + 1})`;
  const usable = (point) => point[1] !== null && Number.isFinite(point[1]) && (!log || point[1] > 0);

  function nearest(points) {
    if (at === null || !points.length) return points.findLast?.(usable) ?? null;
    let begin = 0, end = points.length - 1;
    while (begin < end) {
      const middle = (begin + end) >> 1;
      if (points[middle][0] < at) begin = middle + 1;
      else end = middle;
    }
    if (begin > 0 && at - points[begin - 1][0] < points[begin][0] - at) begin -= 1;
    return points[begin];
  }

  function read() {
    show(legend, series.map(({ name, points }, n) => {
      const point = nearest(points);
      return el("li", {}, el("span", { class: "swatch", "aria-hidden": "true", style: { background: color(n) } }), `${name} `,
        point ? el("strong", {}, point[1] === null ? "–" : brief(point[1])) : null,
        point && x ? el("span", { class: "quiet" }, ` ${x} ${brief(point[0])}`) : null);
    }));
    picture.querySelector(".cursor")?.remove();
    if (at !== null) picture.append(svg("line", { class: "cursor", x1: toX(at), x2: toX(at), y1: TOP, y2: height - BOTTOM }));
  }

  function draw() {
    const all = series.flatMap((each) => each.points).filter(usable);
    if (!all.length) {
      show(picture);
      return read();
    }
    low = Infinity, high = -Infinity, bottom = Infinity, top = -Infinity;
    for (const [px, py] of all) {
      low = Math.min(low, px), high = Math.max(high, px);
      bottom = Math.min(bottom, scaled(py)), top = Math.max(top, scaled(py));
    }
    const margin = (top - bottom) * 0.05 || Math.abs(top) * 0.05 || 1;
    bottom -= margin, top += margin;
    if (least !== undefined && !log) bottom = Math.min(least, bottom + margin);
    const ys = steps(bottom, top).map((each) => (log ? 10 ** each : each));
    const path = (points) => {
      let pen = "M", text = "";
      for (const point of thinned(points, low, high, width - LEFT - RIGHT)) {
        if (!usable(point)) pen = "M";
        else {
          text += `${pen}${toX(point[0]).toFixed(1)} ${toY(point[1]).toFixed(1)}`;
          pen = "L";
        }
      }
      return text;
    };
    show(picture,
      svg("clipPath", { id: clip }, svg("rect", { x: LEFT, y: TOP, width: width - LEFT - RIGHT, height: height - TOP - BOTTOM })),
      ys.map((each) => [svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: toY(each), y2: toY(each) }), svg("text", { x: LEFT - 6, y: toY(each) + 4, "text-anchor": "end" }, brief(each))]),
      steps(low, high, Math.max(2, Math.floor(width / 110))).map((each) => svg("text", { x: toX(each), y: height - BOTTOM + 16, "text-anchor": "middle" }, brief(each))),
      svg("text", { x: width - RIGHT, y: height - 3, "text-anchor": "end" }, x),
      y ? svg("text", { x: LEFT + 4, y: TOP + 10 }, y) : null,
      series.map(({ points, marks = [], dashed }, n) => [
        svg("path", { class: "line", d: path(points), "clip-path": `url(#${clip})`, style: { stroke: color(n) }, "stroke-dasharray": dashed ? "5 4" : null }),
        marks.filter(usable).map((mark) => (mark[3] === "cross"
          ? svg("path", { class: "cross", d: `M${toX(mark[0]) - 5} ${toY(mark[1]) - 5}l10 10m0-10l-10 10` }, svg("title", {}, mark[2] ?? ""))
          : svg("circle", { cx: toX(mark[0]), cy: toY(mark[1]), r: 3.5, style: { fill: color(n) } }, svg("title", {}, mark[2] ?? "")))),
      ]));
    read();
  }

  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * width;
    at = Math.max(low, Math.min(high, low + ((px - LEFT) / (width - LEFT - RIGHT)) * (high - low)));
    read();
  });
  picture.addEventListener("pointerleave", () => { at = null; read(); });
  picture.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) at = Math.max(low, Math.min(high, (at ?? (by > 0 ? low : high)) + (by * (high - low)) / 100));
    else if (event.key === "Escape") at = null;
    else return;
    event.preventDefault();
    read();
  });
  // Drawn as wide as its place is, so that its numbers have the size of other text.
  new ResizeObserver(() => {
    const now = Math.round(Math.max(260, Math.min(1600, figure.clientWidth)));
    if (!figure.clientWidth || now === width) return;
    width = now;
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    draw();
  }).observe(figure);
  figure.update = (fresh) => { series = fresh; draw(); };
  return figure;
}

/**
 * A matrix of numbers: rows and columns have the same labels, numbered. A cell is as dark as its
 * value is between the lowest and the highest one (or `low` and `high`).
 */
export function heatMap({ title, labels, values, columns, low, high, show: write = brief }) {
  const across = columns ?? labels.map((_, n) => String(n + 1));
  const all = values.flat();
  const least = low ?? Math.min(...all), most = high ?? Math.max(...all);
  const level = (value) => Math.max(0, Math.min(1, (value - least) / (most - least || 1)));
  const cell = (value) => el("td", { class: "cell", style: { "--level": `${Math.round(level(value) * 100)}%` } }, write(value));
  return el("figure", { class: "chart" }, title ? el("figcaption", {}, title) : null,
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
      el("table", { class: columns ? "heat close" : "heat" },
        el("thead", {}, el("tr", {}, el("td", {}), across.map((each) => el("th", { scope: "col" }, each)))),
        el("tbody", {}, values.map((row, n) => el("tr", {}, el("th", { scope: "row" }, columns ? labels[n] : `${n + 1}  ${labels[n]}`), row.map(cell)))))));
}
