// The names that a field can have: a list to choose from, read when a field is first used.
// Owns: where the names come from. Does not own: the fields (`dom`). A reader may always type another name.

import { clusterObject, everyPage, get, isLocal, METADATA, within } from "./api.js";
import { el } from "./dom.js";
import { byName, workloadOf } from "./words.js";

const READ = 500; // decisions, or pods, of which the names are offered

/** Fill the list of a field when it gets the focus, for as long as the page lives. */
export function offer(main, params) {
  const known = new Map();
  main.addEventListener("focusin", async ({ target }) => {
    const kind = target.dataset?.names;
    if (!kind || target.list?.children.length) return;
    const namespace = target.form?.elements.namespace?.value.trim() ?? params.get("namespace") ?? "";
    const scope = kind === "namespaces" ? "" : namespace;
    const key = kind === "nodes" ? kind : scope;
    if (!known.has(key)) known.set(key, kind === "nodes" ? nodes() : knownNames(scope));
    const found = await known.get(key).catch(() => ({}));
    const options = [...(found[kind] ?? [])].sort(byName).map((value) => el("option", { value }));
    target.list?.replaceChildren(...options);
  });
}

/** The names of all nodes that have a history. */
export async function nodes() {
  const items = await everyPage("nodehistories", {});
  return { nodes: new Set(items.map((node) => node.metadata.name)) };
}

/** The names in the newest decisions, by what they name; `members` and `made` are pods and workloads with their namespace. */
export async function knownNames(namespace) {
  const found = { namespaces: new Set(), pods: new Set(), workloads: new Set(), owners: new Set(), profiles: new Set(), members: new Set(), made: new Set() };
  for (const pod of await (isLocal() ? presentPods(namespace) : decidedPods(namespace))) {
    found.namespaces.add(pod.namespace);
    found.pods.add(pod.name);
    found.members.add(`${pod.namespace}/${pod.name}`);
    if (pod.profile) found.profiles.add(pod.profile);
    if (!pod.owner) continue;
    found.owners.add(pod.owner);
    const workload = workloadOf(pod.owner, pod.labels);
    found.workloads.add(workload);
    found.made.add(`${pod.namespace}/${workload}`);
  }
  return found;
}

async function decidedPods(namespace) {
  const { items } = await get(within(namespace, "decisions"), { limit: READ });
  return items.map(({ metadata, spec: { pod, scheduler } }) => ({ ...pod, owner: pod.owner && `${pod.owner.kind}/${pod.owner.name}`, labels: metadata.labels, profile: scheduler.profile }));
}

/** Pods of the API server: of a large cluster the first. */
async function presentPods(namespace) {
  const list = await clusterObject(`api/v1/${within(namespace, "pods")}`, { limit: READ }, METADATA);
  return (list?.items ?? []).map(({ metadata }) => {
    const owner = metadata.ownerReferences?.find((one) => one.controller);
    return { namespace: metadata.namespace, name: metadata.name, owner: owner && `${owner.kind}/${owner.name}`, labels: metadata.labels };
  });
}
