// All nodes: what pods request of them, their state and taints now, how often they won. Records know amounts and
// counts; zone, state and taints are those of the Node objects, where the API server serves these pages.

import { clusterNodes, everyPage, isLocal, nodeObjects } from "./api.js";
import { el, field, form, link, nodeLink } from "./dom.js";
import { choice, List } from "./list.js";
import { bar } from "./plots.js";
import { ago, count, formatAvailable, formatRequested, number, percent } from "./words.js";

export const ZONE = "topology.kubernetes.io/zone";
const SHOWN = [["", "all nodes"], ["cordoned", "cordoned"], ["full", "90% of a resource requested"], ["unused", "not chosen in that time"]];
const FULL = 0.9;
const AMOUNTS = [["cpu", "CPU"], ["memory", "Memory"], ["pods", "Pods"]];

export async function all(params, time) {
  const zone = (params.get("zone") ?? "").trim();
  const show = params.get("show") ?? "";
  const [items, present, cordoned] = await Promise.all([
    everyPage("nodehistories", { ...time.query, resources: "true" }), clusterNodes({}),
    show === "cordoned" ? clusterNodes({ fieldSelector: "spec.unschedulable=true" }) : null,
  ]);
  const zones = present && new Map(present.map((node) => [node.name, node.labels?.[ZONE] ?? ""]));
  const members = cordoned && new Set(cordoned.map((node) => node.name));
  const rows = items.filter((one) => one.resources || !zones || zones.has(one.metadata.name))
    .map((one) => ({ ...one, name: one.metadata.name, zone: zones?.get(one.metadata.name) ?? "" }))
    .filter((row) => (!zone || !zones || row.zone === zone) && isShown(row, show, members));
  const list = new List({
    caption: "Nodes", what: "node", rows, params, sort: "name", prepare: readObjects,
    words: (row) => `${row.name} ${row.zone}`,
    columns: columns(time, zones),
  });
  return { title: "Nodes", body: [
    el("h1", {}, zone ? [el("span", { class: "kind" }, "Zone "), zone] : "Nodes"),
    said(rows, { zone, zones, hasHistory: items.length > 0, unknown: show === "cordoned" && !cordoned }),
    isLocal() ? "" : time.presets(),
    form("node", "Choose a node and a time", field("name", "Node", "", null, { hint: "all", names: "nodes" }), ...(isLocal() ? [] : time.fields())),
    choice("node", params, "show", isLocal() ? SHOWN.filter(([value]) => value !== "unused") : SHOWN, "Which nodes"),
    rows.length ? await list.shown() : "",
  ] };
}

function isShown(row, show, cordoned) {
  if (show === "cordoned") return !cordoned || cordoned.has(row.name);
  if (show === "full") return AMOUNTS.some(([resource]) => share(row, resource) >= FULL);
  return show !== "unused" || !row.chosen;
}

function said(rows, { zone, zones, hasHistory, unknown }) {
  const at = rows.find((row) => row.resources)?.resources.at;
  const parts = [rows.length ? `${count(rows.length, "node")}${zone && zones ? " in this zone" : ""}.` : hasHistory ? "No node matches." : "No node has a history yet."];
  if (zone && !zones) parts.push(" Zones are labels of the nodes, which cannot be read here: all nodes are listed.");
  if (unknown) parts.push(" Which nodes are cordoned cannot be read here: all nodes are listed.");
  if (at) parts.push(` Requests are those ${isLocal() ? "of the pods that have not ended" : "that the newest decision saw"}, `, ago(at), ".");
  return el("p", { class: "answer" }, parts);
}

function columns(time, zones) {
  return [
    { head: "Node", key: "name", by: (row) => row.name, cell: (row) => nodeLink(row.name, time.link) },
    { head: "State", key: "state", cell: (row) => stateText(row.object) },
    ...(zones ? [{ head: "Zone", key: "zone", by: (row) => row.zone, cell: (row) => (row.zone ? link("node", { zone: row.zone }, row.zone) : "–") }] : []),
    ...AMOUNTS.map(([resource, head]) => ({ head, key: resource, kind: "plotted", by: (row) => share(row, resource), cell: (row) => amount(row.resources, resource) })),
    { head: "Taints", key: "taints", cell: (row) => taintTexts(row.object) },
    ...(isLocal() ? [] : [{ head: "Rejected", key: "rejected", kind: "number", by: (row) => rejected(row), cell: (row) => percent(row.evaluated ? rejected(row) : null) },
    { head: "Chosen", key: "chosen", kind: "number", by: (row) => row.chosen, cell: (row) => number(row.chosen) }]),
  ];
}

async function readObjects(rows) {
  const objects = await nodeObjects(rows.map((row) => row.name));
  for (const row of rows) row.object = objects?.get(row.name);
}

function share({ resources }, resource) {
  return resources?.allocatable[resource] ? (resources.requested[resource] ?? 0) / resources.allocatable[resource] : 0;
}

function rejected(row) {
  return row.evaluated ? 1 - row.feasible / row.evaluated : 0;
}

/** What pods request of a resource of a node, as a bar and in figures. */
export function amount(resources, resource) {
  if (!resources?.allocatable[resource]) return "–";
  const [of, all] = [resources.requested[resource] ?? 0, resources.allocatable[resource]];
  return [bar(of / all), `${formatRequested(resource, of)} of ${formatAvailable(resource, all)}`];
}

/** The state of a Node object as kubectl names it, and the conditions that are not as they should be. */
export function stateText(node) {
  if (!node) return "–";
  const conditions = node.status?.conditions ?? [];
  const ready = conditions.find((one) => one.type === "Ready")?.status;
  const wrong = conditions.filter((one) => one.type !== "Ready" && one.status === "True").map((one) => one.type);
  const parts = [ready === "True" ? "Ready" : ready ? "NotReady" : "no condition Ready", ...(node.spec?.unschedulable ? ["cordoned"] : []), ...wrong];
  const isGood = ready === "True" && parts.length === 1;
  return el("span", { class: `state ${isGood ? "good" : "bad"}` }, el("span", { "aria-hidden": "true" }, isGood ? "✓ " : "✗ "), parts.join(", "));
}

/** The taints of a Node object, one a line, without the one that says that it is cordoned. */
export function taintTexts(node) {
  const taints = (node?.spec?.taints ?? []).filter((one) => one.key !== "node.kubernetes.io/unschedulable");
  return taints.map((one) => el("span", { class: "line" }, `${one.key}${one.value ? `=${one.value}` : ""}:${one.effect}`));
}
