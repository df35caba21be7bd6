// A long list: its filter, its order and its pages. Only the rows of one page exist as elements.
// Owns: these, and their state in the URL. Does not own: what a row is, how a table looks (`dom`).

import { el, field, link, table } from "./dom.js";
import { byName, count, number } from "./words.js";

export const PAGE = 100; // rows

/** Put values into the URL and into `params`, or take them out where they are empty. */
export function remember(params, values) {
  for (const [name, value] of Object.entries(values)) {
    if (value) params.set(name, value);
    else params.delete(name);
  }
  history.replaceState(null, "", `?${params}`);
}

export class List {
  /**
   * `columns`: {head, key, kind, by(row), cell(row)}; without `by` a column has no order. `words(row)` is the text that
   * the filter searches. `prepare(rows)`, if any, reads what the rows of a page lack. `what` names a row.
   */
  constructor({ caption, what, columns, rows, words, params, sort, prepare = null }) {
    Object.assign(this, { caption, what, columns, rows, words, params, prepare, first: sort });
    this.counted = el("p", { role: "status", class: "quiet" });
    this.place = el("div", {});
    this.pages = el("nav", { class: "pages", "aria-label": `Pages of ${caption.toLowerCase()}` });
    const find = field("find", `Filter ${what}s`, params.get("find") ?? "", null, { "data-search": "" });
    find.lastChild.addEventListener("input", ({ target }) => this.#change({ find: target.value.trim(), page: "" }));
    const order = field("sort", "Order by", this.#sort.key, columns.filter((one) => one.by).map((one) => [one.key, one.head.toLowerCase()]));
    order.lastChild.addEventListener("change", ({ target }) => this.#change({ sort: target.value, order: "", page: "" }));
    this.order = order.lastChild;
    this.element = el("section", { "aria-label": caption }, el("div", { class: "filters" }, find, order), this.counted, this.place, this.pages);
  }

  /** The list, when its first page is drawn. */
  async shown() {
    await this.#draw();
    return this.element;
  }

  get #sort() {
    return this.columns.find((one) => one.by && one.key === this.params.get("sort")) ?? this.columns.find((one) => one.key === this.first);
  }

  /** Names begin with the least, amounts with the most; the same column again turns it round. */
  get #descending() {
    return (this.params.get("order") ?? (this.#sort.kind ? "down" : "up")) === "down";
  }

  #change(values) {
    remember(this.params, values);
    return this.#draw();
  }

  #chosen() {
    const wanted = (this.params.get("find") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const way = this.#descending ? -1 : 1;
    const { by } = this.#sort;
    const found = this.rows.filter((row) => wanted.every((word) => this.words(row).toLowerCase().includes(word)));
    return found.map((row) => [by(row), row]).sort(([a], [b]) => way * (typeof a === "number" ? a - b : byName(a, b))).map(([, row]) => row);
  }

  async #draw() {
    const turn = (this.turn ?? 0) + 1;
    this.turn = turn;
    const chosen = this.#chosen();
    const last = Math.max(1, Math.ceil(chosen.length / PAGE));
    const page = Math.min(last, Math.max(1, Number(this.params.get("page")) || 1));
    const rows = chosen.slice((page - 1) * PAGE, page * PAGE);
    await this.prepare?.(rows);
    if (turn !== this.turn) return; // another order or filter was chosen meanwhile
    const sorted = this.#sort;
    const direction = this.#descending ? "descending" : "ascending";
    const heads = this.columns.map((one) => [one.head, one.kind, one.by && { sorted: one === sorted ? direction : null, click: () => this.#turn(one) }]);
    const focused = this.place.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.counted.textContent = `${chosen.length === this.rows.length ? count(chosen.length, this.what) : `${number(chosen.length)} of ${count(this.rows.length, this.what)}`}${last > 1 ? `, page ${number(page)} of ${number(last)}` : ""}`;
    this.place.replaceChildren(rows.length ? table(this.caption, heads, rows.map((row) => this.columns.map((one) => one.cell(row)))) : "");
    if (focused) [...this.place.querySelectorAll("thead button")].find((one) => one.textContent === focused)?.focus({ preventScroll: true });
    const step = (to, text) => el("button", { type: "button", click: () => this.#change({ page: to > 1 ? String(to) : "" }).then(() => this.element.scrollIntoView()) }, text);
    this.pages.replaceChildren(...[page > 1 && step(page - 1, "Previous page"), page < last && step(page + 1, "Next page")].filter(Boolean));
    this.pages.hidden = last === 1;
  }

  #turn(column) {
    const order = column === this.#sort ? (this.#descending ? "up" : "down") : "";
    this.order.value = column.key;
    return this.#change({ sort: column.key, order, page: "" });
  }
}

/** A choice of links, of which one is current: `options` are [value, text]. */
export function choice(view, params, name, options, label) {
  const current = params.get(name) ?? "";
  return el("nav", { class: "choice", "aria-label": label }, options.map(([value, text]) => {
    const to = link(view, { ...Object.fromEntries(params), view: null, page: null, [name]: value }, text);
    if (value === current) to.setAttribute("aria-current", "true");
    return to;
  }));
}
