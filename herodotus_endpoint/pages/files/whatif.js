// Where pods would go that do not exist: a manifest, or copies of a pod or workload of the cluster. Nothing is created.
// Owns: the question. Does not own: how an answer about a pod looks (`decision`). A link only fills in the form.

import { clusterObject, path, postUntilDone } from "./api.js";
import { explanation } from "./decision.js";
import { el, field, link, nodeLink, section, table, withNodes } from "./dom.js";
import { count, number } from "./words.js";

export const live = false;

const MOST_PODS = 100;
const NODES = 20; // named
const RESOURCES = { // kind, group version, plural
  pod: ["Pod", "v1", "pods"],
  replicationcontroller: ["ReplicationController", "v1", "replicationcontrollers"],
  deployment: ["Deployment", "apps/v1", "deployments"],
  statefulset: ["StatefulSet", "apps/v1", "statefulsets"],
  replicaset: ["ReplicaSet", "apps/v1", "replicasets"],
  job: ["Job", "batch/v1", "jobs"],
  cronjob: ["CronJob", "batch/v1", "cronjobs"],
};
const QUESTIONS = [["", "place pods"], ["drain", "drain nodes"], ["cordon", "cordon nodes"], ["uncordon", "uncordon nodes"], ["add", "add nodes"], ["capacity", "how many more fit"], ["plan", "plan for a pod"], ["consolidate", "empty nodes"]];
const EXAMPLE = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 3\n  …";

export async function view(params) {
  const given = (name) => (params.get(name) ?? "").trim();
  const workload = given("pod") ? `Pod/${given("pod")}` : given("workload");
  const manifest = el("textarea", { id: "field-manifest", name: "manifest", rows: "12", spellcheck: "false", placeholder: EXAMPLE });
  const fields = [
    el("div", { class: "filters" },
      field("namespace", "Namespace", given("namespace"), null, { hint: "the object's", names: "namespaces" }),
      field("workload", "Pod or workload that exists", workload, null, { hint: "Deployment/web", names: "workloads" }),
      field("replicas", "Pods", given("replicas"), null, { hint: "the object's", type: "number", min: "1", max: MOST_PODS }),
      field("node", "Explain one node", given("node"), null, { names: "nodes" }),
      field("schedulerName", "Scheduler", given("schedulerName"), null, { hint: "the object's", names: "profiles" })),
    el("div", { class: "field" }, el("label", { for: "field-manifest" }, "or a manifest, YAML or JSON"), manifest),
  ];
  return { title: "What if", body: [
    el("h1", {}, "What if"),
    choices(""),
    el("p", {}, "The scheduler decides the pods on a copy of its present state. Nothing is created, evicted or recorded."),
    ...answerTo("What if", fields, "Show where they would go", place),
  ] };
}

/** The questions, as links. */
export function choices(current) {
  return el("nav", { class: "choice", "aria-label": "Questions" }, QUESTIONS.map(([asked, text]) => {
    const to = asked ? link("clusterwhatif", { ask: asked }, text) : link("whatif", {}, text);
    if (asked === current) to.setAttribute("aria-current", "true");
    return to;
  }));
}

/** A form and the place of its answer, which `ask` makes from a function that returns the value of a field. */
export function answerTo(label, fields, verb, ask) {
  const result = el("div", { id: "result", "aria-live": "polite" });
  const button = el("button", { class: "primary" }, verb);
  const question = el("form", { class: "question", "aria-label": label, submit: async (event) => {
    event.preventDefault();
    const given = new FormData(question);
    button.disabled = true;
    result.replaceChildren(el("p", { class: "quiet" }, "Waiting for the scheduler …"));
    try {
      result.replaceChildren(...await ask((name) => String(given.get(name) ?? "").trim()));
    } catch (failure) {
      result.replaceChildren(el("div", { role: "alert", class: "failure" }, el("p", {}, failure.message), failure.hint ? el("p", {}, failure.hint) : ""));
    } finally {
      button.disabled = false;
    }
    const found = result.querySelector("h2, [role=alert]");
    found?.focus({ preventScroll: true });
    found?.scrollIntoView({ block: "start" });
  } }, fields, button);
  return [question, result];
}

