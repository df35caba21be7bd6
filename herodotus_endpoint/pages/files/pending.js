// Pods that wait, by what most nodes said. The pods of a group are fetched with the groups.

import { get, within } from "./api.js";
import { el, field, form, link, section, table } from "./dom.js";
import { bars } from "./plots.js";
import { ago, count, duration, more, number } from "./words.js";

export async function view(params) {
  const namespace = (params.get("namespace") ?? "").trim();
  const answer = await get(within(namespace, "pendingpods"));
  const due = answer.groups.filter((group) => !group.overdue);
  const late = answer.groups.filter((group) => group.overdue);
  const body = [
    el("h1", {}, "Pending pods"),
    form("pending", "Choose a namespace", field("namespace", "Namespace", namespace, null, "all")),
    el("p", { class: "answer" }, headline(answer, due)),
  ];
  if (due.length) body.push(bars("Pods by reason", due.map((group) => ({ name: group.reason, value: group.count })), "pods"));
  body.push(...due.map((group) => told(group, answer.pods)));
  if (late.length) {
    body.push(section("Overdue", el("p", { class: "quiet" }, "Deleted, or the scheduler is not running: records do not distinguish the two."), late.map((group) => told(group, answer.pods))));
  }
  return { title: "Pending", body };
}

function headline(answer, due) {
  if (!answer.count) return "No pod is pending.";
  const told = `${count(answer.count - answer.overdue, "pod")} wait${answer.count - answer.overdue === 1 ? "s" : ""}`;
  return `${told}${due.length ? `, most for: ${due[0].reason}` : ""}${more(answer.podsOmitted)}.`;
}

function told(group, pods) {
  const members = pods.filter((pod) => pod.reason === group.reason && pod.overdue === group.overdue);
  const rows = members.map((pod) => [
    link("decision", { namespace: pod.namespace, name: pod.id }, `${pod.namespace}/${pod.pod}`),
    pod.owner ?? "–",
    number(pod.attempt),
    pod.createdAt ? ago(pod.createdAt) : "–",
    next(pod),
  ]);
  const columns = [["Pod"], ["Workload"], ["Attempt", "number"], ["Created"], ["Next try"]];
  return el("details", { open: rows.length <= 20 }, el("summary", {}, el("b", {}, number(group.count)), ` ${group.reason}`), table(`Pods that wait for: ${group.reason}`, columns, rows));
}

function next(pod) {
  if (!pod.notBefore) return "–";
  const seconds = (new Date(pod.notBefore) - Date.now()) / 1000;
  if (seconds > 0) return `in ${duration(seconds)} (${pod.queue})`;
  return pod.latest ? "when something changes that may help" : "due";
}
