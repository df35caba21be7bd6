// The pods that hold what a pending pod lacks on a node, of the Pod objects that the reader may list. Pure.
// The same answer as the plugin's (`herodotus_record.holders`), from the same objects.

import { byName, count, workloadOf } from "./words.js";

const DECIMAL = { "": 0, n: -9, u: -6, m: -3, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const BINARY = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };
const QUANTITY = /^([+-]?[\d.]+)(?:[eE]([+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)$/;
const NAMED = 5;

/** What the pod lacks on the closest node: `{node, kind, names, missing}`; null where no other pod holds it. */
export function findHeld(answer) {
  if (answer.outcome.node !== null) return null;
  for (const group of answer.rejections) {
    for (const reason of group.nodes[0]?.reasons ?? []) {
      const held = parse(group.nodes[0].node, reason);
      if (held) return held;
    }
  }
  return null;
}

function parse(node, { code, params, requested, allocatable, free, resource }) {
  if (["insufficient", "too-many-pods"].includes(code) && requested <= allocatable) return { node, kind: "resource", names: [resource], missing: requested - free };
  if (code === "ports" && params.ports) return { node, kind: "ports", names: params.ports.split(", "), missing: 0 };
  if (["pod-anti-affinity", "existing-anti-affinity"].includes(code) && params.pod) return { node, kind: "pod", names: [params.pod], missing: 0 };
  if (code === "claim-in-use" && params.claims) return { node, kind: "claims", names: params.claims.split(", "), missing: 0 };
  return null;
}

/** The pods of the node that hold it, largest first; the first `enough` of them hold what is missing, 0 where none do. */
export function findHolders(held, pods) {
  const found = pods.map((pod) => ({
    namespace: pod.metadata.namespace, name: pod.metadata.name, amount: amount(held, pod),
    priority: pod.spec.priority ?? 0, owner: owner(pod),
  })).filter((one) => one.amount > 0);
  found.sort((a, b) => b.amount - a.amount || a.priority - b.priority || byName(`${a.namespace}/${a.name}`, `${b.namespace}/${b.name}`));
  if (held.kind !== "resource") return { held, pods: found, enough: found.length };
  let together = 0;
  const last = found.findIndex((one) => (together += one.amount) >= held.missing);
  return { held, pods: found, enough: last + 1 };
}

/** Which of them would have to go, in a sentence: a list of texts and of the pods that it names. */
export function describeEnough({ held, pods, enough }) {
  if (held.kind !== "resource") return [`The pod fits there without ${pods.length === 1 ? "this pod" : "these pods"}, as far as is known.`];
  const wanted = held.names[0] === "pods" ? count(held.missing, "pod") : `${format(held.names[0], held.missing, true)} ${held.names[0]}`;
  if (!enough) return [`All of them together hold less than the missing ${wanted}.`];
  const alone = pods.filter((one) => one.amount >= held.missing).sort((a, b) => a.priority - b.priority || a.amount - b.amount)[0];
  const free = `${wanted} would have to become free: `;
  if (alone) return [free, alone, " alone would be enough."];
  const names = enough <= NAMED ? pods.slice(0, enough).flatMap((one, i) => (i ? [", ", one] : [one])) : [`the ${enough} largest`];
  return [free, ...names, " together would be enough."];
}

/** An amount in base units as kubectl writes it; bytes are rounded down, or with `up` up. */
export function format(resource, value, up = false) {
  if (resource === "cpu") return value % 1000 ? `${value}m` : `${value / 1000}`;
  if (!/^(memory|ephemeral-storage|hugepages-)/.test(resource)) return `${value}`;
  const unit = Object.keys(BINARY).findLast((name) => value >= 2 ** BINARY[name]);
  return unit ? `${Math[up ? "ceil" : "floor"]((value / 2 ** BINARY[unit]) * 10) / 10}${unit}` : `${value}`;
}

function amount(held, pod) {
  if (held.kind === "resource") return held.names[0] === "pods" ? 1 : request(pod.spec, held.names[0]);
  if (held.kind === "ports") return Number(ports(pod.spec).some((port) => held.names.includes(port)));
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

function owner(pod) {
  const found = (pod.metadata.ownerReferences ?? []).find((one) => one.controller);
  return found ? workloadOf(`${found.kind}/${found.name}`, pod.metadata.labels) : "";
}