async function place(of) {
  const spec = { ...await object(of), node: of("node"), schedulerName: of("schedulerName") };
  if (of("replicas")) spec.replicas = Number(of("replicas"));
  const namespace = of("namespace") || written(of("manifest")) || "default";
  return show(await postUntilDone(path("namespaces", namespace, "placementreviews"), "PlacementReview", spec), of("node"));
}

/** The object of the question: the manifest, or what the API server has. */
async function object(of) {
  if (of("manifest")) {
    if (of("workload")) throw new Error("Give either a manifest or the name of an object.");
    return { manifest: of("manifest") };
  }
  return { object: await readObject(of) };
}

/** The object that the form names, as the API server has it. */
export async function readObject(of) {
  const [kind, name] = of("workload").split("/");
  if (!name) throw new Error("Paste a manifest, or name a pod or workload: Deployment/web, Pod/web-0.");
  const resource = RESOURCES[kind.toLowerCase()];
  if (!resource) throw new Error(`Of a ${kind} no pods can be placed: paste a manifest.`);
  const [proper, version, plural] = resource;
  const namespace = of("namespace") || "default";
  const found = await clusterObject(`${version.includes("/") ? "apis" : "api"}/${version}/${path("namespaces", namespace, plural, name)}`);
  if (!found) throw Object.assign(new Error("The API server does not serve these pages, so the object cannot be read."), { hint: `Paste its manifest, or: kubectl herodotus whatif ${proper}/${name} -n ${namespace}` });
  const { managedFields: _, annotations: __, ...metadata } = found.metadata;
  return { ...found, apiVersion: version, kind: proper, metadata, status: undefined };
}

/** The namespace in the metadata of a manifest. The service refuses another one than the object's. */
function written(manifest) {
  return /^\s+"?namespace"?:\s*"?([a-z0-9-]+)/m.exec(manifest)?.[1] ?? /"namespace":\s*"([a-z0-9-]+)"/.exec(manifest)?.[1];
}

function show(answer, node) {
  const { status, spec, metadata } = answer;
  const told = node ? status.first : status.stopped ?? status.first;
  const several = spec.replicas > 1;
  const names = new Set([...status.nodes.map((one) => one.node), ...told.rejections.flatMap((group) => group.nodes.map((one) => one.node)), ...told.ranking.map((one) => one.node)]);
  const rows = status.nodes.slice(0, NODES).map((one) => [nodeLink(one.node), number(one.pods)]);
  const left = status.nodes.length - rows.length;
  return [
    el("h2", { tabindex: "-1" }, `${metadata.namespace}/${metadata.name}: ${several ? count(spec.replicas, "pod") : spec.kind}, decided by ${spec.schedulerName}`),
    el("p", { class: `answer ${status.stopped ? "bad" : "good"}` }, el("span", { "aria-hidden": "true" }, status.stopped ? "✗ " : "✓ "), withNodes(status.headline, names)),
    several && rows.length ? [table("Nodes that would get pods", [["Node"], ["Pods", "number"]], rows), left > 0 ? el("p", { class: "quiet" }, `… and ${count(left, "more node")}`) : ""] : "",
    several ? el("h3", {}, told.outcome.node === null ? `Pod ${number(status.fits + 1)}, ${told.metadata.name}, does not fit` : [`Pod 1, ${told.metadata.name}: `, withNodes(told.headline, names)]) : "",
    explanation(told, new URLSearchParams(), { exists: false }),
    node ? section(`On ${node}`, oneNode(told, node)) : "",
  ].flat(Infinity).filter(Boolean);
}

function oneNode(told, name) {
  const found = (told.perNode ?? []).find((one) => one.node === name);
  if (!found) return el("p", { class: "quiet" }, "Not evaluated.");
  const reasons = found.rejectedBy.flatMap((by) => by.reasons.map((reason) => el("li", {}, el("b", {}, by.plugin), ` ${reason.text}`)));
  return [el("p", {}, found.headline), reasons.length ? el("ul", {}, reasons) : ""];
}
