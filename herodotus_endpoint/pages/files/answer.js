// What an operator reads first of a pod, as the terminal says it: its state, the reason, what to do, who holds what it lacks.
// Owns: the order and words of these. Does not own: sentences of the service, and which pods hold something, which the plugin says.

import { clusterObject, path } from "./api.js";
import { el, fillLater, link, namespaceLink, nodeLink, podLink, section, table, withNodes, workloadLink } from "./dom.js";
import { ahead, ago, count, duration, number, workloadOf } from "./words.js";

const VICTIMS = 4; // named in a sentence

/** What became of the pod and when, in one line. */
export function stateLine(answer) {
  const { attempt, outcome, metadata, pod } = answer;
  const at = outcome.phases.at(-1)?.at ?? attempt.startedAt;
  const parts = [workloadLink(metadata.namespace, workloadOf(pod.owner, pod.labels)), happened(outcome, attempt, at)];
  if (attempt.attempts > 1) {
    const last = attempt.lastOrdinal === attempt.attempts;
    parts.push(el("a", { href: "#attempts" }, last ? count(attempt.attempts, "attempt") : `attempt ${ordinals(attempt)} of ${number(attempt.attempts)}`));
  } else if (attempt.failedBefore) parts.push(`${count(attempt.failedBefore, "attempt")} failed before`);
  parts.push(nextTry(attempt));
  return el("p", { class: "stateline" }, parts.filter((part) => part && part !== "–").map((part, i) => [i ? el("span", { "aria-hidden": "true", class: "dot" }, " · ") : "", part]));
}

/** The number of an attempt, or of the first and the last of equal attempts that share a record: `5` or `5–6`. */
export function ordinals({ ordinal, lastOrdinal }, first = ordinal) {
  return first === lastOrdinal ? number(first) : `${number(first)}–${number(lastOrdinal)}`;
}

/** A line that says that no record has a state of now, and the command that reads it from the API server. */
export function stateIsReadBy(command, namespace, what) {
  return el("p", { class: "quiet" }, `${what} is not in the record. The plugin reads it: `, el("code", {}, `kubectl herodotus ${command} -n ${namespace}`));
}

function happened(outcome, attempt, at) {
  if (attempt.source === "evaluated") return outcome.node ? ["on ", nodeLink(outcome.node), ", evaluated now"] : "Pending, evaluated now";
  if (outcome.lost) return ["decided ", ago(attempt.startedAt), ", result not recorded"];
  const said = { Bound: "scheduled ", Binding: "binding since ", DryRun: "decided in a dry run ", Failed: "binding failed ", Error: "failed " }[outcome.state];
  if (said) return [said, ago(at)];
  const since = attempt.podCreatedAt ? ` for ${duration(Math.max(1, -Math.round(ahead(attempt.podCreatedAt))))}` : "";
  return [`Pending${since}, last tried `, ago(at)];
}

/** When the scheduler tries the pod again; nothing where it did so already, or where that is not known. */
export function nextTry(attempt) {
  const { retry } = attempt;
  if (!retry || attempt.lastOrdinal < attempt.attempts) return "";
  const earliest = Math.round(ahead(retry.notBefore));
  if (!retry.latest) return earliest > 0 ? `next try in ${duration(earliest)}` : "next try as soon as the scheduler reaches it";
  const latest = Math.round(ahead(retry.latest));
  if (latest <= 0) return "overdue: the scheduler does not run, or the pod was deleted";
  return `next try on an event that may help${earliest > 0 ? ` after ${duration(earliest)}` : ""}, or in ${duration(latest)}`;
}

