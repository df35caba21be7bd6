// The sections and the page in Headlamp's own components, with recorded answers.

import '@testing-library/jest-dom';
import { DefaultDetailsViewSection } from '@kinvolk/headlamp-plugin/lib';
import { theme } from '@kinvolk/headlamp-plugin/lib/components/TestHelpers/theme';
import { queryClient } from '@kinvolk/headlamp-plugin/lib/lib/queryClient';
import headlampStore from '@kinvolk/headlamp-plugin/lib/redux/stores/store';
import { ThemeProvider } from '@mui/material/styles';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, configure, render, screen, waitFor, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { ReactNode } from 'react';
import { Provider } from 'react-redux';
import { BrowserRouter } from 'react-router-dom';
import noApiService from './fixtures/no-api-service.json';
import noRecord from './fixtures/no-record.json';
import noService from './fixtures/no-service.json';
import nodeAnswer from './fixtures/node.json';
import pendingPods from './fixtures/pending-pods.json';
import pendingPod from './fixtures/pod-pending.json';
import placedPod from './fixtures/pod-placed.json';
import { NodeSection } from './NodeSection';
import { PendingPage } from './PendingPage';
import { PodSection } from './PodSection';
import { addSection } from './sections';
import { forgetRoutes } from './service';
import { store } from './settings';
import { SettingsForm } from './SettingsForm';
import { serve, status } from './testing';

const API = '/apis/herodotus.dev/v1alpha1';
const SERVICE = '/api/v1/namespaces/herodotus/services/https:herodotus-endpoint:8000/proxy';
const MARKUP = '<img src=x onerror="window.hacked = true"><b>bold</b>';

// Styles are slow to compute in jsdom: no query looks at them, and a busy machine has its time.
configure({ defaultHidden: true, asyncUtilTimeout: 60_000 });
vi.setConfig({ testTimeout: 180_000 });

function show(children: ReactNode) {
  return render(
    <Provider store={headlampStore}>
      <ThemeProvider theme={theme}>
        <QueryClientProvider client={queryClient}>
          <BrowserRouter>{children}</BrowserRouter>
        </QueryClientProvider>
      </ThemeProvider>
    </Provider>
  );
}

function podOf(answer: typeof placedPod | typeof pendingPod, spec = {}) {
  return { metadata: answer.metadata, spec: { nodeName: answer.outcome.node, ...spec } };
}

function showPod(answer: typeof placedPod | typeof pendingPod, spec = {}) {
  const { namespace, name } = answer.metadata;
  const path = `${SERVICE}${API}/namespaces/${namespace}/podexplanations/${name}`;
  const asked = serve({ [path]: answer });
  show(<PodSection pod={podOf(answer, spec)} cluster="main" />);
  return asked;
}

beforeEach(() => {
  window.history.pushState({}, '', '/c/main/pods');
  forgetRoutes();
  store.set({});
});
afterEach(cleanup);

describe('the section of a placed pod', () => {
  it('says why it is on its node, with the table and a link to the page', async () => {
    const asked = showPod(placedPod);
    expect(await screen.findByText(placedPod.headline)).toBeInTheDocument();
    expect(asked).toHaveLength(1);
    expect(asked[0]).toContain(`uid=${placedPod.metadata.uid}`);
    const table = screen.getByRole('region', { name: 'Nodes with filter results and scores' });
    const best = within(table).getAllByRole('row')[1];
    expect(within(best).getByRole('link', { name: placedPod.outcome.node })).toHaveAttribute(
      'href',
      `/c/main/nodes/${placedPod.outcome.node}`
    );
    expect(best).toHaveTextContent(String(placedPod.ranking[0].total));
    expect(best).toHaveTextContent('passed');
    const page = screen.getByRole('link', { name: "The decision's page" });
    expect(page.getAttribute('href')).toBe(
      `/clusters/main${SERVICE}${API}/pages/?view=decision&namespace=shop&name=${placedPod.attempt.id}`
    );
    expect(screen.queryByRole('region', { name: 'Fix' })).toBeNull();
  });

  it('shows the rows that are chosen', async () => {
    showPod(placedPod);
    await userEvent.type(await screen.findByRole('searchbox', { name: 'Node' }), 'worker-12');
    const table = screen.getByRole('region', { name: 'Nodes with filter results and scores' });
    expect(within(table).getAllByRole('row')).toHaveLength(2);
    expect(table).toHaveTextContent('NodeUnschedulable: node(s) were unschedulable');
    expect(table).toHaveTextContent('also rejected by TaintToleration');
  });

  it('reads the answer again', async () => {
    const asked = showPod(placedPod);
    await screen.findByText(placedPod.headline);
    await userEvent.click(screen.getByRole('button', { name: 'Read again' }));
    await waitFor(() => expect(asked).toHaveLength(2));
  });
});

