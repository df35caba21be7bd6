// One decision's columns: which rows are shown, in which order, and what a cell says. No elements, no requests.

const DIGITS = 12; // of a number in a name
const PASSED = "Success";
const SKIP = "Skip";

/** The columns of an answer, with what is asked of them again and again computed once. */
export class Columns {
  constructor(told) {
    this.names = told.nodes;
    this.lower = told.nodes.map((name) => name.toLowerCase());
    this.rank = told.rank ?? [];
    this.totals = told.totals ?? [];
    this.evaluation = told.evaluation ?? [];
    this.evaluations = told.evaluations;
    this.filters = (told.filters ?? []).filter((filter) => !filter.skipped);
    this.scores = (told.scores ?? []).filter((score) => !score.skipped && score.normalized?.length);
    this.first = this.names.map((_, node) => this.#first(node));
    this.best = this.rank.indexOf(1);
    this.second = this.rank.indexOf(2);
    this.isRanked = this.best >= 0;
    this.most = this.scores.reduce((most, score) => this.names.reduce((m, _, node) => Math.max(m, Math.abs(this.lead(score, node))), most), 0);
  }

  /** Whether a filter looked at the node. */
  looked(node) {
    return this.evaluations[this.evaluation[node]] === "evaluated";
  }

  feasible(node) {
    return Boolean(this.rank[node]);
  }

  /** What a filter said of a node; null where it was not asked. */
  verdict(filter, node) {
    if (!this.looked(node)) return null;
    const verdict = filter.verdicts[filter.ids?.[node] ?? 0];
    return verdict.code === SKIP ? null : verdict;
  }

  /** Points of a plugin: the normalized score times its weight. */
  points(score, node) {
    return this.feasible(node) ? score.normalized[node] * (score.weight ?? 1) : null;
  }

  /** By how many points of a plugin a node is ahead of the best node, and the best node of the next one; negative behind. */
  lead(score, node) {
    const other = node === this.best ? this.second : this.best;
    return other < 0 || !this.feasible(node) ? 0 : this.points(score, node) - this.points(score, other);
  }

  total(node) {
    return this.feasible(node) && this.totals.length ? this.totals[node] : null;
  }

  /** The nodes of a choice (`feasible`, `rejected`, or all) whose name holds a text, in an order. */
  chosen({ show, find, sort, descending }) {
    const wanted = find.toLowerCase();
    const nodes = [];
    for (let node = 0; node < this.names.length; node += 1) {
      if (show === "feasible" && !this.feasible(node)) continue;
      if (show === "rejected" && (this.feasible(node) || !this.looked(node))) continue;
      if (wanted && !this.lower[node].includes(wanted)) continue;
      nodes.push(node);
    }
    const key = this.#key(sort);
    const way = descending ? -1 : 1;
    return nodes.sort((a, b) => (key ? way * (key[a] - key[b]) || this.#place(a) - this.#place(b) : way * (this.#place(a) - this.#place(b))));
  }

  /** A node's place in the natural order of names: worker-2 before worker-10. */
  #place(node) {
    if (!this.places) {
      const keys = this.names.map((name) => name.replace(/\d+/g, (digits) => digits.padStart(DIGITS, "0"))); // half the time of a collator
      this.places = [];
      [...keys.keys()].sort((a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : a - b)).forEach((which, place) => { this.places[which] = place; });
    }
    return this.places[node];
  }

  /** A number for each node to sort by; null for the order of names. */
  #key(sort) {
    const filter = this.filters.find((one) => one.plugin === sort.slice(2) && sort.startsWith("f:"));
    const score = this.scores.find((one) => one.plugin === sort.slice(2) && sort.startsWith("s:"));
    const last = Number.MAX_SAFE_INTEGER;
    if (sort === "rank") return this.names.map((_, node) => this.rank[node] || last - (this.looked(node) ? 1 : 0));
    if (sort === "total") return this.names.map((_, node) => this.total(node) ?? -1);
    if (filter) return this.names.map((_, node) => order(this.verdict(filter, node)));
    if (score) return this.names.map((_, node) => this.points(score, node) ?? -1);
    return null;
  }

  /** The first filter that rejected a node, as its position; -1 where none did. */
  #first(node) {
    return this.looked(node) ? this.filters.findIndex((filter) => this.verdict(filter, node)?.against) : -1;
  }
}

/** How a verdict is ordered: rejected, not asked, passed. */
function order(verdict) {
  return verdict === null ? 1 : verdict.code === PASSED ? 2 : 0;
}
