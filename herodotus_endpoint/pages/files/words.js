// Numbers, times and states as people read them. Pure but for the clock.

import { el } from "./dom.js";

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
/** The command that records what the cluster's own scheduler decides; the terminal names the same one. */
export const OBSERVE = "kubectl apply -f deploy/observer.yaml";
const BINARY = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };
const SIGNS = { Bound: "✓", DryRun: "✓", Binding: "…", Unschedulable: "✗", Failed: "✗", Error: "✗", Evicted: "✗" };

/** `12,345`, or with digits `3.4` and `< 0.1`; a dash for what is not known. */
export function number(value, digits = 0) {
  if (value === null || value === undefined) return "–";
  const least = 10 ** -digits;
  if (digits && value > 0 && value < least) return `< ${least}`;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

/** `61%`; a dash for what is not known. */
export function percent(share) {
  return share === null || share === undefined ? "–" : `${number(share * 100, share < 0.1 ? 1 : 0)}%`;
}

/** `+14`, `−3`, `0`; with digits what is nearly nothing is `≈ 0`. */
export function signed(value, digits = 0) {
  if (digits && value && Math.abs(value) < 10 ** -digits) return "≈ 0";
  return value > 0 ? `+${number(value, digits)}` : value < 0 ? `−${number(-value, digits)}` : "0";
}

/** `1 node`, `5 nodes`. */
export function count(n, what) {
  return `${number(n)} ${what}${n === 1 ? "" : "s"}`;
}

/** A time as its age, with the whole of it to be read as well. */
export function ago(timestamp) {
  if (!timestamp) return "–";
  const seconds = Math.round((Date.now() - new Date(timestamp)) / 1000);
  const words = seconds < 0 ? `in ${duration(-seconds)}` : seconds < 1 ? "just now" : `${duration(seconds)} ago`;
  return el("time", { datetime: timestamp, title: full(timestamp) }, words);
}

/** `2026-03-01 12:00:00Z`. */
export function full(timestamp) {
  return new Date(timestamp).toISOString().replace("T", " ").replace(/\.\d+Z/, "Z");
}

/** `4m12s`: the two largest units that say something. */
export function duration(seconds) {
  if (seconds < 1) return `${number(seconds * 1000, 1)}ms`;
  let left = Math.round(seconds);
  const parts = [];
  for (const [unit, length] of UNITS) {
    const n = Math.floor(left / length);
    if (n && parts.length < 2) parts.push(`${number(n)}${unit}`);
    left -= n * length;
  }
  return parts.join("");
}

/** Why a node was not evaluated, by the record's term; the terminal says the same. */
export function whyNotEvaluated(term) {
  return { restricted: "excluded by a PreFilter plugin", "not-sampled": "enough feasible nodes were found", "not-needed": "the nominated node fits", "not-reached": "the attempt ended first", unrecorded: "the log does not say", "not-counted": "reason not counted" }[term] ?? term;
}

/** A state with its sign: colour only repeats what they say. */
export function state(name) {
  const kind = SIGNS[name] === "✓" ? "good" : SIGNS[name] === "✗" ? "bad" : "open";
  return el("span", { class: `state ${kind}` }, el("span", { "aria-hidden": "true" }, `${SIGNS[name] ?? "?"} `), name);
}

/** Where a list of names is cut: `… and 12 more`. */
export function more(omitted) {
  return omitted > 0 ? ` … and ${number(omitted)} more` : "";
}

/** A time of the log as its distance from now in seconds, positive where it is ahead. */
export function ahead(timestamp) {
  return (new Date(timestamp) - Date.now()) / 1000;
}

/** worker-2 before worker-10. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;

const EXCLUDED_BY_POD = /^node\(s\) didn't (match Pod's node affinity|match scheduler-enforced node affinity|match the requested node name|satisfy plugin)/;

/** What kube-scheduler's message says of the nodes, those of most nodes first and those that the pod's own spec excludes
 * last, without what it says of preemption. */
export function fitError(message) {
  const listed = message.match(/^\d+\/\d+ nodes are available: (.+?)\.(?: |$)/)?.[1];
  const reasons = [...(listed ?? "").matchAll(/(\d+) (.+?)(?=, \d+ |$)/g)].map(([, nodes, words]) => ({ nodes, words, excluded: EXCLUDED_BY_POD.test(words) }));
  reasons.sort((a, b) => a.excluded - b.excluded || b.nodes - a.nodes);
  return reasons.map(({ nodes, words }) => `${nodes} ${words.replace(/^node\(s\) /, "")}`).join(", ") || message;
}

/** The workload of an owner: the Deployment of its ReplicaSet, known by the label of its pods, else the owner itself. */
export function workloadOf(owner, labels) {
  const hash = labels?.["pod-template-hash"];
  return hash && owner?.startsWith("ReplicaSet/") && owner.endsWith(`-${hash}`) ? `Deployment/${owner.slice(11, -hash.length - 1)}` : owner;
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
