// Requests: which paths they take, and what their failures mean, with documents of the demo and the API server's words.

import noApiService from './fixtures/no-api-service.json';
import noRecord from './fixtures/no-record.json';
import noService from './fixtures/no-service.json';
import pending from './fixtures/pending-pods.json';
import placed from './fixtures/pod-placed.json';
import tlsMismatch from './fixtures/tls-mismatch.json';
import { forgetRoutes, pageAddress, pendingPods, podExplanation, ServiceError } from './service';
import { DEFAULTS } from './settings';
import { serve, status } from './testing';

const API = '/apis/herodotus.dev/v1alpha1';
const PROXY = '/api/v1/namespaces/herodotus/services/https:herodotus-endpoint:8000/proxy';
const PLAIN = '/api/v1/namespaces/herodotus/services/http:herodotus-endpoint:plain-http/proxy';
const POD = `${API}/namespaces/shop/podexplanations/postgres-0`;
const connection = { cluster: 'main', settings: DEFAULTS };
const ask = () => podExplanation(connection, 'shop', 'postgres-0', 'u-1');
const proxyForbidden = status(
  403,
  'Forbidden',
  'services "https:herodotus-endpoint:8000" is forbidden: User "ada" cannot get resource "services/proxy" in API group "" in the namespace "herodotus"'
);

async function failureOf(asked: Promise<unknown>): Promise<ServiceError> {
  const failure = await asked.then(
    () => null,
    found => found
  );
  expect(failure).toBeInstanceOf(ServiceError);
  return failure;
}

beforeEach(forgetRoutes);

describe('the route to the service', () => {
  it('is the service proxy first, in the cluster of the page, and takes one request', async () => {
    const asked = serve({ [PROXY + POD]: placed });
    expect((await ask()).headline).toBe(placed.headline);
    expect(asked).toEqual([`/clusters/main${PROXY}${POD}?columns=true&uid=u-1`]);
  });

  it('is the APIService if there is one, and is remembered', async () => {
    const asked = serve({
      [PROXY + POD]: proxyForbidden,
      [API]: { kind: 'APIResourceList' },
      [POD]: placed,
    });
    await ask();
    await ask();
    expect(asked.map(path => path.split('?')[0].replace('/clusters/main', ''))).toEqual([
      PROXY + POD,
      API,
      POD,
      POD,
    ]);
  });

  it('is the port without TLS if the service has no TLS', async () => {
    serve({ [PROXY + POD]: tlsMismatch, [API]: noApiService, [PLAIN + POD]: placed });
    expect((await ask()).headline).toBe(placed.headline);
  });

  it('is that of the settings', async () => {
    const settings = { ...DEFAULTS, namespace: 'ops', name: 'hero', port: '9000' };
    const path = `/api/v1/namespaces/ops/services/https:hero:9000/proxy${POD}`;
    serve({ [path]: placed });
    const answer = await podExplanation({ cluster: 'main', settings }, 'shop', 'postgres-0', 'u-1');
    expect(answer.kind).toBe('PodExplanation');
  });

  it('escapes names', async () => {
    const asked = serve({});
    await failureOf(podExplanation(connection, 'a/b', '../x?y', 'u'));
    expect(asked[0]).toContain('/namespaces/a%2Fb/podexplanations/..%2Fx%3Fy?');
  });
});

