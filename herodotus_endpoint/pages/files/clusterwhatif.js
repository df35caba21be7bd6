// What would follow from changes to the cluster: drained, cordoned, added nodes; how many pods fit; which nodes could be
// emptied. Owns: the questions, the order of an answer. Does not own: any sentence of it. Nothing is changed.

import { commandOf } from "./answer.js";
import { postUntilDone } from "./api.js";
import { el, field, nodeLink, podLink, section, table, withNodes } from "./dom.js";
import { answerTo, choices, readObject } from "./whatif.js";
import { count, fitError, formatRequested, more, number } from "./words.js";

export const live = false;

const ROWS = 100; // of each table
const PLAN_S = 20; // time of a search, that of the command
const NOT_DRAINED = "NodeNotDrained"; // cause of a pod that could be evicted, on a node with one that cannot be
const check = (name, label) => el("div", { class: "field check" }, el("input", { id: `field-${name}`, name, type: "checkbox" }), el("label", { for: `field-${name}` }, label));
const nodesField = (given, rest = {}) => field("nodes", "Nodes", given("nodes"), null, { hint: "worker-1, worker-2", names: "nodes", required: true, ...rest });
const named = (of) => of("nodes").split(/[\s,]+/).filter(Boolean);
const change = (kind) => (of) => ({ changes: [{ kind, nodes: named(of) }] });

// What can be asked: its fields, the spec of its ClusterReview, and its button.
const QUESTIONS = {
  drain: {
    button: "Show what a drain would do",
    fields: (given) => [nodesField(given), check("force", "also pods without a controller (--force)"), check("emptydir", "also pods with local storage (--delete-emptydir-data)")],
    spec: (of) => ({ changes: [{ kind: "Drain", nodes: named(of), force: Boolean(of("force")), deleteEmptyDirData: Boolean(of("emptydir")) }] }),
  },
  cordon: { button: "Show what would follow", fields: (given) => [nodesField(given)], spec: change("Cordon") },
  uncordon: { button: "Show what would follow", fields: (given) => [nodesField(given)], spec: change("Uncordon") },
  add: {
    button: "Show what would follow",
    fields: (given) => [
      field("like", "Copies of node", given("like"), null, { names: "nodes", required: true }),
      field("count", "Number", given("count") || "1", null, { type: "number", min: "1", max: "1000", required: true }),
      field("zone", "Zone", given("zone"), null, { hint: "the node's" }),
    ],
    spec: (of) => ({ changes: [{ kind: "AddNodes", like: of("like"), count: Number(of("count")), zone: of("zone") }] }),
  },
  capacity: {
    button: "Show how many more fit",
    fields: (given) => [
      field("namespace", "Namespace", given("namespace"), null, { hint: "default", names: "namespaces" }),
      field("workload", "Pods like those of", given("workload"), null, { hint: "Deployment/web", names: "workloads" }),
      el("div", { class: "field" }, el("label", { for: "field-manifest" }, "or a manifest of one object, JSON"), el("textarea", { id: "field-manifest", name: "manifest", rows: "6", spellcheck: "false" })),
    ],
    spec: async (of) => ({ capacity: { object: of("manifest") ? JSON.parse(of("manifest")) : await readObject(of), namespace: of("namespace") } }),
  },
  plan: {
    button: "Find the fewest changes",
    fields: (given) => [
      field("namespace", "Namespace", given("namespace"), null, { hint: "default", names: "namespaces" }),
      field("pod", "Waiting pod", given("pod"), null, { names: "pods", required: true }),
    ],
    spec: (of) => ({ plan: { pods: [`${of("namespace") || "default"}/${of("pod")}`], namespace: of("namespace") || "default", timeLimitSeconds: PLAN_S } }),
  },
  consolidate: { button: "Show which nodes could be emptied", fields: () => [], spec: () => ({ consolidate: {} }) },
};

export async function view(params) {
  const asked = QUESTIONS[params.get("ask")] ? params.get("ask") : "drain";
  const { fields, spec, button } = QUESTIONS[asked];
  const given = (name) => (params.get(name) ?? "").trim();
  const ask = async (of) => show((await postUntilDone("clusterreviews", "ClusterReview", await spec(of))).status);
  return { title: "What if", body: [
    el("h1", {}, "What if"),
    choices(asked),
    el("p", {}, "The scheduler decides on a copy of its present state. Nothing is created, changed or evicted."),
    ...answerTo("What if", [el("div", { class: "filters" }, fields(given))], button, ask),
  ] };
}

/** Which budgets a drain asked, or that none selects an evicted pod. */
function budgets(asked) {
  const names = asked.map((one) => `${one.namespace}/${one.name} (${one.pods} ${one.pods === 1 ? "pod" : "pods"})`);
  return `PodDisruptionBudgets: ${names.length ? `${names.join(", ")}, asked before each eviction` : "none selects an evicted pod"}.`;
}