describe('the section of a pending pod', () => {
  it('says what would make it fit, with the command', async () => {
    showPod(pendingPod);
    expect(await screen.findByText(pendingPod.headline)).toBeInTheDocument();
    const suggestion = screen.getByRole('region', { name: 'Fix' });
    const [first] = pendingPod.suggestions;
    expect(suggestion).toHaveTextContent(`FIX ${first.text}`);
    const commands = within(suggestion).getAllByLabelText('Command');
    expect(commands.map(one => one.textContent)).toEqual(
      pendingPod.suggestions.map(one => one.command).filter(Boolean)
    );
    expect(screen.getByText(`Event: ${pendingPod.message}`)).toBeInTheDocument();
    const rejected = screen.getByRole('region', { name: 'Rejected nodes by reason' });
    expect(within(rejected).getAllByRole('row')).toHaveLength(1 + pendingPod.rejections.length);
  });

  it('copies the command', async () => {
    const user = userEvent.setup();
    showPod(pendingPod);
    await user.click((await screen.findAllByRole('button', { name: /^Copy/ }))[0]);
    expect(await navigator.clipboard.readText()).toBe(pendingPod.suggestions[0].command);
    expect(screen.getByRole('button', { name: 'Copied' })).toBeInTheDocument();
  });

  it('marks a command that deletes', async () => {
    const [first, ...others] = pendingPod.suggestions;
    const deleting = { ...first, deletes: ['Pod/shop/web-0'] };
    showPod({ ...pendingPod, suggestions: [deleting, ...others] });
    expect(await screen.findByText('deletes Pod/shop/web-0')).toBeInTheDocument();
    expect(screen.getByRole('button', { name: 'Copy (deletes)' })).toBeInTheDocument();
  });

  it('renders texts of the cluster as text', async () => {
    const text = JSON.stringify(pendingPod).replace(
      /worker-1"/g,
      `${JSON.stringify(MARKUP).slice(1, -1)}"`
    );
    const answer = JSON.parse(text);
    answer.headline = answer.message = answer.suggestions[0].text = MARKUP;
    answer.suggestions[0].command = `echo '${MARKUP}'`;
    answer.notes = [MARKUP];
    showPod(answer);
    expect((await screen.findAllByText(MARKUP)).length).toBeGreaterThan(3);
    expect(document.querySelector('img')).toBeNull();
    expect([...document.querySelectorAll('b')].map(b => b.textContent)).not.toContain('bold');
    expect((window as any).hacked).toBeUndefined();
  });
});

describe('a pod without an answer', () => {
  const path = `${SERVICE}${API}/namespaces/shop/podexplanations/payments-0`;
  const showFailure = (documents: Record<string, any>, spec = {}) => {
    serve(documents);
    show(<PodSection pod={podOf(pendingPod, spec)} cluster="main" />);
  };

  it('says that the service is not installed, and what to do', async () => {
    showFailure({ [path]: noService, [API]: noApiService });
    const alert = await screen.findByRole('alert');
    expect(alert).toHaveTextContent(
      'No decisions service was found at herodotus/herodotus-endpoint:8000'
    );
    expect(alert).toHaveTextContent('kubectl herodotus pod payments-0 -n shop --local');
    expect(within(alert).getByRole('link', { name: 'installing.md' })).toBeInTheDocument();
  });

  it('names the right that is missing for the proxy', async () => {
    const forbidden = status(403, 'Forbidden', 'services "x" is forbidden: User "ada" cannot get');
    showFailure({ [path]: forbidden, [API]: noApiService });
    expect(await screen.findByRole('alert')).toHaveTextContent(
      'Role herodotus-reader in the namespace herodotus'
    );
  });

  it('names the right that is missing for the APIService', async () => {
    const forbidden = status(
      403,
      'Forbidden',
      'podexplanations is forbidden: User "ada" cannot get'
    );
    const direct = path.replace(SERVICE, '');
    showFailure({ [path]: forbidden, [API]: { kind: 'APIResourceList' }, [direct]: forbidden });
    const alert = await screen.findByRole('alert');
    expect(alert).toHaveTextContent('ClusterRole herodotus-view in the namespace shop');
    expect(alert).toHaveTextContent('User "ada" cannot get');
  });

  it('says that nothing is recorded, and evaluates a pending pod', async () => {
    showFailure({ [path]: noRecord }, { schedulerName: 'other' });
    expect(await screen.findByText('No decision is recorded for this pod.')).toBeInTheDocument();
    expect(screen.getByText(/Its scheduler is other/)).toBeInTheDocument();
    expect(screen.getByLabelText('Command')).toHaveTextContent('--local');
  });

  it('says that the pod waits for its gates', async () => {
    showFailure({ [path]: noRecord }, { schedulingGates: [{ name: 'example.com/quota' }] });
    expect(
      await screen.findByText(/waits for its scheduling gates \(example.com\/quota\)/)
    ).toBeInTheDocument();
  });
});

