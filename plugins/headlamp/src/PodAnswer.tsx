// The answer about a pod: its result in words, what would make it fit, the table of nodes, what is not known.

import { StatusLabel } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import {
  Alert,
  Box,
  MenuItem,
  TablePagination,
  TextField,
  Tooltip,
  Typography,
} from '@mui/material';
import { useMemo, useState } from 'react';
import { PodExplanation } from './answers';
import { Row, rows, scorePlugins, select, Shown } from './columns';
import { Command, DataTable, NodeLink } from './parts';
import { ago, count, duration, nextTry, number, secondsUntil, statusOf } from './words';

const ROWS = [10, 25, 100];

/** Everything that the section of a pod says about its last attempt. */
export function PodAnswer({ answer }: { answer: PodExplanation }) {
  return (
    <Box sx={{ px: 2, pb: 2 }}>
      <StateLine answer={answer} />
      <Typography sx={{ my: 1, fontSize: '1.1rem', overflowWrap: 'anywhere' }}>
        {headline(answer)}
      </Typography>
      {answer.preemptedBy?.evicted && <Eviction preemption={answer.preemptedBy} />}
      <Suggestions answer={answer} />
      {answer.notes?.map(note => (
        <Alert key={note} severity="info" sx={{ my: 1 }}>
          {note}
        </Alert>
      ))}
      <Rejections answer={answer} />
      <Nodes answer={answer} />
      {answer.message && !answer.outcome.node && (
        <Typography variant="body2" color="text.secondary" sx={{ overflowWrap: 'anywhere' }}>
          Event: {answer.message}
        </Typography>
      )}
    </Box>
  );
}

function StateLine({ answer }: { answer: PodExplanation }) {
  const { attempt, outcome } = answer;
  const at = outcome.phases.at(-1)?.at ?? attempt.startedAt;
  const isDecided = Boolean(outcome.node);
  const created = attempt.podCreatedAt;
  const waits = created ? ` for ${duration(Math.max(1, -secondsUntil(created)))}` : '';
  const parts = [
    isDecided ? `scheduled ${ago(at)}` : `Pending${waits}, last tried ${ago(at)}`,
    attempt.attempts > 1 ? `attempt ${number(attempt.lastOrdinal)} of ${number(attempt.attempts)}` : '',
    attempt.retry ? `next try ${nextTry(attempt.retry.notBefore, attempt.retry.latest)}` : '',
  ];
  return (
    <Box sx={{ display: 'flex', flexWrap: 'wrap', gap: 1, alignItems: 'center' }}>
      <StatusLabel status={statusOf(outcome.state)}>{outcome.state}</StatusLabel>
      <Typography variant="body2" color="text.secondary">
        {parts.filter(Boolean).join(', ')}
      </Typography>
    </Box>
  );
}

/** The preemption that evicted the pod, and for whom. */
function Eviction({ preemption }: { preemption: NonNullable<PodExplanation['preemptedBy']> }) {
  const { at, node, preemptor } = preemption;
  const whom = preemptor ? `${preemptor.namespace}/${preemptor.pod}` : 'a pod of another namespace';
  return (
    <Alert severity="warning" sx={{ my: 1 }}>
      Evicted from <NodeLink name={node} /> {ago(at)} to make room for {whom}.
    </Alert>
  );
}

/** The result in a sentence. What became of the decision precedes it where that differs. */
function headline({ headline: said, outcome, message }: PodExplanation): string {
  const { node, state } = outcome;
  if (outcome.lost) {
    return `Decided for ${node}. Whether the pod was bound is not recorded, because the scheduler restarted.`;
  }
  if (state === 'Binding') return `Decided for ${node}, not bound yet. ${said}`;
  if (state === 'DryRun') return `Decided for ${node} in a dry run: not bound. ${said}`;
  if (state === 'Failed' && node) {
    const failed = outcome.phases.filter((phase: any) => phase.status !== 'Success').at(-1);
    const why = failed?.message || failed?.status || message;
    return `Decided for ${node}, but ${failed?.phase ?? 'binding'} failed: ${why}`;
  }
  return said;
}

