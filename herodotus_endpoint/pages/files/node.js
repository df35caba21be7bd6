// A node: how often it was considered, passed, won and lost, and what carries it. Without a name: all nodes.

import { clusterObject, get, isLocal, METADATA, nodeObjects, path } from "./api.js";
import { el, facts, field, fillLater, form, link, namespaceLink, nodeLink, podLink, section, table } from "./dom.js";
import { all, amount, stateText, taintTexts, ZONE } from "./nodes.js";
import { bar, columns } from "./plots.js";
import { TimeRange } from "./timerange.js";
import { ago, count, full, more, number, percent, signed, state, whyNotEvaluated } from "./words.js";

const PODS = 500; // read of one node
const OPEN = 30; // pods that are shown without a click

export async function view(params) {
  const name = (params.get("name") ?? "").trim();
  const time = new TimeRange("node", params, { ends: !name });
  return name ? one(name, time) : all(params, time);
}

function choose(name, time) {
  return form("node", "Choose a node and a time", field("name", "Node", name, null, { hint: "all", names: "nodes" }), ...time.fields());
}

async function one(name, time) {
  const [answer, objects] = await Promise.all([get(path("nodehistories", name), time.query), nodeObjects([name])]);
  const node = objects?.get(name);
  const zone = node?.metadata.labels?.[ZONE];
  const { won, lost } = answer;
  return { title: `Node ${name}`, body: [
    el("h1", {}, el("span", { class: "kind" }, "Node "), name),
    el("p", { class: "answer" }, isLocal() ? answer.headline : headline(answer, time)),
    now(node, zone, answer.resources),
    el("p", {}, link("clusterwhatif", { ask: "drain", nodes: name }, "What if it is drained?"), isLocal() ? "" : [" · ", link("decisions", { node: name }, "Pods that were placed here")]),
    ...(isLocal() ? [] : [time.presets(), choose(name, time)]),
    podsHere(name),
    over(answer),
    isLocal() ? "" : section("Wins and losses", facts([
      ["Won", `${number(won.count)}, ${number(won.contested)} against other feasible nodes, ${number(won.ties)} tied`],
      ["Ahead by", won.meanMargin === null ? null : `${number(won.meanMargin, 1)} points on average`],
      ["Lost", `${number(lost.count)}${lost.ahead ? `, ${number(lost.ahead)} although it scores higher than the chosen node` : ""}${lost.meanBehind === null ? "" : `, ${number(lost.meanBehind, 1)} points behind on average`}`],
      ["Equal share", fair(answer.share)],
    ]), carries(won, lost)),
    section("Filter results", filters(answer.filters)),
    section("Workloads placed on this node", workloads(answer)),
    section(isLocal() ? "Evaluated pods" : "Recent decisions", recent(answer)),
  ] };
}

/** The pods that are on the node now, filled in when they are read; nothing where the API server does not serve these pages. */
function podsHere(name) {
  const title = "Pods on this node now";
  const fieldSelector = `spec.nodeName=${name},status.phase!=Succeeded,status.phase!=Failed`;
  return fillLater(el("div", {}), clusterObject("api/v1/pods", { fieldSelector, limit: PODS }, METADATA), (list) => {
    if (!list?.items) return null;
    const pods = list.items.map(({ metadata }) => metadata);
    const left = list.metadata?.remainingItemCount ?? 0;
    const shown = pods.map((pod, i) => [i ? ", " : "", podLink(pod.namespace, pod.name)]);
    return section(title, pods.length ? el("details", { open: pods.length <= OPEN }, el("summary", {}, `${count(pods.length + left, "pod")}`), el("p", {}, shown, more(left))) : el("p", { class: "quiet" }, "None."));
  }, (failure) => section(title, el("p", { class: "missing" }, failure.code === 403 ? "You may not list pods in all namespaces." : failure.message)));
}

/** What the node has and is, apart from its history. */
function now(node, zone, resources) {
  const taints = node && taintTexts(node);
  return facts([
    ["State", node && stateText(node)],
    ["Zone", zone && link("node", { zone }, zone)],
    ["Taints", taints?.length ? taints : null],
    ...["cpu", "memory", "pods"].map((resource) => [resource === "cpu" ? "CPU requested" : resource === "memory" ? "Memory requested" : "Pods", resources && amount(resources, resource)]),
    ["Kubelet", node?.status?.nodeInfo?.kubeletVersion],
  ]);
}

