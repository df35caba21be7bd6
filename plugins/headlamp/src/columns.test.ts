// The table of nodes, with recorded decisions.

import { rows, scorePlugins, select } from './columns';
import pending from './fixtures/pod-pending.json';
import placed from './fixtures/pod-placed.json';

describe('the table of a placed pod', () => {
  const found = rows(placed.columns, placed.outcome.node);

  it('has each node once, feasible nodes by rank first', () => {
    expect(new Set(found.map(row => row.node))).toEqual(new Set(placed.columns.nodes));
    const ranks = found.map(row => row.rank);
    const { feasible } = placed.nodes;
    expect(ranks.slice(0, feasible)).toEqual([...Array(feasible).keys()].map(i => i + 1));
    expect(ranks.slice(feasible).every(rank => rank === null)).toBe(true);
    expect(found.filter(row => row.isChosen).map(row => row.node)).toEqual([placed.outcome.node]);
  });

  it('has the points and totals of the ranking', () => {
    for (const ranked of placed.ranking) {
      const row = found.find(one => one.node === ranked.node);
      expect(row.total).toBe(ranked.total);
      const points = Object.values(row.points).reduce((sum, n) => sum + n, 0);
      expect(points).toBe(ranked.total);
      for (const [plugin, score] of Object.entries(ranked.scores)) {
        expect(row.points[plugin]).toBe(score.weighted);
      }
    }
    expect(scorePlugins(placed.columns)).toEqual(Object.keys(placed.ranking[0].scores));
  });

  it('has the filters that rejected each node', () => {
    for (const told of placed.perNode) {
      const row = found.find(one => one.node === told.node);
      expect(row.rejections.map(by => by.plugin)).toEqual(
        told.rejectedBy.map((by: { plugin: string }) => by.plugin)
      );
    }
  });
});

describe('a choice of rows', () => {
  const found = rows(pending.columns, null);

  it('of a pod that fits nowhere has no feasible nodes', () => {
    expect(select(found, 'feasible', '')).toEqual([]);
    expect(select(found, 'rejected', '')).toHaveLength(pending.nodes.evaluated);
  });

  it('has the nodes whose name contains the text', () => {
    const names = select(found, 'all', ' WORKER-1').map(row => row.node);
    expect(new Set(names)).toEqual(new Set(['worker-1', 'worker-10', 'worker-11', 'worker-12']));
  });

  it('keeps nodes that were not evaluated, without a verdict', () => {
    const { evaluation, evaluations } = pending.columns;
    const other = evaluations.findIndex(name => name !== 'evaluated');
    const columns = { ...pending.columns, evaluation: [other, ...evaluation.slice(1)] };
    const row = rows(columns, null).at(-1);
    expect(row).toMatchObject({ node: columns.nodes[0], rejections: [] });
    expect(row.notEvaluated).toBe(evaluations[other]);
  });
});
