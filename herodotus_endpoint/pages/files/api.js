// Questions to the API beside these pages, with whatever credentials the way here carries.
// Owns: paths, and what a failure is. Does not own: what is asked.

const ROOT = new URL("../", import.meta.url);
const SERVED = /^(.*?)(?:\/api\/v1\/namespaces\/[^/]+\/services\/[^/]+\/proxy)?\/apis\/herodotus\.dev\//;
const CLUSTER = new URL(`${ROOT.pathname.match(SERVED)?.[1] ?? ""}/`, ROOT); // the API server, where it serves the pages
const LISTED = 500; // objects of the cluster in one answer
const FEW = 150; // names in a label selector: a URL of at most 10 kB
const BUSY_CODE = 429;
const ABSENT_CODE = 503;
const MOST_OPEN = 6; // questions of a page at once
const MOST_WAIT_S = 5;
const TRIES = 5;
export const METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

const ABSENT = `herodotus-no-cluster:${CLUSTER.pathname}`; // for the tab: the API server does not serve these pages
let open = 0; // questions without a response
const waiting = []; // those that begin when another one ends
let live = ""; // what `kubectl herodotus ui` says that it answers itself, if that serves these pages
let lastingAddress = ""; // of these pages, as it says
const seen = new Map(); // answers since the last call of `fingerprint`
const VOLATILE = /"(?:(?:at|since|until|to|from|latest|notBefore)":"\d{4}-|resourceVersion":")[^"]*(?:")/g;

/** The JSON document at a path below the API group's version. Throws an Error with the server's words. */
export async function get(path, query = {}) {
  return request(address(path, query));
}

/** The answer to a question that stores nothing. Another site cannot send it: JSON from there needs permission. */
async function post(path, document) {
  return request(address(path), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(document) });
}

/** The complete answer to a review: asked again while the scheduler answers others, and continued while it is not done. */
export async function postUntilDone(path, kind, spec) {
  const document = { apiVersion: "herodotus.dev/v1alpha1", kind, spec };
  for (let left = TRIES; ;) {
    try {
      const answer = await post(path, document);
      if (answer.status.phase !== "Running") return answer;
      document.spec = { continue: answer.status.continue };
    } catch (failure) {
      left -= 1;
      if (failure.code !== BUSY_CODE || !left) throw failure;
      await new Promise((done) => { setTimeout(done, 1000); });
    }
  }
}

/** An object of the cluster by the path of the API server; null where that does not serve these pages. */
export async function clusterObject(path, query = {}, accept = "application/json") {
  if (sessionStorage.getItem(ABSENT)) return null;
  const url = withQuery(new URL(path, CLUSTER), query);
  try {
    return await request(url, { headers: { Accept: accept } });
  } catch (failure) {
    if (failure.isOfCluster) throw failure;
    if (failure.code === 404) sessionStorage.setItem(ABSENT, "yes");
    return null;
  }
}

/** The metadata of all nodes that match a query; null where they cannot be read. */
export async function clusterNodes(query) {
  const found = await clusterList("api/v1/nodes", query, METADATA).catch(() => null);
  return found?.map((node) => node.metadata) ?? null;
}

/** The Node objects with these names, by name; null where they cannot be read. */
export async function nodeObjects(names) {
  const labelSelector = names.length > FEW ? "" : `kubernetes.io/hostname in (${names.join(",")})`;
  const found = names.length ? await clusterList("api/v1/nodes", { labelSelector }).catch(() => null) : [];
  return found && new Map(found.map((node) => [node.metadata.name, node]));
}

/** Whether `kubectl herodotus ui` serves these pages, which answers about pods as they are now. Known after an answer. */
export function servesLive() {
  return live !== "";
}

/** Whether it evaluates the cluster as it is now, because nothing records decisions. Known after an answer. */
export function isLocal() {
  return live.includes("local");
}

/** The name by which a decision is asked for: its ID, or its pod's name where every answer is evaluated anew. */
export function nameOf(pod, id) {
  return isLocal() ? pod : id;
}

/** The address of these pages that lasts, where `kubectl herodotus ui` knows one. */
export function pagesAddress() {
  return lastingAddress;
}

/** The plugin's document about a pod, with `live`. */
export function livePod(namespace, name) {
  return request(new URL(`live/pods/${path(namespace, name)}`, CLUSTER), { method: "GET" });
}

