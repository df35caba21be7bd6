// Plots: inline SVG, each with its numbers as text. Owns: scales and shapes. Does not own: what is plotted.

import { el } from "./dom.js";
import { number } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST = 30; // bars of one plot

/** An element of SVG. */
export function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Horizontal bars, each named and numbered. `rows`: {name, value, to (a link), mark (a second value)}. */
export function bars(label, rows, unit, markName = "") {
  const shown = rows.slice(0, MOST);
  const most = Math.max(1, ...shown.flatMap((row) => [row.value, row.mark ?? 0]));
  const items = shown.map((row) => el("li", {},
    el("span", { class: "name" }, row.to ? el("a", { href: row.to }, row.name) : row.name),
    bar(row.value / most, row.mark === undefined ? null : row.mark / most),
    el("span", { class: "value" }, number(row.value, 1), row.mark === undefined ? null : el("span", { class: "quiet" }, ` / ${number(row.mark, 1)}`))));
  const legend = markName ? `${unit}; the line: ${markName}` : unit;
  const left = rows.length > MOST ? `; ${number(rows.length - MOST)} more are left out` : "";
  return el("figure", {}, el("figcaption", {}, `${label} (${legend}${left})`), el("ul", { class: "bars" }, items));
}

/** One bar as a share of its box, with a line for a second value. */
export function bar(share, mark = null) {
  const drawn = [shape("rect", { class: "fill", x: 0, y: 1, width: clamp(share) * 100, height: 8 })];
  if (mark !== null) drawn.push(shape("rect", { class: "mark", x: Math.min(99, clamp(mark) * 100), y: 0, width: 1, height: 10 }));
  return shape("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, ...drawn);
}

/** Stacked columns over time. `points`: [{at, values}], `series`: [[name, class]]; the table holds the same. */
export function columns(label, points, series) {
  const most = Math.max(1, ...points.map((point) => point.values.reduce((a, b) => a + b, 0)));
  const width = 100 / Math.max(1, points.length);
  const drawn = points.flatMap((point, i) => {
    let top = 40;
    return point.values.map((value, s) => {
      const height = (value / most) * 38;
      top -= height;
      return shape("rect", { class: series[s][1], x: i * width + width * 0.1, y: top, width: width * 0.8, height });
    });
  });
  const plot = shape("svg", { class: "columns", viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": label }, ...drawn);
  const key = el("ul", { class: "key" }, series.map(([name, kind]) => el("li", {}, shape("svg", { class: "swatch", viewBox: "0 0 1 1", "aria-hidden": "true" }, shape("rect", { class: kind, width: 1, height: 1 })), name)));
  return el("figure", {}, el("figcaption", {}, `${label}; the highest column: ${number(most, 1)}`), plot, el("p", { class: "ends quiet" }, times(points).map((time) => el("span", {}, time))), key);
}

/** Times below a plot, in UTC: the first, middle and last. The day is left out where all have the same. */
function times(points) {
  const shown = [...new Set([0, Math.floor(points.length / 2), points.length - 1])].map((i) => points[i]?.at ?? "");
  const isOneDay = new Set(shown.map((time) => time.slice(0, 10))).size === 1;
  const isLong = new Set(shown.map((time) => time.slice(0, 16))).size === shown.length;
  return shown.map((time, i) => `${time.slice(isOneDay && i ? 11 : 0, isLong ? 16 : 19)}${i === shown.length - 1 ? " UTC" : ""}`);
}

function clamp(share) {
  return Math.max(0, Math.min(1, share || 0));
}
