// The nodes of one decision: the table's tools, one node in words, two nodes side by side.
// Owns: the state of these in the URL. Does not own: the table itself (`heatmap`), what a cell says (`columns`).

import { get, nameOf, path } from "./api.js";
import { Columns } from "./columns.js";
import { el, field, nodeLink, section, table } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { remember } from "./list.js";
import { count, number, signed } from "./words.js";

const SHOWN = [["all", "all nodes"], ["feasible", "those that fit"], ["rejected", "those rejected"]];

/** The section; `params` are those of the URL, which it keeps. */
export class Sheet {
  constructor(namespace, answer, params) {
    this.namespace = namespace;
    this.answer = answer;
    this.params = params;
    this.columns = new Columns(answer.columns);
    this.map = new HeatMap(this.columns, {
      sort: (key) => this.#sort(key),
      open: (node) => this.#openOne(this.columns.names[node]),
      pick: (node, picked) => this.#pick(node, picked),
    });
    this.counted = el("p", { role: "status", class: "quiet" });
    this.details = el("div", { class: "details", "aria-live": "polite" });
    this.compared = el("div", { "aria-live": "polite" });
    this.beside = el("div", { class: "beside" }, this.map.element, this.details);
    this.element = section("Nodes and plugins", this.#tools(), this.counted, this.beside, this.#key(), this.compared);
    this.#show();
    this.#open();
    this.#compare();
  }

  get sort() {
    return this.params.get("sort") ?? (this.answer.nodes.feasible ? "rank" : "name");
  }

  #tools() {
    const find = field("find", "Search node", this.params.get("find") ?? "");
    const show = field("show", "Show", this.params.get("show") ?? "all", SHOWN);
    find.lastChild.addEventListener("input", (event) => this.#narrow("find", event.target.value.trim()));
    show.lastChild.addEventListener("change", (event) => this.#narrow("show", event.target.value));
    return el("div", { class: "filters" }, find, show);
  }

  #key() {
    return el("p", { class: "quiet" }, "✓ passed, ✗ rejected (bold: first failure), · not evaluated. Points are the normalized score times the weight; red: behind the best node, blue: ahead of it, and in the best node's row ahead of the next; uncoloured: no difference. Select a node's name for its details, or two checkboxes to compare nodes. Arrow keys go from row to row.");
  }

  #narrow(name, value) {
    this.#remember({ [name]: value });
    this.#show();
  }

  async #openOne(name) {
    const before = this.params.get("node");
    this.#remember({ node: name });
    await this.#open();
    if (name) this.details.scrollIntoView({ block: "nearest" });
    else [...this.beside.querySelectorAll("tbody button")].find((row) => row.textContent === before)?.focus({ preventScroll: true });
  }

  #remember(chosen) {
    remember(this.params, chosen);
  }

  /** Points come with the most first, ranks and names the other way; the same column again turns it round. */
  #sort(key) {
    const order = key === this.sort ? (this.descending ? "up" : "down") : "";
    this.#remember({ sort: key, order });
    this.#show();
  }

  get descending() {
    return (this.params.get("order") ?? (this.sort === "total" || this.sort.startsWith("s:") ? "down" : "up")) === "down";
  }

  #show() {
    const { descending, sort } = this;
    const nodes = this.columns.chosen({ show: this.params.get("show") ?? "all", find: this.params.get("find") ?? "", sort, descending });
    this.counted.textContent = `${number(nodes.length)} of ${count(this.columns.names.length, "node")}`;
    this.map.show(nodes, sort, descending);
  }

  get #picked() {
    return ["a", "b"].map((name) => this.columns.names.indexOf(this.params.get(name))).filter((node) => node >= 0);
  }

  /** The third one that is ticked takes the place of the second. */
  #pick(node, picked) {
    const others = this.#picked.filter((other) => other !== node);
    const [a, b] = picked ? [...others.slice(0, 1), node] : others;
    this.#remember({ a: this.columns.names[a], b: this.columns.names[b] });
    this.#compare();
    this.compared.scrollIntoView({ block: "nearest" });
  }

  #mark() {
    this.map.mark(this.#picked, this.columns.names.indexOf(this.params.get("node")));
  }

  /** What is said of one node, in the words that the service has for it. */
  async #open() {
    this.#mark();
    const name = this.params.get("node");
    if (!name) {
      this.details.replaceChildren();
      return;
    }
    const asked = path("namespaces", this.namespace, "podexplanations", nameOf(this.answer.metadata.name, this.answer.attempt.id));
    try {
      const told = (await get(asked, { node: name })).perNode[0];
      if (this.params.get("node") !== name) return; // another one was opened meanwhile
      const close = el("button", { type: "button", click: () => this.#openOne("") }, "Close");
      const reasons = told.rejectedBy.flatMap((by) => by.reasons.map((reason) => el("li", {}, el("b", {}, by.plugin), ` ${reason.text}`)));
      this.details.replaceChildren(el("div", { class: "panel" }, el("h3", {}, nodeLink(name)), el("p", {}, told.headline),
        reasons.length ? el("ul", {}, reasons) : null,
        told.possibleChanges.length ? [el("p", {}, el("b", {}, "FIX "), "on this node:"), el("ul", {}, told.possibleChanges.map((step) => el("li", {}, step)))] : null, close));
    } catch (failure) {
      this.details.replaceChildren(el("p", { role: "alert" }, failure.message));
    }
  }

  #compare() {
    this.#mark();
    const [a, b] = this.#picked;
    if (b === undefined) return this.compared.replaceChildren(a === undefined ? "" : el("p", { class: "quiet" }, `Tick another node to compare ${this.columns.names[a]} with.`));
    const { columns } = this;
    const rows = columns.isRanked ? [["Rank", ...[a, b].map((n) => number(columns.rank[n] || null)), ""], ["Total", ...numbers(columns.total(a), columns.total(b))]] : [];
    const scored = columns.feasible(a) && columns.feasible(b) ? [...columns.scores] : [];
    for (const filter of columns.filters) {
      const said = [a, b].map((node) => worded(columns.verdict(filter, node)));
      if (said[0] !== said[1]) rows.push([`${filter.plugin} filter`, ...said, ""]);
    }
    const apart = (score) => Math.abs(columns.points(score, a) - columns.points(score, b));
    rows.push(...scored.sort((one, other) => apart(other) - apart(one)).map((score) => [`${score.plugin} points`, ...numbers(columns.points(score, a), columns.points(score, b))]));
    const heads = [["Plugin"], [columns.names[a], "number"], [columns.names[b], "number"], ["Difference", "number"]];
    this.compared.replaceChildren(el("div", { class: "panel" }, el("h3", {}, `${columns.names[a]} and ${columns.names[b]}`), table("Two nodes", heads, rows)));
  }
}

function numbers(a, b) {
  return [number(a), number(b), a === null || b === null ? "" : signed(a - b)];
}

function worded(verdict) {
  if (verdict === null) return "not evaluated";
  return verdict.against ? `✗ ${verdict.reasons.join("; ")}` : "✓ passed";
}
