// Where the pods of a workload went, and why; which of them wait. Zones are the nodes' present labels.

import { stateIsReadBy } from "./answer.js";
import { clusterNodes, get, isLocal, path } from "./api.js";
import { el, facts, field, form, link, namespaceLink, nodeLink, section, table, withNodes } from "./dom.js";
import { bar, bars } from "./plots.js";
import { TimeRange } from "./timerange.js";
import { ago, byName, count, full, number, percent, state } from "./words.js";
import { all } from "./workloads.js";

const ZONE = "topology.kubernetes.io/zone";
const HOSTNAME = "kubernetes.io/hostname";
const ZONED = 200; // nodes whose zones are read

export async function view(params) {
  const namespace = (params.get("namespace") ?? "").trim();
  const workload = (params.get("workload") ?? "").trim();
  const time = new TimeRange("workload", params, { ends: !namespace || !workload });
  const choose = form("workload", "Choose a workload",
    field("namespace", "Namespace", namespace, null, { hint: "all", names: "namespaces" }),
    field("workload", "Workload", workload, null, { hint: "all", names: "workloads", pattern: "[^/]+/[^/]+", title: "KIND/NAME, such as Deployment/web" }),
    ...time.fields());
  if (!namespace || !workload) return { title: "Workloads", body: [el("h1", {}, "Workloads"), ...await allWith(params, namespace, time, choose)] };
  const [kind, name] = split(workload);
  const answer = await get(path("namespaces", namespace, "workloadplacements", `${kind.toLowerCase()}.${name}`), time.query);
  const zones = await zonesOf(answer.nodes);
  const names = new Set(answer.nodes.map((node) => node.node));
  return { title: answer.metadata.name, body: [
    el("h1", {}, el("span", { class: "kind" }, namespaceLink(namespace), " / "), answer.metadata.name),
    el("p", { class: `answer ${answer.pending.length ? "bad" : "good"}` }, withNodes(answer.headline, names)),
    ...(isLocal() ? [] : [time.presets(), choose]),
    stateIsReadBy(`workload ${answer.metadata.name}`, namespace, "Which of its pods exist and run now"),
    answer.pending.length ? section("Pending", waiting(namespace, answer.pending)) : "",
    answer.preempted?.length ? section("Preempted", preempted(namespace, answer.preempted)) : "",
    zones ? bars("Pods by zone", spread(answer.nodes, zones), "pods") : "",
    answer.nodes.length ? section("Nodes", nodes(answer.nodes, zones)) : "",
    answer.recent.length ? section("Last placements", recent(namespace, answer.recent)) : "",
    facts([["Skew", `${count(answer.skew, "pod")} between nodes`], ["Nodes in the cluster", number(answer.nodesTotal)], ["Since", isLocal() ? null : full(answer.since)],
      ["Decisions", isLocal() ? null : answer.complete ? "all" : "the newest only"], ["What if", link("whatif", { namespace, workload: answer.metadata.name }, "place more of its pods")]]),
  ] };
}

/** All workloads; what chooses a time only where there is a past. */
async function allWith(params, namespace, time, choose) {
  const found = await all(params, namespace, time);
  return [found[0], ...(isLocal() ? [] : [time.presets(), choose]), ...found.slice(1)];
}

/** Kind and name of `Deployment/web`; a name alone is a Deployment's. */
function split(workload) {
  const [kind, name] = workload.split("/");
  return name ? [kind, name] : ["deployment", kind];
}

function waiting(namespace, pods) {
  return table("Pending pods", [["Pod"], ["Last tried"], ["Message", "long"]], pods.map((pod) => [link("decision", { namespace, name: pod.pod }, pod.pod), ago(pod.startedAt), pod.message]));
}

function preempted(namespace, pods) {
  const rows = pods.map(({ pod, preemptedBy: { node, preemptor, at } }) => [link("decision", { namespace, name: pod }, pod), nodeLink(node),
    preemptor ? link("decision", { namespace: preemptor.namespace, name: preemptor.decision }, `${preemptor.namespace}/${preemptor.pod}`) : "a pod of another namespace", ago(at)]);
  return table("Preempted pods", [["Pod"], ["Node"], ["Preempted by"], ["When"]], rows);
}

/** Zone by node; null where the nodes cannot be read or have none. */
async function zonesOf(nodes) {
  if (!nodes.length) return null;
  const names = nodes.slice(0, ZONED).map((node) => node.node).join(",");
  const found = await clusterNodes({ labelSelector: `${HOSTNAME} in (${names})` });
  const zones = new Map((found ?? []).filter((node) => node.labels?.[ZONE]).map((node) => [node.name, node.labels[ZONE]]));
  return zones.size ? zones : null;
}

function spread(nodes, zones) {
  const pods = new Map();
  for (const node of nodes) pods.set(zones.get(node.node) ?? "", (pods.get(zones.get(node.node) ?? "") ?? 0) + node.pods);
  return [...pods].sort(([a], [b]) => byName(a, b)).map(([zone, value]) => ({ name: zone || "no zone known", value, to: zone ? zoneUrl(zone) : "" }));
}

function zoneUrl(zone) {
  return `?${new URLSearchParams({ view: "node", zone })}`;
}

function nodes(told, zones) {
  const rows = told.map((node) => [
    nodeLink(node.node), ...(zones ? [zones.has(node.node) ? link("node", { zone: zones.get(node.node) }, zones.get(node.node)) : "–"] : []),
    number(node.pods), [bar(node.share), percent(node.share)],
    Object.entries(node.decidedBy).map(([by, n]) => `${by} ${number(n)}`).join(", "), node.meanMargin === null ? "–" : `${number(node.meanMargin, 1)} points`, ago(node.lastAt),
  ]);
  return table("Nodes", [["Node"], ...(zones ? [["Zone"]] : []), ["Pods", "number"], ["Share", "plotted"], ["Decided by"], ["Mean margin", "number"], ["Last"]], rows);
}

function recent(namespace, told) {
  const rows = told.map((one) => [link("decision", { namespace, name: one.pod }, one.pod), state(one.state), nodeLink(one.node), one.decidedBy ?? "–", one.points === null ? "–" : `${number(one.points)} points`, ago(one.startedAt)]);
  return table("Last placements", [["Pod"], ["Outcome"], ["Node"], ["Decided by"], ["Margin", "number"], ["When"]], rows);
}
