// One decision: the same answer as the terminal's first, then the evidence: rejected nodes, all nodes × plugins, attempts.
// Owns: what is asked, the order of the page. Does not own: the answer (`answer`), the table and what it leads to (`sheet`).

import { eviction, fate, suggestions, headline, holders, ordinals, preemption, stateLine, victimLink } from "./answer.js";
import { address, get, nameOf, path } from "./api.js";
import { el, facts, field, fillLater, form, link, namespaceLink, nodeLink, podLink, section, table, withNodes, workloadLink } from "./dom.js";
import { askLive, liveState } from "./livestate.js";
import { Sheet } from "./sheet.js";
import { undecided } from "./undecided.js";
import { ago, count, duration, more, number, signed, state, workloadOf } from "./words.js";

const ATTEMPTS = 20;
const NOMINATED = "nominated-node"; // the path of a decision for the node where an earlier attempt evicted pods
const MONTH_S = 2592000;
const SOURCES = { logged: "the log", reconstructed: "the observer" };
const FATES = {
  deleted: "This pod no longer exists: it was deleted after this decision.",
  replaced: "This is an earlier pod of that name; the pod that exists now has another decision, or none yet.",
};

/** What tells whether the page changed, without the columns of all nodes. */
export function probe(params) {
  if (!params.get("name")) return Promise.resolve({});
  return get(path("namespaces", params.get("namespace"), "podexplanations", params.get("name"))).catch((failure) => {
    if (failure.code !== 404) throw failure;
    return {}; // a pod without a decision
  });
}

export async function view(params) {
  const namespace = params.get("namespace") ?? "";
  const name = params.get("name") ?? "";
  if (!namespace || !name) return { title: "Decision", body: [el("h1", {}, "A decision"), choose(namespace, name)] };
  let answer;
  try {
    answer = await get(path("namespaces", namespace, "podexplanations", name), { columns: "true" });
  } catch (failure) {
    const body = failure.code === 404 && await undecided(namespace, name, !failure.noRecords);
    if (!body) throw failure;
    return { title: `${namespace}/${name}`, body };
  }
  const pod = answer.metadata.name;
  const isLast = answer.attempt.lastOrdinal === answer.attempt.attempts;
  const became = isLast ? await fate(answer) : "";
  if (became) Object.assign(answer, { suggestions: [], possibleChanges: [], attempt: { ...answer.attempt, retry: null } }); // nothing helps a pod that is gone
  const evicting = answer.preemptedBy;
  const live = became ? null : askLive(namespace, pod);
  const unread = `What became of the pod after this decision${isLast && !answer.outcome.node ? ", and who holds what it lacks," : ""}`;
  const mark = evicting && (became || evicting.evicted) ? eviction(evicting) : FATES[became]; // an evaluation alone may err
  return { title: `${namespace}/${pod}`, lasting: { name: answer.attempt.id }, body: [
    el("h1", {}, el("span", { class: "kind" }, namespaceLink(namespace), " / "), pod, " ", state(mark && evicting?.evicted ? "Evicted" : answer.outcome.state)),
    mark ? el("p", { class: "marks" }, mark) : "",
    answer.outcome.path === NOMINATED ? madeRoom(namespace, answer) : "",
    ...explanation(answer, params, { live: isLast ? live : null, note: became ? "" : liveState(namespace, pod, unread, live) }),
    became || answer.outcome.node || answer.outcome.path === NOMINATED ? "" : el("p", {}, link("clusterwhatif", { ask: "plan", namespace, pod }, "Which changes would make it fit?")),
    attempts(namespace, answer),
    section("About this decision", about(namespace, answer), answer.origins ? origins(answer.origins, answer.headline) : ""),
  ] };
}