/** The result in a sentence, with a sign unless it `holds` no more; a second one where what became of the pod differs. */
export function headline(answer, names, holds = true) {
  const { outcome, headline: said, metadata } = answer;
  const { node, state } = outcome;
  let first = "";
  if (outcome.lost) first = `Decided for ${node}. Whether the pod was bound is not recorded, because the scheduler restarted. To see where it is: kubectl get pod ${metadata.name} -n ${metadata.namespace}`;
  else if (state === "Binding") first = `Decided for ${node}, not bound yet.`;
  else if (state === "DryRun") first = `Decided for ${node} in a dry run: not bound.`;
  else if (state === "Failed" && node) {
    const failed = outcome.phases.findLast((phase) => phase.status !== "Success");
    first = `Decided for ${node}, but ${failed?.phase ?? "binding"} failed: ${failed?.message || failed?.status || answer.message}`;
  }
  const bad = !node || ["Failed", "Error"].includes(state);
  return [
    el("p", { class: `answer ${!holds ? "" : bad ? "bad" : "good"}` }, holds ? el("span", { "aria-hidden": "true" }, bad ? "✗ " : "✓ ") : "", withNodes(first || said, names)),
    first ? el("p", {}, withNodes(said.replace(`On ${node}: `, `Why ${node}: `), names)) : "",
  ];
}

/** What would make the pod fit, the smallest change first. Without `commands` the pod does not exist. */
export function suggestions(answer, names, { commands = true } = {}) {
  const found = answer.suggestions ?? [];
  if (!found.length) {
    return answer.possibleChanges.length ? el("section", { class: "suggestion", "aria-label": "Fix" }, el("p", {}, el("b", { class: "label" }, "FIX"), withNodes(answer.possibleChanges.join(" and "), names), " (not checked)")) : "";
  }
  return el("section", { class: "suggestion", "aria-label": "Fix" }, found.map((one, i) => suggestion(one, i ? "or" : "FIX", names, commands)));
}

const COSTS = { application: "changes the application", node: "changes a node", capacity: "needs capacity" };

function suggestion(one, label, names, commands) {
  const ofNode = one.object.split("/")[0] === "Node";
  const rollsOut = commands && one.rollsOut.length ? `rolls out ${one.rollsOut.join(", ")}` : "";
  const unknown = commands && !one.command && !ofNode ? `no command known for ${one.object}` : "";
  const helps = one.helps ? `also helps ${count(one.helps, "other pod")}${one.helps > 1 ? ", each alone" : ""}` : "";
  const known = [...one.costs.map((cost) => COSTS[cost]), rollsOut, unknown, helps, one.checked ? "" : "not checked"].filter(Boolean);
  const fits = ofNode ? "" : [": fits ", nodeLink(one.node)];
  return el("div", { class: "one-suggestion" },
    el("p", {}, el("b", { class: "label" }, label), withNodes(one.text, names), fits, known.length ? ` (${known.join("; ")})` : "",
      commands && one.deletes.length ? el("span", { class: "deletes" }, `deletes ${one.deletes.join(", ")}`) : ""),
    commands && one.command ? command(one) : "");
}

/** A command with a button that copies it; `deletes` names what it deletes. */
export function commandOf(text, command, deletes = []) {
  return el("div", { class: "command" }, el("pre", { tabindex: "0", "aria-label": `Command: ${text}` }, el("code", {}, command)), copyButton({ text, command, deletes }));
}

function command(one) {
  const needs = one.rights.map((right) => `${right.verb} ${right.resource}${right.namespace ? ` in ${right.namespace}` : ""}`).join(", ");
  return [
    commandOf(one.text, one.command, one.deletes),
    needs ? el("p", { class: "quiet needs" }, `needs the right to ${needs}`) : "",
  ];
}

function copyButton(one) {
  const said = one.deletes.length ? "Copy (deletes)" : "Copy";
  const button = el("button", { type: "button", class: one.deletes.length ? "danger" : null, "aria-label": `Copy the command: ${one.text}${one.deletes.length ? `; it deletes ${one.deletes.join(", ")}` : ""}` }, said);
  const told = el("span", { class: "unseen", "aria-live": "polite" });
  button.addEventListener("click", async () => {
    const done = await copy(one.command);
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    told.textContent = done ? "The command is copied" : "The command is selected";
    if (!done) getSelection().selectAllChildren(button.parentElement.querySelector("code"));
    setTimeout(() => { button.textContent = said; }, 2500);
  });
  return [button, told];
}