const COSTS: Record<string, string> = {
  application: 'changes the application',
  node: 'changes a node',
  capacity: 'needs capacity',
};

/** What a suggestion costs, rolls out, and whether it was checked, in brackets. */
function listNotes({ costs, rollsOut, checked }: any) {
  const notes = [
    ...(costs ?? []).map((cost: string) => COSTS[cost]),
    ...(rollsOut?.length ? [`rolls out ${rollsOut.join(', ')}`] : []),
    ...(checked ? [] : ['not checked']),
  ];
  return notes.length ? ` (${notes.join('; ')})` : '';
}

function Suggestions({ answer }: { answer: PodExplanation }) {
  const suggestions = answer.suggestions ?? [];
  const steps = answer.possibleChanges ?? [];
  if (!suggestions.length && !steps.length) return null;
  return (
    <Box
      component="section"
      aria-label="Fix"
      sx={{ my: 2, pl: 2, borderLeft: 4, borderColor: 'primary.main' }}
    >
      {suggestions.length === 0 && (
        <Typography>
          <b>FIX</b> {steps.join(' and ')} (not checked)
        </Typography>
      )}
      {suggestions.map((suggestion, i) => (
        <Box key={suggestion.text} sx={{ mb: 2 }}>
          <Typography sx={{ overflowWrap: 'anywhere' }}>
            <b>{i ? 'or' : 'FIX'}</b> {suggestion.text}
            {suggestion.object.split('/')[0] !== 'Node' && (
              <>
                : fits <NodeLink name={suggestion.node} />
              </>
            )}
            {listNotes(suggestion)}
          </Typography>
          {suggestion.deletes.length > 0 && (
            <Typography color="error.main">deletes {suggestion.deletes.join(', ')}</Typography>
          )}
          {suggestion.command ? (
            <Command text={suggestion.command} deletes={suggestion.deletes} />
          ) : (
            suggestion.object.split('/')[0] !== 'Node' && (
              <Typography variant="body2">No command is known for {suggestion.object}.</Typography>
            )
          )}
          {suggestion.rights.length > 0 && (
            <Typography variant="body2" color="text.secondary">
              needs the right to {suggestion.rights.map(described).join(', ')}
            </Typography>
          )}
        </Box>
      ))}
    </Box>
  );
}

function described(right: { verb?: string; resource?: string; namespace?: string }): string {
  return `${right.verb} ${right.resource}${right.namespace ? ` in ${right.namespace}` : ''}`;
}

/** Rejected nodes by reason. A PreFilter plugin rejects all nodes at once. */
function Rejections({ answer }: { answer: PodExplanation }) {
  const all = answer.preFilters.map((verdict, i) => ({
    key: `prefilter-${i}`,
    cells: [number(answer.nodes.total), verdict.plugin, verdict.reasons.join('; '), 'every node'],
  }));
  const groups = answer.rejections.map((group, i) => ({
    key: String(i),
    cells: [
      number(group.count),
      group.plugin,
      group.reasons.map((reason: any) => reason.text).join('; '),
      <>
        {group.nodes.map((node: any, j: number) => (
          <span key={node.node}>
            {j > 0 && ', '}
            <NodeLink name={node.node} />
            {free(node)}
          </span>
        ))}
        {group.nodesOmitted > 0 && ` … and ${number(group.nodesOmitted)} more`}
      </>,
    ],
  }));
  if (!all.length && !groups.length) return null;
  return (
    <>
      <Heading>Rejected nodes</Heading>
      <DataTable
        label="Rejected nodes by reason"
        columns={[
          { title: 'Nodes', isNumber: true },
          { title: 'Filter' },
          { title: 'Reason', minWidth: 180 },
          { title: 'Closest to fitting first', minWidth: 200 },
        ]}
        rows={[...all, ...groups]}
      />
    </>
  );
}

/** How much a node has free of what it has too little of: ` (12450m free)`. */
function free(node: Record<string, any>): string {
  const amounts = node.reasons
    .map((reason: any) => /free (\S+)/.exec(reason.text)?.[1])
    .filter(Boolean);
  return amounts.length ? ` (${amounts.join(', ')} free)` : '';
}

