// All workloads: how many pods were placed and wait, how they are spread, and how many are ready now. Records know the
// pods that were decided; readiness is what kubectl prints, where the API server serves these pages.

import { get, isLocal, path, printedRows, within } from "./api.js";
import { el, link, namespaceLink } from "./dom.js";
import { List } from "./list.js";
import { ago, count, number } from "./words.js";

const KINDS = { Deployment: "deployments", StatefulSet: "statefulsets", DaemonSet: "daemonsets" };

/** The headline and the list. */
export async function all(params, namespace, time) {
  const [{ workloads, complete }, ready] = await Promise.all([get(within(namespace, "workloadplacements"), time.query), readiness(namespace)]);
  if (!workloads.length) return [el("p", { class: "answer" }, isLocal() ? "No pod exists." : `No decision about a workload's pod was made ${time.words}.`)];
  const waiting = workloads.filter((one) => one.pending).length;
  const rows = workloads.map((one) => ({ ...one, ready: ready?.get(`${one.namespace}/${one.workload}`) }));
  const list = new List({
    caption: "Workloads", what: "workload", rows, params, sort: waiting ? "pending" : "name",
    words: (row) => `${row.namespace}/${row.workload}`,
    columns: [
      { head: "Namespace", key: "namespace", by: (row) => `${row.namespace}/${row.workload}`, cell: (row) => namespaceLink(row.namespace) },
      { head: "Workload", key: "name", by: (row) => row.workload, cell: (row) => link("workload", { namespace: row.namespace, workload: row.workload, ...time.link }, row.workload) },
      ...(ready ? [{ head: "Ready", key: "ready", kind: "number", by: (row) => missing(row.ready), cell: (row) => (row.ready ? el("span", { class: missing(row.ready) ? "bad" : "" }, row.ready) : "–") }] : []),
      { head: "Waiting", key: "pending", kind: "number", by: (row) => row.pending, cell: (row) => (row.pending ? el("b", { class: "bad" }, number(row.pending)) : "0") },
      { head: "Placed", key: "placed", kind: "number", by: (row) => row.placed, cell: (row) => number(row.placed) },
      { head: "Nodes", key: "nodes", kind: "number", by: (row) => row.nodes, cell: (row) => number(row.nodes) },
      { head: "Most on one node", key: "most", kind: "number", by: (row) => row.mostOnOneNode, cell: (row) => number(row.mostOnOneNode) },
      { head: isLocal() ? "Last pod created" : "Last attempt", key: "last", kind: "number", by: (row) => Date.parse(row.lastAt), cell: (row) => ago(row.lastAt) },
    ],
  });
  const said = waiting ? `Pods of ${count(waiting, "workload")} wait for a node.` : "No workload waits for a node.";
  return [el("p", { class: `answer ${waiting ? "bad" : "good"}` }, el("span", { "aria-hidden": "true" }, waiting ? "✗ " : "✓ "), said, complete ? "" : " Only the newest decisions are counted."), await list.shown()];
}

/** `2/3` by workload; null where no kind of workload can be read. */
async function readiness(namespace) {
  const scope = namespace ? `${path("namespaces", namespace)}/` : "";
  const lists = await Promise.all(Object.values(KINDS).map((plural) => printedRows(`apis/apps/v1/${scope}${plural}`)));
  if (lists.every((rows) => rows === null)) return null;
  return new Map(Object.keys(KINDS).flatMap((kind, i) => (lists[i] ?? []).map((row) => [`${row.namespace}/${kind}/${row.name}`, kind === "DaemonSet" && row.Desired !== undefined ? `${row.Ready}/${row.Desired}` : row.Ready])));
}

/** How many pods are not ready of `2/3`. */
function missing(ready) {
  const [are, wanted] = (ready ?? "0/0").split("/").map(Number);
  return wanted - are;
}
