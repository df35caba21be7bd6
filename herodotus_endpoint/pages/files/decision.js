// One decision: the answer in a sentence, the attempts, what was rejected and why, and all nodes × plugins.
// Owns: what is asked, the state of the table in the URL. Does not own: the table (`heatmap`, `columns`).

import { address, get, path } from "./api.js";
import { Columns } from "./columns.js";
import { el, facts, field, form, link, section, table } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { ago, count, duration, full, more, number, signed, state } from "./words.js";

const SHOWN = [["all", "all nodes"], ["feasible", "those that fit"], ["rejected", "those rejected"]];
const ATTEMPTS = 20;

export async function view(params) {
  const namespace = params.get("namespace") ?? "";
  const name = params.get("name") ?? "";
  if (!namespace || !name) return { title: "Decision", body: [el("h1", {}, "A decision"), choose(namespace, name)] };
  const answer = await get(path("namespaces", namespace, "podexplanations", name), { columns: "true" });
  const pod = answer.metadata.name;
  const body = [
    el("h1", {}, el("span", { class: "kind" }, `${namespace} / `), pod, " ", state(answer.outcome.state)),
    el("p", { class: "answer" }, answer.headline),
    answer.message ? el("p", { class: "quiet" }, `Event: ${answer.message}`) : "",
    about(namespace, answer),
    marks(answer.marks),
    attempts(namespace, answer),
    answer.nextSteps.length ? section("What would help", el("ul", {}, answer.nextSteps.map((step) => el("li", {}, step)))) : "",
    answer.rejections.length || answer.preFilters.length ? section("Rejected", rejections(answer)) : "",
    answer.preemption ? section("Preemption", preemption(answer.preemption)) : "",
    answer.columns.nodes.length ? new Sheet(namespace, answer, params).element : "",
  ];
  return { title: `${namespace}/${pod}`, body };
}

function choose(namespace, name) {
  return form("decision", "Choose a pod", field("namespace", "Namespace", namespace), field("name", "Pod", name));
}

function about(namespace, answer) {
  const { attempt, nodes, pod } = answer;
  const requests = Object.entries(pod.requests ?? {}).map(([resource, quantity]) => `${resource} ${quantity}`).join(", ");
  const took = attempt.phaseSeconds && Object.values(attempt.phaseSeconds).reduce((a, b) => a + b, 0);
  return facts([
    ["Workload", pod.owner && link("decisions", { namespace, workload: pod.owner }, pod.owner)],
    ["Node", answer.outcome.node && link("node", { name: answer.outcome.node }, answer.outcome.node)],
    ["Attempt", `${number(attempt.ordinal)} of ${number(attempt.attempts)}${attempt.failedBefore ? `, ${number(attempt.failedBefore)} failed before` : ""}`],
    ["Started", ago(attempt.startedAt)],
    ["Took", took ? duration(took) : null],
    ["Nodes that fit", `${number(nodes.feasible)} of ${number(nodes.total)}${nodes.evaluated < nodes.total ? `, ${number(nodes.evaluated)} looked at` : ""}`],
    ["Requests", requests],
    ["Priority", pod.priority ? number(pod.priority) : null],
    ["Profile", attempt.profile],
    ["Source", attempt.source === "scheduler" ? null : attempt.source],
    ["Next try", attempt.retry && `not before ${full(attempt.retry.notBefore)}`],
    ["The whole record", el("a", { href: address(path("namespaces", namespace, "decisions", attempt.id)) }, "JSON")],
  ]);
}

function marks(told) {
  return told.length ? el("ul", { class: "marks", "aria-label": "What the record does not know" }, told.map((mark) => el("li", {}, mark))) : "";
}

/** The pod's attempts, asked for beside the answer and filled in when they come. */
function attempts(namespace, answer) {
  if (answer.attempt.attempts < 2) return "";
  const place = el("div", {}, el("p", { class: "quiet" }, "Asking for the attempts …"));
  const pod = answer.metadata;
  get(path("namespaces", namespace, "podhistories", pod.name), { uid: pod.uid, limit: ATTEMPTS }).then((history) => {
    const rows = history.attempts.toReversed().map((attempt) => [
      attempt.id === answer.attempt.id ? el("b", { "aria-current": "true" }, number(attempt.ordinal)) : link("decision", { namespace, name: attempt.id }, number(attempt.ordinal)),
      state(attempt.state), ago(attempt.startedAt), attempt.headline, attempt.changes.map((change) => change.text).join("; "),
    ]);
    place.replaceChildren(table("Attempts, newest first", [["Attempt", "number"], ["Outcome"], ["Started"], ["In a sentence"], ["What had changed"]], rows), el("p", { class: "quiet" }, more(history.attemptsOmitted)));
  }).catch((failure) => place.replaceChildren(el("p", { role: "alert" }, failure.message)));
  return section("Attempts", place);
}

