// The section on a node's page: how often it was chosen or rejected, and why.

import { Loader, SectionBox, StatusLabel } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Box, MenuItem, TextField, Typography } from '@mui/material';
import { useState } from 'react';
import { NodeHistory } from './answers';
import { DataTable, Failure, PageLink, PodLink } from './parts';
import { RefreshButton, SectionTitle } from './section';
import { nodeHistory } from './service';
import { useAnswer } from './useAnswer';
import { useConnection } from './useConnection';
import { age, number, percent, statusOf } from './words';

const WINDOWS: Array<[number, string]> = [
  [3600, 'last hour'],
  [86400, 'last 24 hours'],
  [604800, 'last 7 days'],
  [2592000, 'last 30 days'],
];
const DAY = 86400;
const RECENT = 10;

export function NodeSection({ name, cluster }: { name: string; cluster?: string }) {
  const connection = useConnection(cluster);
  const [since, setSince] = useState(DAY);
  const asked = useAnswer([connection.key, name, since].join('/'), () =>
    nodeHistory(connection, name, since)
  );
  const { answer, failure } = asked;
  return (
    <SectionBox
      title={
        <SectionTitle
          title="Scheduling history"
          actions={[<RefreshButton key="r" asked={asked} />]}
        />
      }
    >
      <Box sx={{ px: 2, py: 1 }}>
        <TextField
          select
          size="small"
          label="Time"
          value={since}
          onChange={event => setSince(Number(event.target.value))}
        >
          {WINDOWS.map(([seconds, text]) => (
            <MenuItem key={seconds} value={seconds}>
              {text}
            </MenuItem>
          ))}
        </TextField>
      </Box>
      {!answer && !failure && <Loader title="Loading the scheduling history" />}
      {failure?.kind === 'NoRecord' && (
        <Typography sx={{ px: 2, pb: 2 }}>
          No decision considered this node. Decisions are recorded while Herodotus schedules or
          observes.
        </Typography>
      )}
      {failure && failure.kind !== 'NoRecord' && (
        <Failure
          failure={failure}
          connection={connection}
          rights="the ClusterRole herodotus-nodes"
          command={`kubectl herodotus node ${name} --local`}
        />
      )}
      {answer && (
        <Box sx={{ px: 2, pb: 2 }}>
          <NodeAnswer answer={answer} />
          <PageLink connection={connection} view="node" params={{ name, since: String(since) }}>
            The node&apos;s page
          </PageLink>
        </Box>
      )}
    </SectionBox>
  );
}

/** What the history says, in a sentence and three tables. */
export function NodeAnswer({ answer }: { answer: NodeHistory }) {
  const filters = answer.filters.filter(filter => filter.rejected);
  return (
    <>
      <Typography sx={{ fontSize: '1.1rem' }}>{answer.headline}</Typography>
      {answer.won.meanMargin !== null && (
        <Typography>
          Ahead by {number(answer.won.meanMargin, 1)} points on average when it won.
        </Typography>
      )}
      {answer.lost.meanBehind !== null && (
        <Typography>
          Behind by {number(answer.lost.meanBehind, 1)} points on average when another node won.
        </Typography>
      )}
      {filters.length > 0 && (
        <DataTable
          label="Filters that rejected the node"
          columns={[
            { title: 'Filter' },
            { title: 'Reason', minWidth: 170 },
            { title: 'Rejected', isNumber: true },
            { title: 'Pass rate', isNumber: true },
          ]}
          rows={filters.map(filter => ({
            key: filter.plugin,
            cells: [
              filter.plugin,
              filter.reasons
                .map((reason: any) => `${reason.text} ${number(reason.count)}`)
                .join(', '),
              number(filter.rejected),
              percent(filter.rate),
            ],
          }))}
        />
      )}
      <ScorePlugins answer={answer} />
      <Recent answer={answer} />
    </>
  );
}

function ScorePlugins({ answer }: { answer: NodeHistory }) {
  const { carriedBy } = answer.won;
  const { costsMost } = answer.lost;
  const plugins = [...new Set([...Object.keys(carriedBy), ...Object.keys(costsMost)])];
  if (!plugins.length) return null;
  return (
    <DataTable
      label="Score plugins that decided"
      columns={[
        { title: 'Score plugin' },
        { title: 'Decided wins', isNumber: true },
        { title: 'Points relative to the winner in losses', isNumber: true },
      ]}
      rows={plugins.map(plugin => ({
        key: plugin,
        cells: [plugin, number(carriedBy[plugin] ?? 0), number(costsMost[plugin], 1)],
      }))}
    />
  );
}

function Recent({ answer }: { answer: NodeHistory }) {
  if (!answer.recent.length) return null;
  return (
    <DataTable
      label="Recent decisions"
      columns={[
        { title: 'Pod', minWidth: 160 },
        { title: 'This node', minWidth: 140 },
        { title: 'Points' },
        { title: 'Status' },
        { title: 'Age' },
      ]}
      rows={answer.recent.slice(0, RECENT).map(decision => ({
        key: decision.id,
        cells: [
          <PodLink key="pod" namespace={decision.namespace} name={decision.pod} />,
          resultOn(decision),
          pointsOf(decision),
          <StatusLabel key="state" status={statusOf(decision.state)}>
            {decision.state}
          </StatusLabel>,
          age(decision.startedAt),
        ],
      }))}
    />
  );
}

function resultOn(decision: Record<string, any>): string {
  if (decision.result === 'rejected') return `rejected by ${decision.rejectedBy}`;
  return decision.result === 'not-evaluated' ? `not evaluated (${decision.why})` : decision.result;
}

function pointsOf(decision: Record<string, any>): string {
  if (decision.points === undefined || decision.points === null) return '–';
  const way = (decision.result === 'lost') === (decision.points >= 0) ? 'behind' : 'ahead';
  return `${number(Math.abs(decision.points))} ${way}${decision.decidedBy ? ` (${decision.decidedBy})` : ''}`;
}
