// For tests: an API server in place of the browser's fetch.

import 'fake-indexeddb/auto'; // in which Headlamp looks for kubeconfigs

/** Return a Status document with which the API server refuses a request. */
export function status(code: number, reason: string, message: string) {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message };
}

/**
 * Answer requests from the documents by path, without query; a Status is an error, an unknown path is not found.
 *
 * Returns the list of requested URLs, which grows.
 */
export function serve(documents: Record<string, any>): string[] {
  const asked: string[] = [];
  vi.stubGlobal('fetch', async (url: string) => {
    const { pathname, search } = new URL(url, 'http://localhost');
    asked.push(pathname + search);
    const path = pathname.replace(/^\/clusters\/[^/]+/, '');
    const document =
      documents[path] ??
      status(404, 'NotFound', 'the server could not find the requested resource');
    const code = document.kind === 'Status' ? document.code : 200;
    return new Response(JSON.stringify(document), {
      status: code,
      statusText: document.reason,
    });
  });
  return asked;
}
