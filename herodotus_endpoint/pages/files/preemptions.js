// Which pods were evicted to make room, for whom, and when.

import { get, within } from "./api.js";
import { el, field, form, nodeLink, podLink, table } from "./dom.js";
import { ago, count, number, WINDOWS } from "./words.js";

const DAY = "86400";
const HIDDEN = "a pod of another namespace";

export async function view(params) {
  const namespace = (params.get("namespace") ?? "").trim();
  const since = params.get("since") ?? DAY;
  const { preemptions, complete } = await get(within(namespace, "preemptions"), { since });
  const victims = preemptions.filter((one) => one.evicted).reduce((sum, one) => sum + one.victims.filter((victim) => victim.state !== "Failed").length, 0);
  const columns = [["When"], ["Preemptor"], ["Priority", "number"], ["Node"], ["Victims", "long"], ["PDB violations", "number"]];
  return { title: "Preemptions", body: [
    el("h1", {}, "Preemptions"),
    el("p", { class: "answer" }, preemptions.length ? `${count(preemptions.length, "preemption")} evicted ${count(victims, "pod")} in that time${complete ? "" : "; older ones are left out"}.` : "No pod was evicted to make room in that time."),
    form("preemptions", "Choose a namespace and a time", field("namespace", "Namespace", namespace, null, { hint: "all", names: "namespaces" }), field("since", "Time", since, WINDOWS)),
    preemptions.length ? table("Preemptions, newest first", columns, preemptions.map(row)) : "",
  ] };
}

function row({ at, preemptor, node, victims, evicted, pdbViolations }) {
  return [
    ago(at),
    preemptor ? podLink(preemptor.namespace, preemptor.pod, preemptor.decision) : HIDDEN,
    preemptor ? number(preemptor.priority) : "–",
    nodeLink(node),
    [evicted ? "" : "by the observer's evaluation: ", victims.map((one, i) => [i ? ", " : "", one.pod ? podLink(one.namespace, one.pod) : HIDDEN, one.state === "Evicted" ? "" : ` (${one.state === "Failed" ? "eviction failed" : "result not recorded"})`])],
    number(pdbViolations),
  ];
}
