// A pod without a decision: gated, created on its node, or of a scheduler that is not recorded. Its Pod object says which.
// Owns: the cause and its words, which are those of the terminal. Does not own: where the page shows it (`decision`).

import { clusterObject, get, path, within } from "./api.js";
import { el, namespaceLink, nodeLink, workloadLink } from "./dom.js";
import { askLive, liveState } from "./livestate.js";
import { ago, OBSERVE, workloadOf } from "./words.js";

const PROFILE = "herodotus.dev/profile";

/** The content of the page about a pod without a decision; null if pod or cause are unknown. `recorded`: whether any is. */
export async function undecided(namespace, name, recorded) {
  const pod = await clusterObject(`api/v1/${path("namespaces", namespace, "pods", name)}`).catch(() => null);
  const found = pod && await cause(pod, recorded);
  if (!found) return null;
  const { metadata } = pod;
  const live = askLive(namespace, name);
  const owner = metadata.ownerReferences?.find((one) => one.controller);
  return [
    el("h1", {}, el("span", { class: "kind" }, namespaceLink(namespace), " / "), name),
    el("p", { class: "stateline" }, owner ? [workloadLink(namespace, workloadOf(`${owner.kind}/${owner.name}`, metadata.labels)), " · "] : "", "created ", ago(metadata.creationTimestamp)),
    el("p", { class: "answer" }, found.said),
    found.suggestions ? el("section", { class: "suggestion", "aria-label": "Fix" }, found.suggestions.map(([text, command], i) => el("div", { class: "one-suggestion" },
      el("p", {}, el("b", { class: "label" }, i ? "or" : "FIX"), text), el("div", { class: "command" }, el("pre", { tabindex: "0", "aria-label": `Command: ${text}` }, el("code", {}, command)))))) : "",
    live ? liveState(namespace, name, "Its state now", live) : "",
  ];
}

async function cause({ metadata, spec, status }, recorded) {
  const node = spec.nodeName;
  const gates = (spec.schedulingGates ?? []).map((gate) => gate.name).join(", ");
  if (gates) return { said: `Waits for its scheduling gates (${gates}): no scheduler tries it before they are removed.` };
  // binding sets the condition PodScheduled and leaves no trace of spec.nodeName among the managed fields
  const created = node && ((metadata.managedFields ?? []).some((entry) => entry.fieldsV1?.["f:spec"]?.["f:nodeName"])
    || !(status?.conditions ?? []).some((condition) => condition.type === "PodScheduled"));
  if (created) return { said: ["On ", nodeLink(node), ": the pod was created with spec.nodeName, so no scheduler decided it."] };
  if (!recorded) return null;
  const scheduler = spec.schedulerName || "default-scheduler";
  const known = await get(within(metadata.namespace, "decisions"), { labelSelector: `${PROFILE}=${scheduler}`, limit: 1 }).catch(() => null);
  if (!known || known.items.length) return null;
  return {
    said: [node ? ["On ", nodeLink(node)] : "Pending", `. Why is not known: the pod belongs to ${scheduler}, whose decisions are not recorded.`],
    suggestions: [
      ["record its decisions from now on, with a read-only observer", OBSERVE],
      ...(node ? [] : [["evaluate the pod now", `kubectl herodotus pod ${metadata.name} -n ${metadata.namespace} --local`]]),
    ],
  };
}
