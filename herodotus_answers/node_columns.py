"""Build the columns of all nodes of one decision, from which a table of nodes × plugins is drawn.

Owns: this column format. Does not own: sentences about one node (`node_results`, `headlines`). Pure.

One JSON object for each node would take about 600 bytes and repeat every plugin name. Columns take a tenth of that, and
a reader formats only the rows on the screen.

Invariant: a column has one entry for each node in the order of `nodes`, or no entries if it has no meaning. Values that
the record does not know are null.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from herodotus_answers.decision import set_unknown_to_null
from herodotus_record import reasons
from herodotus_record.kubernetes_version import KubernetesVersion, find_wording_version
from herodotus_record.model import Column, Decision, Evaluation, FilterColumn, NodeTable, Verdict
from herodotus_record.units import natural_sort_key


class VerdictInColumn(TypedDict):
    """One of the verdicts of a filter, which several nodes may share."""

    code: Annotated[str, "Status code of the verdict."]
    against: Annotated[bool, "Whether it rejects the node."]
    reasons: Annotated[list[str], "kube-scheduler's sentences."]


class FilterVerdictColumn(TypedDict):
    """Verdicts of one filter on all nodes."""

    plugin: Annotated[str, "The filter."]
    skipped: Annotated[bool, "Whether it had nothing to check."]
    verdicts: Annotated[list[VerdictInColumn], "Distinct verdicts of the filter."]
    ids: Annotated[list[int], "Index of each node's verdict in `verdicts`."]


class PluginScoreColumn(TypedDict):
    """Scores of one plugin for all nodes."""

    plugin: Annotated[str, "The score plugin."]
    weight: Annotated[int, "Its weight."]
    skipped: Annotated[bool, "Whether it had nothing to score."]
    raw: Annotated[list[int] | None, "Score of each node before normalization; null if it is not recorded."]
    normalized: Annotated[list[int], "Score of each node from 0 to 100."]


class NodeColumns(TypedDict):
    """All nodes of a decision as columns: lists with one entry for each node."""

    nodes: Annotated[list[str], "Names of the nodes in natural order."]
    evaluations: Annotated[list[str], "Labels of the kinds of evaluation."]
    evaluation: Annotated[list[int], "Index of each node's evaluation in `evaluations`."]
    filters: Annotated[list[FilterVerdictColumn], "Filters, in the order in which they ran."]
    scores: Annotated[list[PluginScoreColumn], "Score plugins."]
    totals: Annotated[list[int], "Total of each node."]
    rank: Annotated[list[int], "Rank of each node; 0 if it is infeasible."]


def build_node_columns(decision: Decision, table: NodeTable) -> NodeColumns:
    """Return a decision as parallel lists with one entry for each node, from which a client draws a table of nodes.

    Nodes are in the natural order of their names. `evaluation` holds indices into `evaluations`, and each filter's
    `ids` indices into its `verdicts`. A filter's entry for a node that was not evaluated has no meaning, nor have
    scores and totals of an infeasible node (rank 0).
    """
    present = [slot for slot, e in enumerate(decision.evaluation) if e != Evaluation.ABSENT]
    slots = sorted(present, key=lambda slot: natural_sort_key(table.names[slot]))

    def at_nodes(column: Column) -> list[int]:
        return [column[slot] for slot in slots] if len(column) else []

    version = find_wording_version(decision.scheduler.rules)
    columns: NodeColumns = {
        "nodes": [table.names[slot] for slot in slots],
        "evaluations": [e.label for e in Evaluation],
        "evaluation": at_nodes(decision.evaluation),
        "filters": [_filter(f, at_nodes(f.ids), version) for f in decision.filters],
        "scores": [
            {
                "plugin": s.plugin,
                "weight": s.weight,
                "skipped": s.skipped,
                "raw": at_nodes(s.raw),
                "normalized": at_nodes(s.normalized),
            }
            for s in decision.scores
        ],
        "totals": at_nodes(decision.totals),
        "rank": at_nodes(decision.rank),
    }
    set_unknown_to_null(columns, decision.unknown)
    return columns


def _filter(f: FilterColumn, ids: list[int], version: KubernetesVersion) -> FilterVerdictColumn:
    return {
        "plugin": f.plugin,
        "skipped": f.skipped,
        "verdicts": [_verdict(v, version) for v in f.verdicts],
        "ids": ids,
    }


def _verdict(v: Verdict, version: KubernetesVersion) -> VerdictInColumn:
    sentences = [reasons.format_reason(reason, version) for reason in v.reasons]
    return {"code": v.code.label, "against": v.rejects_node, "reasons": sentences}
