// The names that a field can have: a list to choose from, read when a field is first used.
// Owns: where the names come from. Does not own: the fields (`dom`). A reader may always type another name.

import { everyPage, get, within } from "./api.js";
import { el } from "./dom.js";
import { byName, workloadOf } from "./words.js";

const READ = 500; // decisions of which the names are offered

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
  const answer = await get(within(namespace, "decisions"), { limit: READ });
  const found = { namespaces: new Set(), pods: new Set(), workloads: new Set(), owners: new Set(), profiles: new Set(), members: new Set(), made: new Set() };
  for (const item of answer.items) {
    const { pod, scheduler } = item.spec;
    found.namespaces.add(pod.namespace);
    found.pods.add(pod.name);
    found.members.add(`${pod.namespace}/${pod.name}`);
    found.profiles.add(scheduler.profile);
    if (!pod.owner) continue;
    found.owners.add(`${pod.owner.kind}/${pod.owner.name}`);
    const workload = workloadOf(`${pod.owner.kind}/${pod.owner.name}`, item.metadata.labels);
    found.workloads.add(workload);
    found.made.add(`${pod.namespace}/${workload}`);
  }
  return found;
}