function rejections(answer) {
  const whole = answer.preFilters.map((verdict) => [number(answer.nodes.total), verdict.plugin, verdict.reasons.join("; "), "every node"]);
  const rows = answer.rejections.map((group) => [
    number(group.count), group.plugin, group.reasons.map((reason) => reason.text).join("; "),
    [group.nodes.map((node, i) => [i ? ", " : "", link("node", { name: node.node }, node.node)]), more(group.nodesOmitted)],
  ]);
  return table("Rejected nodes by reason", [["Nodes", "number"], ["Filter"], ["Reason"], ["Which, the nearest first"]], [...whole, ...rows]);
}

function preemption(told) {
  const rows = told.candidates.map((candidate) => [link("node", { name: candidate.node }, candidate.node), candidate.victims.join(", "), number(candidate.pdbViolations), candidate.refusedBy ?? ""]);
  const said = told.nominatedNode ? `${told.nominatedNode} was nominated${told.evicted ? ", and the pods there were told to go" : ""}.` : "No node was nominated.";
  return [el("p", {}, said), rows.length ? table("Where eviction would make room", [["Node"], ["Pods that would go"], ["Disruption budgets broken", "number"], ["Refused by"]], rows) : "", el("p", { class: "quiet" }, more(told.candidatesOmitted))];
}

/** The table with its tools, its details and its comparison; what is chosen stands in the URL. */
class Sheet {
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
    this.element = section("Nodes and plugins", this.#tools(), this.counted, this.map.element, this.#key(), this.compared, this.details);
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
    return el("p", { class: "quiet" }, "✓ passed, ✗ rejected (darker: by this filter first), · not asked. Points are the normalised score times the weight. A node's name tells why; two ticked nodes are compared.");
  }

  #narrow(name, value) {
    this.#remember({ [name]: value });
    this.#show();
  }

  async #openOne(name) {
    this.#remember({ node: name });
    await this.#open();
    this.details.scrollIntoView({ block: "nearest" });
  }

  /** Put something into the URL, or take it out where it is empty. */
  #remember(chosen) {
    for (const [name, value] of Object.entries(chosen)) {
      if (value) this.params.set(name, value);
      else this.params.delete(name);
    }
    history.replaceState(null, "", `?${this.params}`);
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
    if (!name) return this.details.replaceChildren();
    const asked = path("namespaces", this.namespace, "podexplanations", this.answer.attempt.id);
    try {
      const told = (await get(asked, { node: name })).perNode[0];
      const close = el("button", { type: "button", click: () => this.#openOne("") }, "Close");
      const reasons = told.rejectedBy.flatMap((by) => by.reasons.map((reason) => el("li", {}, el("b", {}, by.plugin), ` ${reason.text}`)));
      this.details.replaceChildren(el("div", { class: "panel" }, el("h3", {}, link("node", { name }, name)), el("p", {}, told.headline),
        reasons.length ? el("ul", {}, reasons) : null,
        told.toMakeItFeasible.length ? [el("p", {}, "To make it fit:"), el("ul", {}, told.toMakeItFeasible.map((step) => el("li", {}, step)))] : null, close));
    } catch (failure) {
      this.details.replaceChildren(el("p", { role: "alert" }, failure.message));
    }
  }

  #compare() {
    this.#mark();
    const [a, b] = this.#picked;
    if (b === undefined) return this.compared.replaceChildren(a === undefined ? "" : el("p", { class: "quiet" }, `Tick another node to compare ${this.columns.names[a]} with.`));
    const { columns } = this;
    const rows = [["Rank", ...[a, b].map((n) => number(columns.rank[n] || null)), ""], ["Total", ...numbers(columns.total(a), columns.total(b))]];
    for (const score of columns.scores) rows.push([score.plugin, ...numbers(columns.points(score, a), columns.points(score, b))]);
    for (const filter of columns.filters) {
      const said = [a, b].map((node) => worded(columns.verdict(filter, node)));
      if (said[0] !== said[1]) rows.push([filter.plugin, ...said, ""]);
    }
    const heads = [["Plugin"], [columns.names[a], "number"], [columns.names[b], "number"], ["Difference", "number"]];
    this.compared.replaceChildren(el("div", { class: "panel" }, el("h3", {}, `${columns.names[a]} and ${columns.names[b]}`), table("Two nodes", heads, rows)));
  }
}

function numbers(a, b) {
  return [number(a), number(b), a === null || b === null ? "" : signed(a - b)];
}

function worded(verdict) {
  if (verdict === null) return "not asked";
  return verdict.against ? `✗ ${verdict.reasons.join("; ")}` : "✓ passed";
}