function show(status) {
  const nodes = new Set([...status.nodes.map((one) => one.name), ...status.placements.flatMap((pod) => [pod.node, pod.fromNode]), ...status.blocked.map((pod) => pod.node)]);
  const pending = status.placements.filter((pod) => !pod.node);
  const bad = pending.length || status.blocked.length;
  const movesPods = status.placements.some((pod) => pod.fromNode) || status.deleted.length || status.blocked.length;
  const isChange = !status.capacity && !status.consolidation && !status.plan;
  const kind = isChange ? (bad ? " bad" : " good") : "";
  return [
    el("h2", { tabindex: "-1" }, "Answer"),
    el("p", { class: `answer${kind}` }, isChange ? el("span", { "aria-hidden": "true" }, bad ? "✗ " : "✓ ") : "", withNodes(status.headline, nodes)),
    ...(status.drainCommands ?? []).map((command) => commandOf("drain", command)),
    rows("Stays pending", [["Pod"], ["From"], ["Why", "long"]], pending, (pod) => [podLink(pod.namespace, pod.name), node(pod.fromNode), fitError(pod.reason)]),
    rows("Blocks", [["Pod"], ["On"], ["Why", "long"]], status.blocked.filter((pod) => pod.cause !== NOT_DRAINED), (pod) => [podLink(pod.namespace, pod.name), node(pod.node), pod.message]),
    status.budgets ? el("p", {}, budgets(status.budgets.selecting)) : "",
    rows("Moves", [["Pod"], ["From"], ["To"], ["Decided by"]], status.placements.filter((pod) => pod.node), (pod) => [podLink(pod.namespace, pod.name), node(pod.fromNode), node(pod.node), pod.plugin]),
    rows("Pending, gets a node", [["Pod"], ["To"], ["Decided by"]], status.pending, (pod) => [podLink(pod.namespace, pod.name), node(pod.node), pod.plugin]),
    rows("Was pending, stays so", [["Pod"], ["Why", "long"]], movesPods ? [] : (status.stillPending ?? []), (pod) => [podLink(pod.namespace, pod.name), fitError(pod.reason)]),
    rows("Ends", [["Pod"], ["On"], ["Why"]], status.deleted, (pod) => [podLink(pod.namespace, pod.name), node(pod.node), pod.cause]),
    rows("Left alone", [["Pod"], ["On"], ["Why"]], status.ignored, (pod) => [podLink(pod.namespace, pod.name), node(pod.node), pod.cause]),
    rows("Nodes before and after", [["Node"], ["State"], ["Pods"], ["CPU requests"], ["Memory requests"]], status.nodes, (one) => [
      node(one.name), one.after ? (one.schedulable ? "schedulable" : "cordoned") : "removed",
      ...["pods", "cpu", "memory"].map((name) => both(one, (amounts) => formatRequested(name, amounts[name]))),
    ]),
    status.capacity ? capacity(status.capacity) : "",
    status.consolidation ? consolidation(status.consolidation) : "",
    status.plan ? plans(status.plan) : "",
    status.notes.map((note) => el("p", { class: "quiet" }, note)),
  ].flat(Infinity).filter(Boolean);
}

function rows(title, columns, items, cells) {
  if (!items.length) return "";
  return section(`${title}: ${number(items.length)}`, table(title, columns, items.slice(0, ROWS).map(cells)), el("p", { class: "quiet" }, more(items.length - ROWS)));
}

function node(name) {
  return name ? nodeLink(name) : "–";
}

function both({ before, after }, text) {
  const [a, b] = [before, after].map((amounts) => (amounts ? text(amounts) : "–"));
  return a === b ? a : `${a} → ${b}`;
}

function capacity(told) {
  const zones = Object.entries(told.zones).map(([zone, fits]) => ({ zone, fits }));
  return [
    zones.length > 1 ? rows("Zones", [["Zone"], ["Pods", "number"]], zones, ({ zone, fits }) => [zone || "no zone", number(fits)]) : "",
    rows("Nodes", [["Node"], ["Pods", "number"], ["Limited by", "long"]], told.nodes, (one) => [nodeLink(one.node), number(one.fits), one.limitedBy]),
  ];
}

/** The least disruptive plan of each kind: its steps in order, with the command of each. */
function plans(told) {
  const nodes = (names) => names.map((name, i) => [i ? ", " : "", nodeLink(name)]);
  return told.kinds.filter((kind) => kind.plans.length).map(({ kind, plans: [plan] }) => [
    rows(`Plan ${kind}, steps`, [["Step"], ["Pod"], ["Nodes"], ["Lands on"], ["Command", "long"]], plan.steps, (step) => [
      step.text || step.kind, step.pod ? podLink(step.namespace, step.pod) : "–", step.nodes.length ? nodes(step.nodes) : node(step.node),
      step.landsOn.length ? nodes(step.landsOn) : "–", step.command ? el("code", {}, step.command) : "–",
    ]),
    rows(`Plan ${kind}, afterwards`, [["Pod"], ["Lands on"]], plan.targets, (pod) => [podLink(pod.namespace, pod.name), nodes(pod.landsOn)]),
  ]);
}

function consolidation(told) {
  return [
    rows("Could be emptied", [["Node"], ["Pods", "number"], ["To", "long"]], told.emptied, (one) => [nodeLink(one.node), number(one.pods), Object.entries(one.targets).map(([name, n], i) => [i ? ", " : "", nodeLink(name), ` (${number(n)})`])]),
    rows("Could not", [["Node"], ["Kept by"], ["Why", "long"]], told.kept, (one) => [nodeLink(one.node), count(one.pods.length, "pod"), one.pods.slice(0, 1).map((pod) => `${pod.pod}: ${pod.reason}`)]),
  ];
}
