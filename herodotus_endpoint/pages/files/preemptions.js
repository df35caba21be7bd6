// Which pods were evicted to make room, for whom, and when.

import { get, within } from "./api.js";
import { el, field, form, nodeLink, podLink, table } from "./dom.js";
import { TimeRange } from "./timerange.js";
import { ago, count, number } from "./words.js";

const HIDDEN = "a pod of another namespace";

export async function view(params) {
  const namespace = (params.get("namespace") ?? "").trim();
  const time = new TimeRange("preemptions", params);
  const { preemptions, complete } = await get(within(namespace, "preemptions"), time.query);
  const victims = preemptions.filter((one) => one.evicted).reduce((sum, one) => sum + one.victims.filter((victim) => victim.state !== "Failed").length, 0);
  const columns = [["When"], ["Preemptor"], ["Priority", "number"], ["Node"], ["Victims", "long"], ["PDB violations", "number"]];
  return { title: "Preemptions", body: [
    el("h1", {}, "Preemptions"),
    el("p", { class: "answer" }, preemptions.length ? `${count(preemptions.length, "preemption")} evicted ${count(victims, "pod")} ${time.words}${complete ? "" : "; older ones are left out"}.` : `No pod was evicted to make room ${time.words}.`),
    time.presets(),
    form("preemptions", "Choose a namespace and a time", field("namespace", "Namespace", namespace, null, { hint: "all", names: "namespaces" }), ...time.fields()),
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