/** The answer about a pod and its evidence; of a pod that does not exist only what follows the result in a sentence. */
export function explanation(answer, params, { exists = true, live = null, note = "" } = {}) {
  const names = new Set(answer.columns?.nodes ?? answer.rejections.flatMap((group) => group.nodes.map((node) => node.node)));
  for (const row of answer.ranking ?? []) names.add(row.node);
  const evictions = preemption(answer, names);
  const rejected = answer.rejections.length || answer.preFilters.length ? section("Rejected", rejections(answer)) : allPassed(answer);
  const matrix = answer.columns?.nodes.length ? new Sheet(answer.metadata.namespace, answer, params).element : "";
  const isPlaced = Boolean(answer.outcome.node); // then the matrix says most
  return [
    exists ? stateLine(answer) : "",
    ...(exists ? headline(answer, names, !answer.preemptedBy?.evicted) : []),
    note,
    suggestions(answer, names, { commands: exists }),
    exists ? holders(live) : "",
    notes(answer.notes),
    decidedBy(answer.margin),
    ...(isPlaced ? [matrix, rejected] : [rejected]),
    evictions.length ? section("Preemption", evictions.map((said) => el("p", {}, said)), candidates(answer.preemption)) : "",
    isPlaced ? "" : matrix,
    answer.message && !isPlaced ? el("details", {}, el("summary", {}, "The event as kube-scheduler words it"), el("p", {}, answer.message)) : "",
  ];
}

/** Which pods an earlier attempt of the pod evicted, filled in when it is read. */
function madeRoom(namespace, { metadata, outcome, attempt }) {
  const asked = get(path("namespaces", namespace, "preemptions"), { since: MONTH_S, until: attempt.startedAt });
  return fillLater(el("div", {}), asked, ({ preemptions }) => {
    const one = preemptions.find(({ preemptor, node }) => preemptor?.pod === metadata.name && preemptor.namespace === namespace && node === outcome.node);
    if (!one) return null;
    const victims = one.victims.map((victim, i) => [i ? ", " : "", victim.pod ? podLink(victim.namespace, victim.pod) : "a pod of another namespace"]);
    return el("p", { class: "marks" }, "An ", link("decision", { namespace, name: one.preemptor.decision }, "earlier attempt"), " evicted ", victims, " from ", nodeLink(one.node), " ", ago(one.at), " to make room for this pod.");
  }, () => null); // the headline says that there was a preemption
}

/** What made up the scores by which the best node was ahead of the next one, for each plugin that the record explains. */
function decidedBy(margin) {
  if (!margin?.reasons?.length) return "";
  const rows = margin.reasons.map((one) => [one.plugin, signed(one.points), one.text]);
  return section("Decided by", table(`${margin.best} against ${margin.runnerUp}`, [["Plugin"], ["Points", "number"], ["Difference", "long"]], rows));
}

/** A sentence where no filter rejected any node. */
function allPassed(answer) {
  const ran = answer.filters.filter((filter) => !filter.skipped).length;
  const nodes = answer.nodes.evaluated;
  if (!ran || !nodes) return "";
  const evaluated = nodes < answer.nodes.total ? " evaluated" : "";
  const who = nodes === 2 ? `Both${evaluated} nodes` : nodes > 1 ? `All ${number(nodes)}${evaluated} nodes` : `The one${evaluated} node`;
  return el("p", {}, `${who} passed ${ran > 1 ? `all ${number(ran)} filters` : "the one filter that ran"}.`);
}

function choose(namespace, name) {
  return form("decision", "Choose a pod", field("namespace", "Namespace", namespace, null, { names: "namespaces" }), field("name", "Pod", name, null, { names: "pods" }));
}

