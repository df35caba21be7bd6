// The section on a pod's page: why it is on its node, or why it is Pending.

import { Loader, SectionBox } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Box, Typography } from '@mui/material';
import { Command, Failure, PageLink } from './parts';
import { PodAnswer } from './PodAnswer';
import { RefreshButton, SectionTitle } from './section';
import { podExplanation } from './service';
import { useAnswer } from './useAnswer';
import { useConnection } from './useConnection';

interface Pod {
  metadata: { name: string; namespace: string; uid: string };
  spec: { nodeName?: string; schedulerName?: string; schedulingGates?: Array<{ name: string }> };
}

export function PodSection({ pod, cluster }: { pod: Pod; cluster?: string }) {
  const connection = useConnection(cluster);
  const { name, namespace, uid } = pod.metadata;
  // a new question once the pod has a node, because that is a new decision
  const question = [connection.key, namespace, uid, pod.spec.nodeName].join('/');
  const asked = useAnswer(question, () => podExplanation(connection, namespace, name, uid));
  const { answer, failure } = asked;
  const command = `kubectl herodotus pod ${name} -n ${namespace}`;
  return (
    <SectionBox
      title={
        <SectionTitle
          title="Scheduling decision"
          actions={[<RefreshButton key="r" asked={asked} />]}
        />
      }
    >
      {!answer && !failure && <Loader title="Loading the scheduling decision" />}
      {failure?.kind === 'NoRecord' && <NoRecord pod={pod} words={failure.message} />}
      {failure && failure.kind !== 'NoRecord' && (
        <Failure
          failure={failure}
          connection={connection}
          rights={`the ClusterRole herodotus-view in the namespace ${namespace}, which view, edit and admin include`}
          command={`${command} --local`}
        />
      )}
      {answer && (
        <>
          <PodAnswer answer={answer} />
          <Box sx={{ px: 2, pb: 2 }}>
            <PageLink
              connection={connection}
              view="decision"
              params={{ namespace, name: answer.attempt.id }}
            >
              The decision&apos;s page
            </PageLink>
          </Box>
        </>
      )}
    </SectionBox>
  );
}

/** Why a pod has no decision, as far as the pod says so, and what to do. */
function NoRecord({ pod, words }: { pod: Pod; words: string }) {
  const { name, namespace } = pod.metadata;
  const gates = (pod.spec.schedulingGates ?? []).map(gate => gate.name).join(', ');
  const scheduler = pod.spec.schedulerName || 'default-scheduler';
  const isPending = !pod.spec.nodeName;
  return (
    <Box sx={{ px: 2, pb: 2 }}>
      {gates ? (
        <Typography>
          The pod waits for its scheduling gates ({gates}): no scheduler tries it before they are
          removed.
        </Typography>
      ) : (
        <>
          <Typography>No decision is recorded for this pod.</Typography>
          <Typography variant="body2" sx={{ my: 1 }}>
            Its scheduler is {scheduler}. Decisions are recorded while Herodotus schedules or
            observes, and are kept for a limited time. A pod created with spec.nodeName has none.
          </Typography>
          {isPending && (
            <>
              <Typography variant="body2">To evaluate the pod now, on your machine:</Typography>
              <Command text={`kubectl herodotus pod ${name} -n ${namespace} --local`} />
            </>
          )}
        </>
      )}
      <Typography variant="body2" color="text.secondary" sx={{ overflowWrap: 'anywhere' }}>
        {words}
      </Typography>
    </Box>
  );
}
