// Nodes × plugins: a table of which only the rows in sight exist. Owns: its rows while it scrolls, its keys.
// Does not own: what the rows are (`columns`), what a row leads to.
// A row keeps its element as long as it is in sight, so what has the focus keeps it.
// Tab stops at one row alone, that of the last focus or the first in sight: arrows go to the others, however many.

import { el } from "./dom.js";
import { number } from "./words.js";

const ROW = 28; // pixels, as in the style sheet
const BEYOND = 8; // rows drawn above and below what is in sight
const HEADS = 2; // rows of headings
const STEPS = 5; // shades of a difference in points

export class HeatMap {
  /** `on`: {sort(key), open(node), pick(node, picked)}. */
  constructor(columns, on) {
    this.columns = columns;
    this.on = on;
    this.nodes = [];
    this.picked = new Set();
    this.opened = -1;
    this.from = 0;
    this.rows = [];
    this.stop = 0; // position of the row that Tab stops at
    this.heads = heads(columns);
    this.width = this.heads.length;
    const first = this.width - columns.filters.length - columns.scores.length;
    this.above = spacer(this.width);
    this.below = spacer(this.width);
    this.body = el("tbody", {}, this.above, this.below);
    const groups = [["", first], ["Filters", columns.filters.length], ["Points", columns.scores.length]].filter(([, width]) => width);
    this.groups = el("tr", { "aria-rowindex": "1", class: "groups" }, groups.map(([text, width]) => (text ? el("th", { scope: "colgroup", colspan: width }, text) : el("td", { colspan: width }))));
    this.head = el("tr", { "aria-rowindex": "2" }, this.heads.map((head) => this.#heading(head)));
    this.table = el("table", { class: "heat", "aria-rowcount": "0" },
      el("caption", { class: "unseen" }, "Nodes by plugins: ✓ passed, ✗ rejected, · not evaluated; points of score plugins"),
      el("colgroup", {}, this.heads.map((head) => el("col", { class: head.kind }))), el("thead", {}, this.groups, this.head), this.body);
    this.element = el("div", { class: "sheet", tabindex: "0", role: "region", "aria-label": "Nodes by plugins", scroll: () => this.#scrolled(), keydown: (event) => this.#key(event), focusin: (event) => this.#entered(event) }, this.table);
    this.watching = new ResizeObserver(() => this.#draw());
    this.watching.observe(this.element);
  }

  /** Show these nodes, in this order. */
  show(nodes, sort, descending) {
    this.nodes = nodes;
    this.table.setAttribute("aria-rowcount", String(nodes.length + HEADS));
    [...this.head.children].forEach((cell, i) => {
      const sorted = this.heads[i].key === sort;
      if (sorted) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    this.element.scrollTop = 0;
    for (const row of this.rows) row.remove();
    this.rows = [];
    this.stop = 0;
    this.#draw();
  }

  /** Mark what is picked and opened. */
  mark(picked, opened) {
    this.picked = new Set(picked);
    this.opened = opened;
    this.rows.forEach((row, i) => this.#fill(row, this.from + i));
  }

  #scrolled() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = 0;
      this.#draw();
    });
  }

  /** The rows in sight: those that stay keep their element, the others take those that left. */
  #draw() {
    const seen = Math.ceil(this.element.clientHeight / ROW) + 2 * BEYOND;
    const from = Math.max(0, Math.min(Math.floor(this.element.scrollTop / ROW) - BEYOND, this.nodes.length - seen));
    const upto = Math.min(this.nodes.length, from + seen);
    const free = [];
    while (this.rows.length && this.from < from) { free.push(this.rows.shift()); this.from += 1; }
    while (this.rows.length && this.from + this.rows.length > upto) free.push(this.rows.pop());
    if (!this.rows.length) this.from = from;
    const before = this.rows[0] ?? this.below;
    const early = [];
    for (let at = from; at < this.from && at < upto; at += 1) early.push(this.#fill(free.pop() ?? this.#row(), at));
    const late = [];
    for (let at = Math.max(from, this.from + this.rows.length); at < upto; at += 1) late.push(this.#fill(free.pop() ?? this.#row(), at));
    for (const row of free) row.remove();
    before.before(...early);
    this.below.before(...late);
    this.rows = [...early, ...this.rows, ...late];
    this.from = from;
    this.above.firstChild.style.height = `${from * ROW}px`;
    this.below.firstChild.style.height = `${(this.nodes.length - upto) * ROW}px`;
    this.above.hidden = from === 0;
    this.below.hidden = upto === this.nodes.length;
    this.#placeStop();
  }

  #placeStop() {
    const isDrawn = this.stop >= this.from && this.stop < this.from + this.rows.length;
    const at = isDrawn ? this.stop : Math.min(Math.ceil(this.element.scrollTop / ROW), this.nodes.length - 1);
    this.rows.forEach((row, i) => { row.pick.tabIndex = row.name.tabIndex = this.from + i === at ? 0 : -1; });
  }

  #entered(event) {
    const position = this.rows.indexOf(event.target.closest("tbody tr"));
    if (position < 0) return;
    this.stop = this.from + position;
    this.#placeStop();
  }

  #row() {
    const pick = el("input", { type: "checkbox", change: () => this.on.pick(row.node, pick.checked) });
    const name = el("button", { type: "button", click: () => this.on.open(row.node) }, "");
    const row = el("tr", {}, el("th", { scope: "row" }, el("span", { class: "who" }, pick, name)), Array.from({ length: this.width - 1 }, () => el("td", {}, "")));
    Object.assign(row, { pick, name });
    return row;
  }

  #fill(row, at) {
    const { columns } = this;
    const node = this.nodes[at];
    row.node = node;
    row.setAttribute("aria-rowindex", String(at + HEADS + 1));
    const kind = `${this.opened === node ? "opened " : ""}${columns.rank[node] === 1 ? "best" : ""}`;
    if (row.className !== kind) row.className = kind; // else the style of every cell would be asked for anew
    row.pick.checked = this.picked.has(node);
    row.pick.setAttribute("aria-label", `Compare ${columns.names[node]}`);
    row.name.firstChild.data = columns.names[node];
    row.name.title = columns.names[node];
    let cell = row.firstChild.nextSibling;
    const put = (text, kind) => {
      if (cell.firstChild.data !== text) cell.firstChild.data = text; // else it would be laid out anew
      if (cell.className !== kind) cell.className = kind;
      cell = cell.nextSibling;
    };
    if (columns.isRanked) {
      const total = columns.total(node);
      put(columns.rank[node] ? String(columns.rank[node]) : "–", "place");
      put(total === null ? "–" : String(total), "place");
    }
    columns.filters.forEach((filter, position) => put(...said(columns.verdict(filter, node), position === columns.first[node])));
    columns.scores.forEach((score) => {
      const points = columns.points(score, node);
      put(points === null ? "" : String(points), points === null ? "" : shade(columns.lead(score, node), columns.most));
    });
    return row;
  }

  #heading({ key, text, under, kind }) {
    const lines = halves(text);
    if (under) lines[lines[0].length <= lines.at(-1).length ? 0 : lines.length - 1] += ` ${under}`;
    const sort = el("button", { type: "button", "aria-label": `${text}${under ? ` ${under}` : ""}`, click: () => this.on.sort(key) }, lines.map((line) => el("span", {}, line)));
    return el("th", { scope: "col", class: kind }, sort);
  }

  /** Arrows go from row to row where a row's control has the focus; elsewhere they scroll. */
  #key(event) {
    const row = event.target.closest("tbody tr");
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!row || !step || !row[step]?.pick) return;
    event.preventDefault();
    row[step][event.target === row.pick ? "pick" : "name"].focus();
  }
}

