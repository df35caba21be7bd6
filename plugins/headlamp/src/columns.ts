// One decision's columns: a row for each node, with its verdict and points. Owns: which rows, in which order.

const PASSED = 'Success';
const SKIP = 'Skip';

/** A plugin's rejection of a node. */
export interface Rejection {
  plugin: string;
  reasons: string[];
}

export interface Row {
  node: string;
  isChosen: boolean;
  /** Null if the node is not feasible. */
  rank: number | null;
  total: number | null;
  /** Points by score plugin: the normalized score times the weight. Empty if the node is not feasible. */
  points: Record<string, number>;
  rejections: Rejection[];
  /** Why no filter evaluated the node; empty if filters did. */
  notEvaluated: string;
}

/** Which rows to show. */
export type Shown = 'all' | 'feasible' | 'rejected';

/** Return the names of the score plugins that gave points. */
export function scorePlugins(columns: Record<string, any>): string[] {
  return scores(columns).map(score => score.plugin);
}

/** Return a row for each node: feasible nodes by rank, then rejected nodes by the number of rejections. */
export function rows(columns: Record<string, any>, chosen: string | null): Row[] {
  const filters = (columns.filters ?? []).filter((filter: any) => !filter.skipped);
  const scored = scores(columns);
  const found = columns.nodes.map((node: string, i: number): Row => {
    const evaluation = columns.evaluations[columns.evaluation[i]];
    const isEvaluated = evaluation === 'evaluated';
    const rank = columns.rank?.[i] || null;
    return {
      node,
      isChosen: node === chosen,
      rank,
      total: rank && columns.totals?.length ? columns.totals[i] : null,
      points: Object.fromEntries(
        rank ? scored.map((s: any) => [s.plugin, s.normalized[i] * (s.weight ?? 1)]) : []
      ),
      rejections: isEvaluated ? rejectionsOf(filters, i) : [],
      notEvaluated: isEvaluated ? '' : evaluation,
    };
  });
  return found.sort(
    (a: Row, b: Row) => place(a) - place(b) || a.node.localeCompare(b.node, 'en', { numeric: true })
  );
}

/** Return the rows of a choice whose node's name contains a text. */
export function select(all: Row[], shown: Shown, text: string): Row[] {
  const wanted = text.trim().toLowerCase();
  return all.filter(
    row =>
      (shown !== 'feasible' || row.rank) &&
      (shown !== 'rejected' || row.rejections.length) &&
      row.node.toLowerCase().includes(wanted)
  );
}

function scores(columns: Record<string, any>): any[] {
  return (columns.scores ?? []).filter((s: any) => !s.skipped && s.normalized?.length);
}

function rejectionsOf(filters: any[], node: number): Rejection[] {
  return filters.flatMap(filter => {
    const verdict = filter.verdicts[filter.ids?.[node] ?? 0];
    const isRejected = verdict.against && ![PASSED, SKIP].includes(verdict.code);
    return isRejected
      ? [
          {
            plugin: filter.plugin,
            reasons: verdict.reasons.length ? verdict.reasons : [verdict.code],
          },
        ]
      : [];
  });
}

function place(row: Row): number {
  if (row.rank) return row.rank;
  const last = Number.MAX_SAFE_INTEGER;
  return row.notEvaluated ? last : last - 1000 + row.rejections.length;
}