describe('a failure', () => {
  it('says that no service is installed', async () => {
    serve({ [PROXY + POD]: noService, [PLAIN + POD]: noService, [API]: noApiService });
    expect(await failureOf(ask())).toMatchObject({
      kind: 'NotInstalled',
      message: 'services "no-such-service" not found',
    });
  });

  it('says that the service does not answer', async () => {
    const down = status(503, 'ServiceUnavailable', 'no endpoints available for service "x"');
    serve({ [PROXY + POD]: down, [PLAIN + POD]: noService, [API]: noApiService });
    expect((await failureOf(ask())).kind).toBe('NotReachable');
  });

  it('says that an APIService has no backend', async () => {
    const down = status(
      503,
      'ServiceUnavailable',
      'the server is currently unable to handle the request'
    );
    serve({ [PROXY + POD]: noService, [API]: down, [POD]: down });
    expect(await failureOf(ask())).toMatchObject({ kind: 'NotReachable', viaProxy: false });
  });

  it('says that the user may not use the proxy', async () => {
    serve({
      [PROXY + POD]: proxyForbidden,
      [PLAIN + POD]: proxyForbidden,
      [API]: noApiService,
    });
    const failure = await failureOf(ask());
    expect(failure).toMatchObject({ kind: 'Forbidden', viaProxy: true });
    expect(failure.message).toContain('User "ada" cannot get resource "services/proxy"');
  });

  it('says that the user lacks a right to the answer', async () => {
    const words = 'podexplanations.herodotus.dev "x" is forbidden: User "ada" cannot get resource';
    serve({
      [PROXY + POD]: proxyForbidden,
      [API]: { kind: 'APIResourceList' },
      [POD]: status(403, 'Forbidden', words),
    });
    expect(await failureOf(ask())).toMatchObject({
      kind: 'Forbidden',
      viaProxy: false,
      message: words,
    });
  });

  it('says that nothing is recorded, and tries no other route', async () => {
    const asked = serve({ [PROXY + POD]: noRecord });
    expect((await failureOf(ask())).kind).toBe('NoRecord');
    expect(asked).toHaveLength(1);
  });

  it('of a network without an answer says so', async () => {
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('network')));
    expect((await failureOf(ask())).kind).toBe('NotReachable');
  });

  it('does not log the user out', async () => {
    const unauthorized = status(401, 'Unauthorized', 'Unauthorized');
    const asked = serve({
      [PROXY + POD]: unauthorized,
      [PLAIN + POD]: noService,
      [API]: noApiService,
    });
    expect((await failureOf(ask())).kind).toBe('Unauthorized');
    expect(asked.filter(path => path.includes('logout') || path.includes('token'))).toEqual([]);
  });
});

describe('pending pods', () => {
  const path = `${PROXY}${API}/pendingpods`;
  const listed = (uids: string[], more = {}) => ({
    kind: 'PodList',
    metadata: more,
    items: uids.map(uid => ({ metadata: { uid } })),
  });
  const uids = pending.pods.map(pod => pod.uid);

  it('that the API server no longer lists are left out', async () => {
    serve({ [path]: pending, '/api/v1/pods': listed(uids.slice(1)) });
    const { answer, gone } = await pendingPods(connection, '');
    expect(gone).toBe(1);
    expect(answer.pods.map(pod => pod.uid)).toEqual(uids.slice(1));
    const grouped = answer.groups.reduce((sum, group) => sum + group.count, 0);
    expect(grouped).toBe(answer.count);
    expect(answer.count).toBe(pending.count - 1);
  });

  it('are all shown if pods cannot be listed, or not all in one answer', async () => {
    serve({ [path]: pending });
    expect(await pendingPods(connection, '')).toEqual({ answer: pending, gone: null });
    serve({ [path]: pending, '/api/v1/pods': listed([], { continue: 'x' }) });
    expect((await pendingPods(connection, '')).gone).toBeNull();
  });
});

describe("a web page's address", () => {
  const address = (pages: string, isApp = false) =>
    pageAddress(
      { cluster: 'main', settings: { ...DEFAULTS, pages } },
      'decision',
      { namespace: 'shop', name: 'a&b' },
      isApp,
      '/lamp'
    );

  it("is behind the API server's proxy", () => {
    expect(address('')).toBe(
      `/lamp/clusters/main${PROXY}${API}/pages/?view=decision&namespace=shop&name=a%26b`
    );
  });

  it('is that of the settings', () => {
    const query = '?view=decision&namespace=shop&name=a%26b';
    expect(address('https://h/ui/')).toBe(`https://h/ui/${query}`);
    expect(address('https://h/ui', true)).toBe(`https://h/ui/${query}`);
  });

  it('is unknown in the desktop application, whose browser has no credentials', () => {
    expect(address('', true)).toBeNull();
  });
});