/** Whether the text is in the clipboard now: browsers refuse it to pages without TLS that are not on this machine. */
async function copy(text) {
  return navigator.clipboard ? navigator.clipboard.writeText(text).then(() => true, () => false) : false;
}

/** The pods that hold what the pod lacks, as `kubectl herodotus ui` answers; `live` is that answer, null without `ui`. */
export function holders(live) {
  if (!live) return "";
  return fillLater(el("div", { class: "holders" }), live, ({ holders: found }) => (found ? list(found) : []), () => []); // the state says what failed
}

function list({ what, node, text, pods, omitted }) {
  if (!pods) return el("p", { class: "quiet" }, text);
  const hasAmounts = pods.some((one) => one.amount);
  const rows = pods.map(({ namespace, name, amount, priority, owner }) => [podLink(namespace, name), ...(hasAmounts ? [amount] : []), number(priority), owner ? workloadLink(namespace, owner) : "–"]);
  const columns = [["Pod"], ...(hasAmounts ? [["Request", "number"]] : []), ["Priority", "number"], ["Owner"]];
  return [section([`Who holds ${what} on `, nodeLink(node)],
    el("p", {}, text),
    table(`Pods that hold ${what} on ${node}`, columns, rows),
    el("p", { class: "quiet" }, `${omitted ? `… and ${count(omitted, "other pod")}. ` : ""}Read from the API server just now.`))];
}

/** Which pods preemption evicts, or why it does not help, in sentences. */
export function preemption(answer, names) {
  const told = answer.preemption;
  if (told?.nominatedNode) {
    const best = told.candidates[0];
    const named = best.victims.slice(0, VICTIMS).map((victim, i) => [i ? ", " : "", victimLink(victim)]);
    const more = best.victims.length > VICTIMS ? ` … and ${number(best.victims.length - VICTIMS)} more` : "";
    const budgets = best.pdbViolations ? `, against ${count(best.pdbViolations, "disruption budget")}` : "";
    return [[told.evicted ? el("b", { class: "bad" }, "evicted ") : "dry run, nothing evicted; preemption would evict ", named, more, " from ", nodeLink(best.node), budgets],
      ...answer.outcome.phases.filter((phase) => phase.phase === "Evict" && phase.status !== "Success").map((phase) => phase.message)];
  }
  const said = answer.postFilters.filter((verdict) => verdict.reasons.join() !== "no new claims to deallocate");
  return said.map((verdict) => {
    if (answer.preFilters.length && verdict.reasons.join() === "not found") return "not tried: the pod was rejected before any node was evaluated";
    return withNodes(verdict.reasons.join(", ").replace(/^preemption: /, "").replace(/^\d+\/\d+ nodes are available: /, "") || verdict.code, names);
  });
}

/** `shop/web-0` as links; a victim whose namespace the reader may not see has no slash. */
export function victimLink(victim) {
  const [namespace, name] = victim.split("/");
  return name ? [namespaceLink(namespace), "/", link("decision", { namespace, name }, name)] : victim;
}

/** Which preemption evicted the pod, and for whom, in a sentence. */
export function eviction({ at, evicted, node, preemptor }) {
  const whom = preemptor
    ? [podLink(preemptor.namespace, preemptor.pod, preemptor.decision), ` (priority ${number(preemptor.priority)}, attempt ${number(preemptor.attempt)})`]
    : "a pod of another namespace";
  return [evicted ? "Evicted from " : "By the observer's evaluation, evicted from ", nodeLink(node), " ", ago(at), " to make room for ", whom, "."];
}

/** Whether the pod of a decision still exists: "deleted", "replaced", or "" where it does or nobody can say. */
export async function fate(answer) {
  const { namespace, name, uid } = answer.metadata;
  try {
    const pod = await clusterObject(`api/v1/${path("namespaces", namespace, "pods", name)}`);
    return pod && uid && pod.metadata.uid !== uid ? "replaced" : "";
  } catch (failure) {
    return failure.code === 404 ? "deleted" : "";
  }
}
