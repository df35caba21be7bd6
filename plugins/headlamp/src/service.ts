// Requests to the decisions service through the API server, with the rights of Headlamp's user.
// Owns: paths, routes to the service, what a failure means. Does not own: the words of a failure (`Failure`).
//
// There are three routes: the API server's service proxy, the proxy to a port without TLS, and an APIService. A cluster
// is asked by the route that answered last, at first by the service proxy. Another route is looked for if the API server
// refuses a request, so that a normal answer costs one request. `kubectl herodotus` does the same.

import { ApiProxy } from '@kinvolk/headlamp-plugin/lib';
import { NodeHistory, PendingPods, PodExplanation } from './answers';
import { Settings } from './settings';

const API = '/apis/herodotus.dev/v1alpha1';
const UNKNOWN_PATH = 'the server could not find the requested resource';
const PROXY_ERRORS = [
  'no endpoints available',
  'error trying to reach service',
  'currently unable to handle',
  'EOF',
];
const TIMEOUT_MS = 30_000;
const LISTED = 500; // pods in one answer of the API server
const YOUNG_MS = 10_000; // a pod created while pods were listed may be missing there

/** Why there is no answer. */
export type FailureKind =
  | 'NotInstalled' // the cluster has no decisions service, as far as this user can tell
  | 'NotReachable' // it is installed, but does not answer
  | 'Forbidden' // the user lacks a right
  | 'Unauthorized' // the service does not know who asks
  | 'NoRecord' // the service has nothing about the object
  | 'Other';

/** A failed request. `message` has the server's words; `viaProxy` is false if an APIService was asked. */
export class ServiceError extends Error {
  constructor(public kind: FailureKind, message: string, public viaProxy: boolean) {
    super(message);
  }
}

export interface Connection {
  cluster: string;
  settings: Settings;
}

interface Refusal {
  status: number;
  words: string;
}

type Route = (settings: Settings) => string;
const proxyTo = (port: (settings: Settings) => string): Route => {
  return s => `/api/v1/namespaces/${s.namespace}/services/${port(s)}/proxy`;
};
const PROXY = proxyTo(s => `https:${s.name}:${s.port}`);
const PLAIN_HTTP_PROXY = proxyTo(s => `http:${s.name}:plain-http`);
const API_SERVICE: Route = () => '';

const routes = new Map<string, Route>(); // the one that answered last, by cluster and service

/** Forget which routes answered. */
export function forgetRoutes() {
  routes.clear();
}

/** Return the explanation of the last attempt to schedule a pod. Throws ServiceError. */
export function podExplanation(
  connection: Connection,
  namespace: string,
  name: string,
  uid: string
): Promise<PodExplanation> {
  const query = { columns: 'true', uid };
  return get(connection, under(namespace, 'podexplanations', name), query);
}

/** Return a node's history over `sinceS` seconds. Throws ServiceError. */
export function nodeHistory(
  connection: Connection,
  name: string,
  sinceS: number
): Promise<NodeHistory> {
  return get(connection, `/nodehistories/${encodeURIComponent(name)}`, { since: String(sinceS) });
}

/**
 * Return the pending pods of a namespace, or of all if it is empty. Throws ServiceError.
 *
 * Records do not know of deletions, so pods that the API server no longer lists as pending are left out, and `gone`
 * says how many. It is null if the user may not list pods, or there are too many for one answer.
 */
export async function pendingPods(
  connection: Connection,
  namespace: string
): Promise<{ answer: PendingPods; gone: number | null }> {
  const [answer, unassigned] = await Promise.all([
    get<PendingPods>(connection, under(namespace, 'pendingpods')),
    unassignedPods(connection, namespace),
  ]);
  return unassigned ? withoutGone(answer, unassigned) : { answer, gone: null };
}

/** Return the address of one of the service's web pages, or null if there is none that a browser can open. */
export function pageAddress(
  { cluster, settings }: Connection,
  view: string,
  params: Record<string, string>,
  isApp: boolean,
  baseUrl: string
): string | null {
  const query = new URLSearchParams({ view, ...params });
  if (settings.pages) return `${settings.pages.replace(/\/+$/, '')}/?${query}`;
  if (isApp) return null; // another browser would open it, without Headlamp's credentials
  const route = routeOf({ cluster, settings });
  return `${baseUrl}/clusters/${encodeURIComponent(cluster)}${route(
    settings
  )}${API}/pages/?${query}`;
}

