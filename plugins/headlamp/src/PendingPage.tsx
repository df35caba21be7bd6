// The page of pending pods, by reason, in the namespaces that Headlamp's filter selects.

import {
  Loader,
  SectionBox,
  SectionFilterHeader,
} from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Box, Typography } from '@mui/material';
import { useSelector } from 'react-redux';
import { PendingPods } from './answers';
import { DataTable, Failure, PageLink, PodLink } from './parts';
import { RefreshButton } from './section';
import { pendingPods } from './service';
import { useAnswer } from './useAnswer';
import { useConnection } from './useConnection';
import { age, count, nextTry, number } from './words';

interface Read {
  answers: PendingPods[];
  gone: number | null;
}

export function PendingPage() {
  const connection = useConnection();
  const selected: Set<string> = useSelector((state: any) => state.filter.namespaces);
  const namespaces = selected.size ? [...selected].sort() : [''];
  const asked = useAnswer<Read>([connection.key, ...namespaces].join('/'), async () => {
    const read = await Promise.all(namespaces.map(one => pendingPods(connection, one)));
    const gone = read.map(one => one.gone);
    return {
      answers: read.map(one => one.answer),
      gone: gone.includes(null) ? null : gone.reduce((a, b) => a + b, 0),
    };
  });
  const { answer, failure } = asked;
  const isOne = namespaces.length === 1;
  return (
    <SectionBox
      title={
        <SectionFilterHeader
          title="Pending pods"
          noSearch
          actions={[<RefreshButton key="r" asked={asked} />]}
        />
      }
    >
      {!answer && !failure && <Loader title="Loading pending pods" />}
      {failure && (
        <>
          <Failure
            failure={failure}
            connection={connection}
            rights="the ClusterRole herodotus-view in each selected namespace, which view, edit and admin include"
            command="kubectl herodotus pending --all-namespaces --local"
          />
          {failure.kind === 'Forbidden' && !selected.size && (
            <Typography sx={{ px: 2, pb: 2 }}>
              All namespaces were asked for: select the namespaces that you may read.
            </Typography>
          )}
        </>
      )}
      {answer && (
        <Box sx={{ px: 2, pb: 2 }}>
          <PendingAnswer {...answer} />
          <PageLink
            connection={connection}
            view="pending"
            params={isOne && namespaces[0] ? { namespace: namespaces[0] } : {}}
          >
            The page of pending pods
          </PageLink>
        </Box>
      )}
    </SectionBox>
  );
}

/** The pending pods by reason. `gone`: the number of pods that are no longer pending, or null if unknown. */
export function PendingAnswer({ answers, gone }: Read) {
  const groups = mergeGroups(answers);
  const pods = answers.flatMap(answer => answer.pods);
  return (
    <>
      <Typography sx={{ fontSize: '1.1rem', overflowWrap: 'anywhere' }}>
        {headline(answers, groups)}
      </Typography>
      {gone > 0 && (
        <Typography variant="body2" color="text.secondary">
          {count(gone, 'other pod')} {gone === 1 ? 'was' : 'were'} deleted or placed since.
        </Typography>
      )}
      {gone === null && (
        <Typography variant="body2" color="text.secondary">
          Deleted pods may be listed: the pods of the API server could not be read.
        </Typography>
      )}
      {groups.map(group => (
        <Box key={`${group.overdue}/${group.reason}`} component="section" sx={{ mt: 2 }}>
          <Typography component="h3" sx={{ fontWeight: 'bold', overflowWrap: 'anywhere' }}>
            {number(group.count)} {group.overdue && 'overdue; '}
            {group.reason}
          </Typography>
          <PodTable reason={group.reason} pods={pods.filter(pod => isOf(pod, group))} />
        </Box>
      ))}
    </>
  );
}

type Group = { reason: string; overdue: boolean; count: number };

function mergeGroups(answers: PendingPods[]): Group[] {
  const found: Group[] = [];
  for (const { reason, overdue, count: n } of answers.flatMap(answer => answer.groups)) {
    const same = found.find(group => isOf(group, { reason, overdue }));
    if (same) same.count += n;
    else found.push({ reason, overdue, count: n });
  }
  return found.sort((a, b) => Number(a.overdue) - Number(b.overdue) || b.count - a.count);
}

function isOf(one: Record<string, any>, group: { reason: string; overdue: boolean }): boolean {
  return one.reason === group.reason && one.overdue === group.overdue;
}

function headline(answers: PendingPods[], groups: Group[]): string {
  if (answers.every(answer => answer.noRecords)) {
    return 'No scheduler has sent records yet: which pods are pending is not known.';
  }
  const waiting = groups.reduce((sum, group) => sum + group.count, 0);
  if (!waiting) return 'No pod is pending.';
  const omitted = answers.reduce((sum, answer) => sum + (answer.podsOmitted ?? 0), 0);
  const cut = omitted
    ? ` ${count(omitted, 'pod')} ${omitted === 1 ? 'is' : 'are'} not listed.`
    : '';
  const verb = waiting === 1 ? 'is' : 'are';
  return `${count(waiting, 'pod')} ${verb} pending, most for: ${groups[0].reason}.${cut}`;
}

function PodTable({ reason, pods }: { reason: string; pods: Array<Record<string, any>> }) {
  return (
    <DataTable
      label={`Pods that wait for: ${reason}`}
      columns={[
        { title: 'Pod', width: 28, minWidth: 160 },
        { title: 'Age', width: 10 },
        { title: 'Next try', width: 30, minWidth: 200 },
        { title: 'Attempt', isNumber: true, width: 8 },
        { title: 'Workload', width: 24 },
      ]}
      rows={pods.map(pod => ({
        key: pod.uid ?? `${pod.namespace}/${pod.pod}`,
        cells: [
          <PodLink key="pod" namespace={pod.namespace} name={pod.pod} />,
          age(pod.createdAt),
          pod.notBefore ? nextTry(pod.notBefore, pod.latest) : '–',
          number(pod.attempt),
          pod.owner ?? '–',
        ],
      }))}
    />
  );
}
