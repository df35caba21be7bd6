// The pods that hold what a pending pod lacks on a node, of the Pod objects that the reader may list. Pure.
// The same answer as the plugin's (`herodotus_record.holders`), from the same objects.

import { byName, count, workloadOf } from "./words.js";

const DECIMAL = { "": 0, n: -9, u: -6, m: -3, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const BINARY = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };
const QUANTITY = /^([+-]?[\d.]+)(?:[eE]([+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)$/;
const NAMED = 5;

/**
 * What the pod lacks on the node of the first suggestion or on the closest one: `{node, kind, names, missing, others, unknown}`;
 * null where no other pod holds it. `others` says what else stands against the node, `unknown` which filters did not run there.
 */
export function findHeld(answer) {
  if (answer.outcome.node !== null) return null;
  const suggested = answer.suggestions?.[0]?.node;
  const rows = [...answer.rejections.flatMap((group) => group.nodes.filter((row) => row.node === suggested)), ...answer.rejections.flatMap((group) => group.nodes.slice(0, 1))];
  for (const row of rows) {
    for (const reason of row.reasons) {
      const held = parse(row.node, reason);
      if (held) return { ...held, ...findOthers(answer, held.node, reason) };
    }
  }
  return null;
}

function findOthers(answer, node, reason) {
  const same = JSON.stringify(reason);
  const row = (answer.perNode ?? []).find((one) => one.node === node);
  if (row) {
    const others = row.rejectedBy.flatMap((verdict) => verdict.reasons).filter((one) => JSON.stringify(one) !== same).map((one) => one.text);
    const ran = [...row.passed, ...row.skipped, ...row.rejectedBy.map((verdict) => verdict.plugin)];
    return { others, unknown: answer.filters.map((one) => one.plugin).filter((plugin) => !ran.includes(plugin)) };
  }
  const listed = answer.rejections.flatMap((group) => group.nodes).find((one) => one.node === node);
  const others = listed ? [...listed.reasons.filter((one) => JSON.stringify(one) !== same).map((one) => one.text), ...listed.alsoRejectedBy] : [];
  const partly = answer.filters.filter((one) => !one.skipped && one.passed + one.rejected !== answer.nodes.evaluated);
  return { others, unknown: partly.map((one) => one.plugin).filter((plugin) => !others.includes(plugin)) };
}

function parse(node, { code, params, requested, allocatable, free, resource }) {
  if (["insufficient", "too-many-pods"].includes(code) && requested <= allocatable) return { node, kind: "resource", names: [resource], missing: requested - free, requested, allocatable };
  if (code === "ports" && params.ports) return { node, kind: "ports", names: params.ports.split(", "), missing: 0 };
  if (["pod-anti-affinity", "existing-anti-affinity"].includes(code) && params.pod) return { node, kind: "pod", names: [params.pod], missing: 0 };
  if (code === "claim-in-use" && params.claims) return { node: params.podNode ?? node, kind: "claims", names: params.claims.split(", "), missing: 0 };
  return null;
}

/**
 * The pods that are on the node now and hold it, largest first, those that would come back to it last; the first `enough` of
 * the others hold what is missing, 0 where none do.
 * What is missing is counted beside these pods: it may differ from what was missing at the decision.
 */
export function findHolders(held, pods) {
  const found = pods.map((pod) => ({
    namespace: pod.metadata.namespace, name: pod.metadata.name, amount: amount(held, pod),
    priority: pod.spec.priority ?? 0, owner: owner(pod), state: state(held, pod), comesBack: comesBack(pod),
  })).filter((one) => one.amount > 0);
  found.sort((a, b) => a.comesBack - b.comesBack || b.amount - a.amount || a.priority - b.priority || byName(`${a.namespace}/${a.name}`, `${b.namespace}/${b.name}`));
  if (held.kind !== "resource") return { held, pods: found, enough: found.length };
  if (held.allocatable) {
    const used = found.reduce((sum, one) => sum + one.amount, 0);
    held = { ...held, missing: Math.max(used + held.requested - held.allocatable, 0) };
  }
  let together = 0;
  const last = found.findIndex((one) => (together += one.comesBack ? 0 : one.amount) >= held.missing);
  return { held, pods: found, enough: last + 1 };
}

/** What would be enough, what else stands against the node, and unusual holders: a list of texts and of the pods that it names. */
export function describeEnough(found) {
  const { held, pods } = found;
  const parts = enough(found);
  if (held.others.length) parts.push(` ${held.node} also rejects the pod for another reason: ${held.others.join("; ")}.`);
  if (held.unknown.length) parts.push(` ${held.unknown.join(", ")} ${held.unknown.length === 1 ? "was" : "were"} not evaluated on ${held.node}.`);
  for (const one of pods.slice(0, NAMED)) if (one.state) parts.push(" ", one, `: ${one.state}.`);
  return parts;
}

/** That the pod then fits is said only if nothing else stands against the node. */
function enough({ held, pods, enough: first }) {
  const isAll = !held.others.length && !held.unknown.length;
  if (held.kind === "pod") return ["Other pods may keep this pod away from the node too: one is named."];
  if (held.kind !== "resource") {
    const fits = isAll ? `fits ${held.node}` : `could use ${held.names.join(", ")} on ${held.node}`;
    return [`The pod ${fits} without ${pods.length === 1 ? "this pod" : "these pods"}.`];
  }
  const isPods = held.names[0] === "pods";
  if (!held.missing) return [`${held.node} has enough ${held.names[0]} for the pod by now.`];
  const wanted = isPods ? `room for ${count(held.missing, "pod")}` : `${formatRequested(held.names[0], held.missing)} ${held.names[0]}`;
  const what = pods.some((one) => one.comesBack) ? "Those that do not come back to the node" : "All of them";
  if (!first) return [`${what} together hold less than the missing ${wanted}.`];
  const alone = pods.filter((one) => one.amount >= held.missing && !one.comesBack).sort((a, b) => a.priority - b.priority || a.amount - b.amount)[0];
  const free = isPods ? `${count(held.missing, "pod")} would have to leave: ` : `${wanted} would have to become free: `;
  const would = isAll ? "would be enough." : `would free enough ${held.names[0]}.`;
  if (alone) return [free, alone, ` alone ${would}`];
  const names = first <= NAMED ? pods.slice(0, first).flatMap((one, i) => (i ? [", ", one] : [one])) : [`the ${first} largest`];
  return [free, ...names, ` together ${would}`];
}

/** What is unusual about a holder: that it is terminating, or that its kubelet has not made its resize; "" for most. */
function state(held, pod) {
  const states = [];
  const { deletionTimestamp, finalizers } = pod.metadata;
  const removed = finalizers?.length ? ` and its finalizers (${finalizers.join(", ")}) are removed` : "";
  if (deletionTimestamp) states.push(`terminating since ${deletionTimestamp}, gone once the kubelet of ${held.node} has ended it${removed}`);
  const conditions = (pod.status?.conditions ?? []).filter((one) => one.status !== "False");
  const pending = conditions.find((one) => one.type === "PodResizePending");
  if (pending) states.push(`its resize is pending (${pending.reason || "waiting"})`);
  else if (conditions.some((one) => one.type === "PodResizeInProgress")) states.push("its resize is in progress");
  return states.join("; ");
}

/** An amount that a node has or has free, in base units, as kubectl writes it; bytes are rounded down. */
export const formatAvailable = (resource, value) => format(resource, value, Math.floor);

/** An amount that pods request, hold or lack; bytes are rounded up. */
export const formatRequested = (resource, value) => format(resource, value, Math.ceil);

function format(resource, value, round) {
  if (resource === "cpu") return value % 1000 ? `${value}m` : `${value / 1000}`;
  if (!/^(memory|ephemeral-storage|hugepages-)/.test(resource)) return `${value}`;
  const unit = Object.keys(BINARY).findLast((name) => value >= 2 ** BINARY[name]);
  return unit ? `${round((value / 2 ** BINARY[unit]) * 10) / 10}${unit}` : `${value}`;
}

function amount(held, pod) {
  if (held.kind === "resource") return held.names[0] === "pods" ? 1 : request(pod.spec, held.names[0]);
  if (held.kind === "ports") return Number(ports(pod.spec).some((port) => held.names.some((name) => conflicts(port, name))));
  if (held.kind === "pod") return Number(held.names.includes(`${pod.metadata.namespace}/${pod.metadata.name}`));
  return Number((pod.spec.volumes ?? []).some((one) => one.persistentVolumeClaim && held.names.includes(`${pod.metadata.namespace}/${one.persistentVolumeClaim.claimName}`)));
}

/** The pod's effective request: containers and sidecars together, or the largest init container with the sidecars before it. */
function request(spec, resource) {
  const of = (container) => quantity(container.resources?.requests?.[resource] ?? 0);
  const running = (spec.containers ?? []).reduce((sum, one) => sum + of(one), 0);
  let [sidecars, init] = [0, 0];
  for (const one of spec.initContainers ?? []) {
    if (one.restartPolicy === "Always") sidecars += of(one);
    init = Math.max(init, sidecars + (one.restartPolicy === "Always" ? 0 : of(one)));
  }
  const whole = spec.resources?.requests?.[resource];
  const total = whole === undefined ? Math.max(running + sidecars, init) : quantity(whole);
  const exact = (total + quantity(spec.overhead?.[resource] ?? 0)) * (resource === "cpu" ? 1000 : 1);
  return Math.ceil(exact - 1e-6);
}

function quantity(text) {
  const [, digits, exponent, suffix = ""] = QUANTITY.exec(String(text)) ?? [];
  if (digits === undefined) return 0;
  return suffix in BINARY ? Number(digits) * 2 ** BINARY[suffix] : Number(`${digits}e${exponent ?? DECIMAL[suffix]}`);
}

function ports(spec) {
  return [...(spec.containers ?? []), ...(spec.initContainers ?? [])].flatMap((container) => (container.ports ?? []).map((port) => {
    const address = ["", "0.0.0.0", undefined].includes(port.hostIP) ? "" : `${port.hostIP}:`;
    return `${address}${port.hostPort}/${port.protocol ?? "TCP"}`;
  }));
}

/** Whether two host ports exclude each other: without an address, a port is taken on all addresses. */
function conflicts(port, other) {
  const [a, b] = [port, other].map((text) => [text.slice(0, Math.max(text.lastIndexOf(":"), 0)), text.slice(text.lastIndexOf(":") + 1)]);
  return a[1] === b[1] && (!a[0] || !b[0] || a[0] === b[0]);
}

/** Whether a pod like it takes its place on the same node: one of a DaemonSet, or a static pod. */
const comesBack = (pod) => (pod.metadata.ownerReferences ?? []).some((one) => one.controller && ["DaemonSet", "Node"].includes(one.kind));

function owner(pod) {
  const found = (pod.metadata.ownerReferences ?? []).find((one) => one.controller);
  return found ? workloadOf(`${found.kind}/${found.name}`, pod.metadata.labels) : "";
}