describe('the section of a node', () => {
  const path = `${SERVICE}${API}/nodehistories/worker-8`;

  it('says how often it was chosen, and which filters rejected it', async () => {
    serve({ [path]: nodeAnswer });
    show(<NodeSection name="worker-8" cluster="main" />);
    const said = await screen.findByText(/^Considered/);
    expect(said).toHaveTextContent(nodeAnswer.headline);
    const filters = screen.getByRole('region', { name: 'Filters that rejected the node' });
    const rejecting = nodeAnswer.filters.filter(filter => filter.rejected);
    expect(within(filters).getAllByRole('row')).toHaveLength(1 + rejecting.length);
    const recent = screen.getByRole('region', { name: 'Recent decisions' });
    expect(within(recent).getAllByRole('link')[0]).toHaveAttribute(
      'href',
      `/c/main/pods/${nodeAnswer.recent[0].namespace}/${nodeAnswer.recent[0].pod}`
    );
  });

  it('names the right that is missing', async () => {
    const words = 'nodehistories.herodotus.dev "worker-8" is forbidden: User "ada" cannot get';
    const forbidden = status(403, 'Forbidden', words);
    const direct = path.replace(SERVICE, '');
    serve({ [path]: forbidden, [API]: { kind: 'APIResourceList' }, [direct]: forbidden });
    show(<NodeSection name="worker-8" cluster="main" />);
    expect(await screen.findByRole('alert')).toHaveTextContent('ClusterRole herodotus-nodes');
  });

  it('asks again for another time', async () => {
    const asked = serve({ [path]: nodeAnswer });
    show(<NodeSection name="worker-8" cluster="main" />);
    await userEvent.click(await screen.findByRole('combobox', { name: 'Time' }));
    await userEvent.click(screen.getByRole('option', { name: 'last 7 days' }));
    await screen.findByText(/^Considered/);
    expect(asked.map(url => url.split('?')[1])).toEqual(['since=86400', 'since=604800']);
  });
});

describe('the page of pending pods', () => {
  const path = `${SERVICE}${API}/pendingpods`;

  it('groups them by reason', async () => {
    serve({ [path]: pendingPods });
    show(<PendingPage />);
    expect(await screen.findByText(/pods are pending, most for/)).toHaveTextContent(
      `${pendingPods.count} pods`
    );
    for (const group of pendingPods.groups) {
      const table = screen.getByRole('region', {
        name: `Pods that wait for: ${group.reason}`,
      });
      expect(within(table).getAllByRole('row')).toHaveLength(1 + group.count);
    }
    expect(screen.getByText(/Deleted pods may be listed/)).toBeInTheDocument();
  });

  it('asks for the namespaces of the filter', async () => {
    const asked = serve({});
    headlampStore.dispatch({ type: 'filter/setNamespaceFilter', payload: ['shop', 'edge'] });
    show(<PendingPage />);
    await screen.findByRole('alert');
    headlampStore.dispatch({ type: 'filter/setNamespaceFilter', payload: [] });
    const own = asked
      .filter(url => url.includes('/pendingpods'))
      .map(url => /namespaces\/(\w+)\/pendingpods/.exec(url)?.[1]);
    expect(new Set(own)).toEqual(new Set(['edge', 'shop']));
  });

  it('says that no pod is pending', async () => {
    serve({ [path]: { ...pendingPods, pods: [], groups: [], count: 0 } });
    show(<PendingPage />);
    expect(await screen.findByText('No pod is pending.')).toBeInTheDocument();
  });
});

describe('the place on a page', () => {
  const { METADATA } = DefaultDetailsViewSection;
  const sections = [{ id: METADATA }, { id: 'headlamp.pod-conditions' }, null];
  const ids = (kind: string, given: any[]) =>
    addSection({ kind, jsonData: podOf(placedPod), metadata: placedPod.metadata }, given).map(
      section => section?.id
    );

  it('is below the metadata, once, of pods and nodes only', () => {
    for (const kind of ['Pod', 'Node']) {
      const added = ids(kind, sections);
      expect(added).toEqual([METADATA, 'herodotus', 'headlamp.pod-conditions', undefined]);
      expect(ids(kind, [{ id: 'herodotus' }])).toEqual(['herodotus']);
    }
    expect(addSection({ kind: 'Service' }, sections)).toBe(sections);
    expect(addSection(null, sections)).toBe(sections);
  });
});

describe('the settings', () => {
  it('are saved as far as they are valid', async () => {
    show(<SettingsForm />);
    await userEvent.type(screen.getByLabelText('Namespace'), 'ops');
    await userEvent.type(screen.getByLabelText('Port'), '99999');
    await userEvent.type(screen.getByLabelText('Address of the web pages'), 'javascript:alert(1)');
    expect(store.get()).toMatchObject({ namespace: 'ops' });
    expect(store.get().port).not.toBe('99999');
    expect(store.get().pages ?? '').not.toContain('javascript');
    expect(screen.getByText(/Port must be a number up to 65535/)).toBeInTheDocument();
    expect(screen.getByText(/must begin with https/)).toBeInTheDocument();
  });

  it('change where the answer is asked for', async () => {
    store.set({ namespace: 'ops', port: '9000' });
    const path = `/api/v1/namespaces/ops/services/https:herodotus-endpoint:9000/proxy${API}/nodehistories/worker-8`;
    serve({ [path]: nodeAnswer });
    show(<NodeSection name="worker-8" cluster="main" />);
    expect(await screen.findByText(/^Considered/)).toBeInTheDocument();
  });
});