function withoutGone(answer: PendingPods, unassigned: Set<string>) {
  const limit = new Date(answer.at).getTime() - YOUNG_MS;
  const isThere = (pod: Record<string, any>) =>
    unassigned.has(pod.uid) || new Date(pod.createdAt ?? pod.startedAt).getTime() >= limit;
  const pods = answer.pods.filter(isThere);
  const gone = answer.pods.length - pods.length;
  const counted = (group: Record<string, any>) =>
    pods.filter(pod => pod.reason === group.reason && pod.overdue === group.overdue).length;
  const groups = gone
    ? answer.groups.map(group => ({ ...group, count: counted(group) })).filter(g => g.count)
    : answer.groups;
  return { answer: { ...answer, pods, groups, count: answer.count - gone }, gone };
}

/** Return the UIDs of the pods without a node, or null if they cannot be read. */
async function unassignedPods(
  { cluster }: Connection,
  namespace: string
): Promise<Set<string> | null> {
  const place = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  const query = { fieldSelector: 'spec.nodeName=,status.phase=Pending', limit: String(LISTED) };
  const found = await request(cluster, `/api/v1${place}/pods`, query).catch(() => null);
  if (!found?.items || found.metadata?.continue) return null;
  return new Set(found.items.map((pod: any) => pod.metadata.uid));
}

function under(namespace: string, plural: string, name = ''): string {
  const place = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  return `${place}/${plural}${name ? `/${encodeURIComponent(name)}` : ''}`;
}

const keyOf = ({ cluster, settings: s }: Connection) =>
  [cluster, s.namespace, s.name, s.port].join('/');
const routeOf = (connection: Connection) => routes.get(keyOf(connection)) ?? PROXY;

async function get<Answer>(
  connection: Connection,
  path: string,
  query: Record<string, string> = {}
): Promise<Answer> {
  const { cluster, settings } = connection;
  const failures = new Map<Route, Refusal>();
  const ask = async (route: Route): Promise<Answer | null> => {
    try {
      const answer = await request(cluster, `${route(settings)}${API}${path}`, query);
      routes.set(keyOf(connection), route);
      return answer;
    } catch (failure) {
      failures.set(route, refusalOf(failure));
      return null;
    }
  };
  let route = routeOf(connection);
  let answer = await ask(route);
  if (!answer && !reachedService(failures.get(route))) {
    const candidates = await candidateRoutes(cluster);
    for (const candidate of candidates) {
      if (failures.has(candidate)) continue;
      answer = await ask(candidate);
      if (answer || reachedService(failures.get(candidate))) {
        routes.set(keyOf(connection), candidate);
        route = candidate;
        break;
      }
    }
    if (!candidates.includes(route) && candidates.length) route = candidates[0];
  }
  if (answer) return answer;
  throw failureOf(failures.get(route), route !== API_SERVICE);
}

/** Return the routes by which the service may be reached: the APIService if there is one, else the proxy's. */
async function candidateRoutes(cluster: string): Promise<Route[]> {
  try {
    await request(cluster, API);
    return [API_SERVICE];
  } catch (failure) {
    const { status, words } = refusalOf(failure);
    if (status === 503) return [API_SERVICE]; // registered, though its backend may be down
    return words.startsWith(UNKNOWN_PATH) ? [PROXY, PLAIN_HTTP_PROXY] : [];
  }
}

function request(cluster: string, path: string, query: Record<string, string> = {}): Promise<any> {
  const text = new URLSearchParams(query).toString();
  return ApiProxy.request(text ? `${path}?${text}` : path, {
    cluster,
    timeout: TIMEOUT_MS,
    autoLogoutOnAuthError: false, // a 401 of the service says nothing about the session with the API server
  });
}

/** Headlamp's errors have the HTTP status and `STATUS TEXT - message`. */
function refusalOf(failure: any): Refusal {
  const text = String(failure?.message ?? failure);
  const words = text.includes(' - ') ? text.slice(text.indexOf(' - ') + 3) : text;
  return { status: Number(failure?.status ?? 0), words: words === 'undefined' ? text : words };
}

function reachedService({ status, words }: Refusal): boolean {
  if ([401, 403, 408, 500, 502, 503].includes(status) || !status) return false;
  return !isNotInstalled({ status, words });
}

function isNotInstalled({ status, words }: Refusal): boolean {
  return (
    status === 404 && (/^(services|namespaces) "/.test(words) || words.startsWith(UNKNOWN_PATH))
  );
}

function failureOf(refusal: Refusal, viaProxy: boolean): ServiceError {
  const { status, words } = refusal;
  const isDown =
    [408, 502, 503].includes(status) || PROXY_ERRORS.some(sign => words.includes(sign));
  let kind: FailureKind = 'Other';
  if (isNotInstalled(refusal)) kind = 'NotInstalled';
  else if (status === 401) kind = 'Unauthorized';
  else if (status === 403) kind = 'Forbidden';
  else if (status === 404 || status === 410) kind = 'NoRecord';
  else if (isDown) kind = 'NotReachable';
  return new ServiceError(kind, words, viaProxy);
}