/** Every node with its rank, its total, what rejected it, and the points of each score plugin. */
function Nodes({ answer }: { answer: PodExplanation }) {
  const { columns, outcome } = answer;
  const [shown, setShown] = useState<Shown>('all');
  const [text, setText] = useState('');
  const [page, setPage] = useState(0);
  const [perPage, setPerPage] = useState(ROWS[0]);
  const all = useMemo(
    () => (columns?.nodes ? rows(columns, outcome.node) : []),
    [columns, outcome.node]
  );
  if (!all.length) return null;
  const plugins = scorePlugins(columns);
  const found = select(all, shown, text);
  const first = Math.min(page, Math.max(0, Math.ceil(found.length / perPage) - 1)) * perPage;
  return (
    <>
      <Heading>Nodes</Heading>
      <Box sx={{ display: 'flex', flexWrap: 'wrap', gap: 2, my: 1 }}>
        <TextField
          select
          size="small"
          label="Show"
          value={shown}
          onChange={event => setShown(event.target.value as Shown)}
          sx={{ minWidth: 140 }}
        >
          <MenuItem value="all">all nodes</MenuItem>
          <MenuItem value="feasible">feasible</MenuItem>
          <MenuItem value="rejected">rejected</MenuItem>
        </TextField>
        <TextField
          size="small"
          label="Node"
          type="search"
          value={text}
          onChange={event => setText(event.target.value)}
        />
      </Box>
      <DataTable
        label="Nodes with filter results and scores"
        columns={[
          { title: 'Node' },
          { title: 'Rank', isNumber: true },
          { title: 'Total', isNumber: true },
          { title: 'Filter' },
          ...plugins.map(title => ({ title, isNumber: true })),
        ]}
        rows={found.slice(first, first + perPage).map(row => ({
          key: row.node,
          isMarked: row.isChosen,
          cells: [
            <NodeName key="node" row={row} />,
            number(row.rank),
            number(row.total),
            <Verdict key="verdict" row={row} />,
            ...plugins.map(plugin => number(row.points[plugin])),
          ],
        }))}
      />
      <TablePagination
        component="div"
        count={found.length}
        page={first / perPage}
        rowsPerPage={perPage}
        rowsPerPageOptions={ROWS}
        onPageChange={(_, next) => setPage(next)}
        onRowsPerPageChange={event => {
          setPerPage(Number(event.target.value));
          setPage(0);
        }}
        sx={{ '.MuiTablePagination-toolbar': { flexWrap: 'wrap', pl: 0 } }}
      />
      <Typography variant="body2" color="text.secondary">
        Points are normalized scores times the weight of the plugin.{' '}
        {count(answer.nodes.evaluated, 'node')} of {number(answer.nodes.total)} evaluated.
      </Typography>
    </>
  );
}

function NodeName({ row }: { row: Row }) {
  return (
    <Box sx={{ whiteSpace: 'nowrap' }}>
      <NodeLink name={row.node} />
      {row.isChosen && ' (chosen)'}
    </Box>
  );
}

function Verdict({ row }: { row: Row }) {
  if (row.notEvaluated) return <>not evaluated ({row.notEvaluated})</>;
  if (!row.rejections.length) return <>passed</>;
  const [first, ...others] = row.rejections;
  const also = others.map(by => `${by.plugin}: ${by.reasons.join('; ')}`).join('\n');
  return (
    <Box sx={{ minWidth: 220 }}>
      <b>{first.plugin}</b>: {first.reasons.join('; ')}
      {others.length > 0 && (
        <Tooltip title={<span style={{ whiteSpace: 'pre-line' }}>{also}</span>}>
          <Typography variant="body2" color="text.secondary" tabIndex={0}>
            also rejected by {others.map(by => by.plugin).join(', ')}
          </Typography>
        </Tooltip>
      )}
    </Box>
  );
}

function Heading({ children }: { children: string }) {
  return (
    <Typography variant="h6" component="h3" sx={{ mt: 2, fontSize: '1rem' }}>
      {children}
    </Typography>
  );
}
