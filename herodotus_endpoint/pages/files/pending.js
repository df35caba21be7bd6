// Pods that wait, by reason. The pods of a group are read with the groups.
// Records do not know of deletions: where the API server serves these pages, pods that it no longer lists are left out.

import { get, isLocal, nameOf, path, unassignedPods, within } from "./api.js";
import { el, field, form, link, podLink, section, table, workloadLink } from "./dom.js";
import { ahead, ago, count, duration, more, number } from "./words.js";

const OPEN = 20; // pods of a group that are shown without a click
const NAMED = 5; // pods of a group
const FIXED = 20; // groups whose first fix is read
const known = new Map(); // first fixes by decision, which do not change
const YOUNG_S = 10; // a pod created while the pods were listed may be missing there

/** The pending pods of a namespace without those that are gone, which are counted in `gone`. */
export async function readPending(namespace) {
  const [answer, unassigned] = await Promise.all([get(within(namespace, "pendingpods")), unassignedPods(namespace)]);
  if (!unassigned) return { ...answer, gone: 0 };
  const pods = answer.pods.filter((pod) => unassigned.has(pod.uid) || age(pod, answer.at) <= YOUNG_S);
  if (pods.length === answer.pods.length) return { ...answer, gone: 0 };
  const groups = answer.groups.map((group) => {
    const members = pods.filter((pod) => isOf(pod, group));
    return { ...group, count: members.length, oldestAt: members[0]?.createdAt, pods: members.slice(0, NAMED).map((pod) => `${pod.namespace}/${pod.pod}`), podsOmitted: Math.max(0, members.length - NAMED) };
  }).filter((group) => group.count);
  return { ...answer, pods, groups, count: pods.length, overdue: pods.filter((pod) => pod.overdue).length, gone: answer.pods.length - pods.length };
}

export async function view(params) {
  const namespace = (params.get("namespace") ?? "").trim();
  const answer = await readPending(namespace);
  const due = answer.groups.filter((group) => !group.overdue);
  const late = answer.groups.filter((group) => group.overdue);
  const body = [
    el("h1", {}, "Pending pods"),
    el("p", { class: `answer ${due.length ? "bad" : "good"}` }, headline(answer, due)),
    form("pending", "Choose a namespace", field("namespace", "Namespace", namespace, null, { hint: "all", names: "namespaces" })),
  ];
  const fixes = await Promise.all(due.slice(0, FIXED).map((group) => fixOf(memberOf(group.pods[0], answer))));
  body.push(...due.map((group, i) => told(group, answer.pods, fixes[i])));
  if (late.length) {
    body.push(section("Overdue", el("p", { class: "quiet" }, "Not tried again when due: the scheduler does not run, or the pods were deleted."), late.map((group) => told(group, answer.pods))));
  }
  return { title: "Pending", body };
}

/** The reason of a group, marked where its pods are overdue. */
export function reasonText(group) {
  return `${group.overdue ? "overdue; " : ""}${group.reason}`;
}

/** A pod of a group, `shop/web-0`, with the name by which its decision is asked for. */
export function memberOf(pod, answer) {
  const [namespace, name] = pod.split("/");
  const id = answer.pods.find((one) => one.namespace === namespace && one.pod === name)?.id;
  return { namespace, name, id: nameOf(name, id ?? name) };
}

/** The first fix for a pod as a link to its command; a dash where none is known. */
export async function fixOf({ namespace, id }) {
  const key = `${namespace}/${id}`;
  if (isLocal() || !known.has(key)) {
    const answer = await get(path("namespaces", namespace, "podexplanations", id)).catch(() => null);
    const best = answer?.suggestions?.[0];
    if (!answer) return "–"; // it is asked for again with the next reading
    known.set(key, best ? `${best.text}${best.node && !best.object.startsWith("Node") ? `: fits ${best.node}` : ""}` : answer.possibleChanges.join(" and "));
  }
  return known.get(key) ? link("decision", { namespace, name: id }, known.get(key)) : "–";
}

function headline(answer, due) {
  const gone = answer.gone ? ` ${count(answer.gone, "other")} ${answer.gone === 1 ? "was" : "were"} deleted or placed since.` : "";
  if (answer.noRecords) return "No scheduler has sent records yet: which pods are pending is not known.";
  if (!due.length) return `No pod is pending.${gone}`;
  const waiting = answer.count - answer.overdue;
  const most = Math.max(...due.map((group) => group.count));
  const why = due.length > 1 && most === 1 ? `for ${count(due.length, "reason")}` : `most for: ${due[0].reason}`;
  return `${count(waiting, "pod")} ${waiting === 1 ? "is" : "are"} pending, ${why}.${more(answer.podsOmitted)}${gone}`;
}

function isOf(pod, group) {
  return pod.reason === group.reason && pod.overdue === group.overdue;
}

function told(group, pods, fix = "–") {
  const rows = pods.filter((pod) => isOf(pod, group)).map((pod) => [
    podLink(pod.namespace, pod.pod, pod.id ?? pod.pod),
    workloadLink(pod.namespace, pod.owner),
    number(pod.attempt),
    pod.createdAt ? ago(pod.createdAt) : "–",
    next(pod),
  ]);
  const columns = [["Pod"], ["Workload"], ["Attempt", "number"], ["Created"], ["Next try"]];
  return el("details", { open: rows.length <= OPEN }, el("summary", {}, el("b", {}, number(group.count)), ` ${group.reason}`), fix === "–" ? null : el("p", {}, el("b", { class: "label" }, "FIX"), group.count > 1 ? "for the first: " : "", fix), table(`Pods that wait for: ${group.reason}`, columns, rows));
}

function next(pod) {
  if (!pod.notBefore) return "–";
  if (pod.overdue) return "overdue";
  const earliest = Math.round(ahead(pod.notBefore));
  if (!pod.latest) return earliest > 0 ? `in ${duration(earliest)}` : "now";
  const latest = Math.max(1, Math.round(ahead(pod.latest)));
  return `on an event${earliest > 0 ? ` after ${duration(earliest)},` : ""} or in ${duration(latest)}`;
}

function age(pod, at) {
  return (new Date(at) - new Date(pod.createdAt ?? pod.startedAt)) / 1000;
}