function headline(answer, time) {
  if (!answer.considered) return `No decision considered this node ${time.words}.`;
  const share = answer.evaluated ? answer.chosen / answer.evaluated : null;
  const others = Object.entries(answer.notEvaluatedBy ?? {}).map(([why, n]) => `${whyNotEvaluated(why)} ${number(n)}`).join(", ");
  return `Considered ${count(answer.considered, "time")}, evaluated ${number(answer.evaluated)}${others && ` (the others: ${others})`}: feasible in ${percent(answer.eligibility.rate)} of those, and chosen ${count(answer.chosen, "time")} (${percent(share)}), ${time.words}.`;
}

function fair(share) {
  return share.nodes ? `${number(share.placements / share.nodes, 1)} of ${count(share.placements, "placement")} if ${count(share.nodes, "node")} were alike` : null;
}

function over(answer) {
  const told = answer.overTime ?? [];
  if (told.length < 2) return "";
  const points = told.map((hour) => ({ at: full(hour.from), values: [hour.chosen, hour.feasible - hour.chosen, hour.evaluated - hour.feasible] }));
  return columns("Decisions over time", points, [["chosen", "won"], ["feasible, another node won", "lost"], ["rejected", "rejected"]]);
}

function carries(won, lost) {
  const carried = Object.entries(won.carriedBy);
  const costs = Object.entries(lost.costsMost);
  const rows = [...new Set([...carried, ...costs].map(([plugin]) => plugin))].map((plugin) => [
    plugin,
    [bar((won.carriedBy[plugin] ?? 0) / Math.max(1, won.contested)), number(won.carriedBy[plugin] ?? 0)],
    lost.costsMost[plugin] === undefined ? "–" : signed(lost.costsMost[plugin], 1),
  ]);
  return rows.length ? table("Score plugins", [["Plugin"], ["Decided wins", "plotted"], ["Points relative to the winner in losses", "number"]], rows) : "";
}

function filters(told) {
  const others = told.filter((filter) => filter.rate === null).map((filter) => filter.plugin);
  const rows = told.filter((filter) => filter.rate !== null).map((filter) => [
    filter.plugin,
    [bar(filter.rate ?? 0), percent(filter.rate)],
    number(filter.rejected), number(filter.decisive),
    filter.reasons.map((reason) => `${reason.text} ${number(reason.count)}`).join(", "),
  ]);
  return rows.length ? [table("Filters", [["Filter"], ["Pass rate", "plotted"], ["Rejected", "number"], ["First failure", "number"], ["Reasons"]], rows),
    others.length ? el("p", { class: "quiet" }, `No pod needed: ${others.join(", ")}.`) : ""] : el("p", { class: "quiet" }, "No filter evaluated it.");
}

function workloads(answer) {
  const kept = new Map(answer.keepsGetting.map((row) => [row.workload, Object.entries(row.decidedBy).map(([by, n]) => `${by} ${number(n)}`).join(", ")]));
  const rows = answer.workloads.map((row) => {
    const name = row.namespace ? `${row.namespace}/${row.workload}` : row.workload;
    return [row.namespace ? [namespaceLink(row.namespace), "/", placedOf(row)] : name, number(row.count), kept.get(name) ?? ""];
  });
  if (!rows.length) return el("p", { class: "quiet" }, "None.");
  return [table("Workloads", [["Workload"], ["Pods", "number"], ["Decided by"]], rows), el("p", { class: "quiet" }, more(answer.workloadsOmitted))];
}

function recent(answer) {
  const rows = answer.recent.map((decision) => [
    podLink(decision.namespace, decision.pod, decision.id, { node: answer.metadata.name }),
    state(decision.state),
    decision.result === "rejected" ? `rejected by ${decision.rejectedBy}` : decision.result === "not-evaluated" ? `not evaluated (${whyNotEvaluated(decision.why)})` : decision.result,
    decision.points === undefined || decision.points === null ? "–" : `${number(Math.abs(decision.points))} ${(decision.result === "lost") === (decision.points >= 0) ? "behind" : "ahead"}${decision.decidedBy ? ` (${decision.decidedBy})` : ""}`,
    ago(decision.startedAt),
  ]);
  return rows.length ? table("Recent decisions", [["Pod"], ["Outcome"], ["This node"], ["Points"], ["Started"]], rows) : el("p", { class: "quiet" }, `None among the newest ${answer.recentOf} decisions.`);
}

/** A link to a workload's page, or to the decision about a pod without an owner. */
function placedOf({ namespace, workload }) {
  const [kind, name] = workload.split("/");
  return kind === "Pod" ? link("decision", { namespace, name }, workload) : link("workload", { namespace, workload }, workload);
}