/** The rows that kubectl prints of a list, as {name, namespace, COLUMN: text}; null where they cannot be read. */
export async function printedRows(path) {
  const printed = await clusterObject(path, { limit: LISTED }, TABLE).catch(() => null);
  if (printed?.kind !== "Table") return null;
  const heads = printed.columnDefinitions.map((column) => column.name);
  return printed.rows.map(({ cells, object }) => ({ ...Object.fromEntries(heads.map((head, i) => [head, cells[i]])), name: object.metadata.name, namespace: object.metadata.namespace }));
}

/** All objects of a list of the API server, page by page; null where it does not serve these pages. */
async function clusterList(path, query, accept) {
  const items = [];
  for (let next = ""; ;) {
    const page = await clusterObject(path, { limit: LISTED, ...query, continue: next }, accept);
    if (!page?.items) return null;
    items.push(...page.items);
    next = page.metadata?.continue;
    if (!next) return items;
  }
}

/** The items of all pages of a list of the service. */
export async function everyPage(path, query) {
  const items = [];
  for (let next = ""; ;) {
    const page = await get(path, { limit: LISTED, ...query, continue: next });
    items.push(...page.items);
    next = page.metadata.continue;
    if (!next) return items;
  }
}

/** The UIDs of all pods without a node; null where they cannot be read, or are too many for one answer. */
export async function unassignedPods(namespace) {
  const path = namespace ? `api/v1/namespaces/${encodeURIComponent(namespace)}/pods` : "api/v1/pods";
  const found = await clusterObject(path, { fieldSelector: "spec.nodeName=,status.phase=Pending", limit: LISTED }, METADATA).catch(() => null);
  return found?.items && !found.metadata?.continue ? new Set(found.items.map((pod) => pod.metadata.uid)) : null;
}

/** The URL of such a document, for a link. */
export function address(path, query = {}) {
  return withQuery(new URL(path, ROOT), query);
}

/** A path made of names: each is escaped. */
export function path(...parts) {
  return parts.map(encodeURIComponent).join("/");
}

/** A resource of a namespace, or of all of them where it is empty. */
export function within(namespace, resource) {
  return namespace ? path("namespaces", namespace, resource) : resource;
}

/** A text that is equal while nothing changed, of one answer or of all since the last call. */
export function fingerprint(answer = null) {
  if (answer) return JSON.stringify(answer).replace(VOLATILE, "");
  const text = [...seen].sort().join("\n");
  seen.clear();
  return text;
}

async function request(url, { headers = {}, ...options } = {}) {
  const response = await ask(url, { ...options, headers: { Accept: "application/json", ...headers } });
  live ||= response.headers.get("Herodotus-Live") ?? "";
  lastingAddress ||= response.headers.get("Herodotus-Pages") ?? "";
  const text = await response.text().catch(() => "");
  const body = parse(text);
  if (response.ok && body) {
    if (!options.method) seen.set(url.href, text.replace(VOLATILE, ""));
    return body;
  }
  const failure = failed(response.status, body?.message ?? `The decisions service did not answer (${response.status}).`);
  failure.similar = body?.details?.similar ?? [];
  failure.noRecords = body?.details?.noRecords === true; // no scheduler has ever sent records
  failure.isOfCluster = body?.kind === "Status" && (response.status === 403 || Boolean(body.details?.kind) && url.pathname.includes(`/${body.details.kind}`));
  throw failure;
}

/** The response, asked for again where the service is busy and says when to. Few questions of a page are open at once. */
async function ask(url, options) {
  while (open >= MOST_OPEN) await new Promise((done) => { waiting.push(done); });
  open += 1;
  try {
    for (let left = TRIES; ; left -= 1) {
      const response = await fetch(url, options);
      const seconds = Number(response.headers.get("Retry-After"));
      if (options.method || left === 1 || !seconds || ![BUSY_CODE, ABSENT_CODE].includes(response.status)) return response;
      await new Promise((done) => { setTimeout(done, Math.min(seconds, MOST_WAIT_S) * 1000); });
    }
  } catch {
    throw failed(0, "The decisions service does not answer.");
  } finally {
    open -= 1;
    waiting.shift()?.();
  }
}

function failed(code, message) {
  return Object.assign(new Error(message), { code, similar: [], isOfCluster: false });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function withQuery(url, query) {
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  return url;
}
