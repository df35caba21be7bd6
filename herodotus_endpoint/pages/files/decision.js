// One decision: the answer in a sentence, the attempts, what was rejected and why, and all nodes × plugins.
// Owns: what is asked, what stands above the table. Does not own: the table and what it leads to (`sheet`).

import { address, get, path } from "./api.js";
import { el, facts, field, form, link, section, table } from "./dom.js";
import { Sheet } from "./sheet.js";
import { ago, count, duration, full, more, number, state } from "./words.js";

const ATTEMPTS = 20;
const SOURCES = { logged: "the log", reconstructed: "the observer" };

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
    notes(answer.notes),
    answer.origins ? origins(answer.origins, answer.headline) : "",
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
    ["Source", attempt.source === "scheduler" ? null : answer.origins ? "reconstructed, and the scheduler's log" : attempt.source],
    ["Compared", answer.reconstruction && compared(answer.reconstruction)],
    ["Next try", attempt.retry && `not before ${full(attempt.retry.notBefore)}`],
    ["Full record", el("a", { href: address(path("namespaces", namespace, "decisions", attempt.id)) }, "JSON")],
  ]);
}

function compared({ agreement, cause, bindingsInFlight, deletionsInFlight }) {
  const shifts = [[bindingsInFlight, "binding"], [deletionsInFlight, "deletion"]].filter(([n]) => n);
  const moved = shifts.map(([n, what]) => `${count(Math.abs(n), what)} ${n < 0 ? "fewer" : "more"}`).join(", ");
  const said = { agree: "agrees", "agree-in-window": "agrees, with events in flight", disagree: "disagrees", unknown: "unknown" }[agreement];
  return `${said}${cause ? `: ${cause}` : ""}${moved ? ` (${moved} than observed)` : ""}`;
}

/** Where an observer and the scheduler's log tell of the decision: which part is whose. */
function origins(told, headline) {
  const rows = told.parts.map((part) => [part.text, part.from.map((source) => SOURCES[source]).join(" and "), part.overruled ? number(part.overruled) : "–"]);
  rows.push(["everything else", SOURCES[told.rest], ""]);
  return el("details", {}, el("summary", {}, "Source of each part: the log takes precedence"),
    told.evaluation === headline ? "" : el("p", {}, el("b", {}, "The reconstruction alone: "), told.evaluation),
    table("Source of each part", [["Part"], ["Source"], ["Differences in the reconstruction", "number"]], rows));
}

function notes(told) {
  return told.length ? el("ul", { class: "marks", "aria-label": "Unknown facts of the record" }, told.map((mark) => el("li", {}, mark))) : "";
}

/** The pod's attempts, asked for beside the answer and filled in when they come. */
function attempts(namespace, answer) {
  if (answer.attempt.attempts < 2) return "";
  const place = el("div", {}, el("p", { class: "quiet" }, "Loading attempts …"));
  const pod = answer.metadata;
  get(path("namespaces", namespace, "podhistories", pod.name), { uid: pod.uid, limit: ATTEMPTS }).then((history) => {
    const rows = history.attempts.toReversed().map((attempt) => [
      attempt.id === answer.attempt.id ? el("b", { "aria-current": "true" }, number(attempt.ordinal)) : link("decision", { namespace, name: attempt.id }, number(attempt.ordinal)),
      state(attempt.state), ago(attempt.startedAt), attempt.headline, attempt.changes.map((change) => change.text).join("; "),
    ]);
    place.replaceChildren(table("Attempts, newest first", [["Attempt", "number"], ["Outcome"], ["Started"], ["Result", "long"], ["Changes", "long"]], rows), el("p", { class: "quiet" }, more(history.attemptsOmitted)));
  }).catch((failure) => place.replaceChildren(el("p", { role: "alert" }, failure.message)));
  return section("Attempts", place);
}

function rejections(answer) {
  const whole = answer.preFilters.map((verdict) => [number(answer.nodes.total), verdict.plugin, verdict.reasons.join("; "), "every node"]);
  const rows = answer.rejections.map((group) => [
    number(group.count), group.plugin, group.reasons.map((reason) => reason.text).join("; "),
    [group.nodes.map((node, i) => [i ? ", " : "", link("node", { name: node.node }, node.node)]), more(group.nodesOmitted)],
  ]);
  return table("Rejected nodes by reason", [["Nodes", "number"], ["Filter"], ["Reason"], ["Nodes, closest to fitting first", "long"]], [...whole, ...rows]);
}

function preemption(told) {
  const rows = told.candidates.map((candidate) => [link("node", { name: candidate.node }, candidate.node), candidate.victims.join(", "), number(candidate.pdbViolations), candidate.rejectedBy ?? ""]);
  const said = told.nominatedNode ? `${told.nominatedNode} was nominated${told.evicted ? ", and its victims were evicted" : ""}.` : "No node was nominated.";
  return [el("p", {}, said), rows.length ? table("Preemption candidates", [["Node"], ["Victims"], ["PDB violations", "number"], ["Rejected by"]], rows) : "", el("p", { class: "quiet" }, more(told.candidatesOmitted))];
}