function heads(columns) {
  const plugin = (prefix, kind) => (one) => ({ key: `${prefix}:${one.plugin}`, text: one.plugin, under: one.weight ? `×${number(one.weight)}` : "", kind });
  return [
    { key: "name", text: "Node", kind: "name" },
    ...(columns.isRanked ? [{ key: "rank", text: "Rank", kind: "rank" }, { key: "total", text: "Total", kind: "rank" }] : []),
    ...columns.filters.map(plugin("f", "plugin filter")),
    ...columns.scores.map(plugin("s", "plugin score")),
  ];
}

/** A long plugin name in two lines of about equal length: NodeResources, BalancedAllocation. */
function halves(text) {
  const words = text.split(/(?=[A-Z][a-z])/);
  if (text.length < 14 || words.length < 2) return [text];
  const cuts = words.slice(1).map((_, i) => [words.slice(0, i + 1).join(""), words.slice(i + 1).join("")]);
  return cuts.reduce((best, cut) => (Math.max(...cut.map((part) => part.length)) < Math.max(...best.map((part) => part.length)) ? cut : best));
}

function said(verdict, first) {
  if (verdict === null) return ["·", "none"];
  if (!verdict.against) return ["✓", "pass"];
  return ["✗", first ? "reject first" : "reject"];
}

/** The class of a score: `s1` to `s5` ahead, `b1` to `b5` behind; none where it made no difference. */
function shade(lead, most) {
  return lead ? `${lead > 0 ? "s" : "b"}${Math.max(1, Math.round((Math.abs(lead) / most) * STEPS))}` : "";
}

function spacer(width) {
  return el("tr", { "aria-hidden": "true", class: "spacer" }, el("td", { colspan: width }));
}
