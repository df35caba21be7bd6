// Questions to the API beside these pages, with whatever credentials the way here carries.
// Owns: paths, and what a failure is. Does not own: what is asked.

const ROOT = new URL("../", import.meta.url);

/** The JSON document at a path below the API group's version. Throws an Error with the server's words. */
export async function get(path, query = {}) {
  const response = await fetch(address(path, query), { headers: { Accept: "application/json" } });
  const body = await response.json().catch(() => null);
  if (response.ok && body) return body;
  const failure = new Error(body?.message ?? `the decisions service did not answer (${response.status})`);
  failure.similar = body?.details?.similar ?? [];
  throw failure;
}

/** The URL of such a document, for a link. */
export function address(path, query = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  return url;
}

/** A path made of names: each is escaped. */
export function path(...parts) {
  return parts.map(encodeURIComponent).join("/");
}

/** A resource of a namespace, or of all of them where it is empty. */
export function within(namespace, resource) {
  return namespace ? path("namespaces", namespace, resource) : resource;
}