function about(namespace, answer) {
  const { attempt, nodes, pod } = answer;
  const requests = Object.entries(pod.requests ?? {}).map(([resource, quantity]) => `${resource} ${quantity}`).join(", ");
  const took = attempt.phaseSeconds && Object.values(attempt.phaseSeconds).reduce((a, b) => a + b, 0);
  return facts([
    ["Workload", pod.owner && workloadLink(namespace, workloadOf(pod.owner, pod.labels))],
    ["Node", answer.outcome.node && nodeLink(answer.outcome.node)],
    ["Attempt", `${ordinals(attempt)} of ${number(attempt.attempts)}${attempt.failedBefore ? `, ${number(attempt.failedBefore)} failed before` : ""}`],
    ["Started", ago(attempt.startedAt)],
    ["Duration", took ? duration(took) : null],
    ["Feasible nodes", `${number(nodes.feasible)} of ${number(nodes.total)}${nodes.evaluated < nodes.total ? `, ${number(nodes.evaluated)} evaluated` : ""}`],
    ["Requests", requests],
    ["Priority", pod.priority ? number(pod.priority) : null],
    ["Profile", attempt.profile],
    ["Source", attempt.source === "scheduler" ? "recorded by the scheduler" : answer.origins ? "reconstructed, and the scheduler's log" : attempt.source],
    ["Requeued by", attempt.requeuedBy && `${attempt.requeuedBy.event}${attempt.requeuedBy.plugin ? ` (${attempt.requeuedBy.plugin})` : ""}`],
    ["Compared", answer.reconstruction && compared(answer.reconstruction)],
    ["Full record", el("a", { href: address(path("namespaces", namespace, "decisions", nameOf(answer.metadata.name, attempt.id))) }, "JSON")],
    ["What if", link("whatif", { namespace, pod: answer.metadata.name }, "decide it again, now")],
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
  const place = el("div", { id: "attempts" }, el("p", { class: "quiet" }, "Loading attempts …"));
  const pod = answer.metadata;
  const names = new Set(answer.columns.nodes);
  fillLater(place, get(path("namespaces", namespace, "podhistories", pod.name), { uid: pod.uid, limit: ATTEMPTS }), (history) => {
    const rows = alike(history.attempts, answer.attempt.id).map(({ attempt, first }) => [
      attempt.id === answer.attempt.id ? el("b", { "aria-current": "true" }, ordinals(attempt)) : link("decision", { namespace, name: attempt.id }, ordinals(attempt, first)),
      state(attempt.state), ago(attempt.startedAt), withNodes(attempt.headline, names), [...repeated(attempt), ...attempt.changes.map((change) => change.text)].join("; "),
    ]);
    return [table("Attempts, newest first", [["Attempt", "number"], ["Outcome"], ["Started"], ["Result", "long"], ["Changes", "long"]], rows), el("p", { class: "quiet" }, more(history.attemptsOmitted))];
  }, (failure) => el("p", { role: "alert" }, failure.message));
  return section("Attempts", place);
}

/** How often the attempt was repeated by attempts without a record. */
function repeated({ repeats }) {
  return repeats ? [`repeated ${count(repeats.count, "time")}`] : [];
}

/** The attempts, newest first, those that repeat the one before as one: `first` is the number of the earliest. */
function alike(attempts, current) {
  const found = [];
  for (const attempt of attempts) {
    const last = found[0];
    const same = last && last.attempt.id !== current && attempt.id !== current && !attempt.changes.length
      && attempt.headline === last.attempt.headline && attempt.state === last.attempt.state;
    if (same) last.attempt = { ...attempt, changes: last.attempt.changes };
    else found.unshift({ attempt, first: attempt.ordinal });
  }
  return found;
}

function rejections(answer) {
  const whole = answer.preFilters.map((verdict) => [number(answer.nodes.total), verdict.plugin, verdict.reasons.join("; "), "every node"]);
  const rows = answer.rejections.map((group) => [
    number(group.count), group.plugin, group.reasons.map((reason) => reason.text).join("; "),
    [group.nodes.map((node, i) => [i ? ", " : "", nodeLink(node.node), free(node)]), more(group.nodesOmitted)],
  ]);
  return table("Rejected nodes by reason", [["Nodes", "number"], ["Filter"], ["Reason"], ["Nodes, closest to fitting first", "long"]], [...whole, ...rows]);
}

/** How much a node has free of what it has too little of: ` (12450m)`. */
function free(node) {
  const amounts = node.reasons.map((reason) => /free (\S+)/.exec(reason.text)?.[1]).filter(Boolean);
  return amounts.length ? ` (${amounts.join(", ")} free)` : "";
}

function candidates(told) {
  if (!told?.candidates.length) return "";
  const rows = told.candidates.map((candidate) => [
    nodeLink(candidate.node), candidate.victims.map((victim, i) => [i ? ", " : "", victimLink(victim)]), number(candidate.pdbViolations), candidate.rejectedBy ?? "",
  ]);
  return [table("Preemption candidates", [["Node"], ["Victims"], ["PDB violations", "number"], ["Rejected by"]], rows), el("p", { class: "quiet" }, more(told.candidatesOmitted))];
}
