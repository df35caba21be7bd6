// Questions to the API beside these pages, with whatever credentials the way here carries.
// Owns: paths, and what a failure is. Does not own: what is asked.

const ROOT = new URL("../", import.meta.url);
const SERVED = /^(.*?)(?:\/api\/v1\/namespaces\/[^/]+\/services\/[^/]+\/proxy)?\/apis\/herodotus\.dev\//;
const CLUSTER = new URL(`${ROOT.pathname.match(SERVED)?.[1] ?? ""}/`, ROOT); // the API server, where it serves the pages
const LISTED = 500; // objects of the cluster in one answer
const METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

const ABSENT = `herodotus-no-cluster:${CLUSTER.pathname}`; // for the tab: the API server does not serve these pages
const seen = new Map(); // answers since the last call of `fingerprint`
const VOLATILE = /"(?:(?:at|since|until|to|from|latest|notBefore)":"\d{4}-|resourceVersion":")[^"]*(?:")/g;

/** The JSON document at a path below the API group's version. Throws an Error with the server's words. */
export async function get(path, query = {}) {
  return request(address(path, query));
}

/** The answer to a question that stores nothing. Another site cannot send it: JSON from there needs permission. */
export async function post(path, document) {
  return request(address(path), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(document) });
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
  const found = await clusterObject("api/v1/nodes", { limit: LISTED, ...query }, METADATA).catch(() => null);
  return found?.items?.map((node) => node.metadata) ?? null;
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
  let response;
  try {
    response = await fetch(url, { ...options, headers: { Accept: "application/json", ...headers } });
  } catch {
    throw failed(0, "The decisions service does not answer.");
  }
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
