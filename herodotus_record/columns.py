"""All nodes of one decision as columns: what a table of nodes × plugins is drawn from.

Owns: that form. Does not own: a node told in words (`one_node`, `answers`). Pure.

An answer with each node on its own takes some 600 bytes a node and plugin name after plugin name; columns take a tenth
of that, and a reader draws only the rows that are looked at.

Invariant: every column has one entry a node, in the order of `nodes`, or none where it says nothing; what the record
does not know is null.
"""

from __future__ import annotations

from typing import Any

from herodotus_record import reasons
from herodotus_record.document import blank
from herodotus_record.model import Column, Decision, Evaluation, FilterColumn, NodeTable, Verdict
from herodotus_record.units import natural_key

Json = dict[str, Any]


def node_columns(decision: Decision, table: NodeTable) -> Json:
    """The columns of a decision. `evaluation` and a filter's `ids` are positions in `evaluations` and `verdicts`.

    Of a node that was not evaluated, a filter's entry means nothing; of one that is not feasible (rank 0), scores and
    totals mean nothing.
    """
    present = [slot for slot, e in enumerate(decision.evaluation) if e != Evaluation.ABSENT]
    slots = sorted(present, key=lambda slot: natural_key(table.names[slot]))

    def of(column: Column) -> list[int]:
        return [column[slot] for slot in slots] if len(column) else []

    columns: Json = {
        "nodes": [table.names[slot] for slot in slots],
        "evaluations": [e.label for e in Evaluation],
        "evaluation": of(decision.evaluation),
        "filters": [_filter(f, of(f.ids)) for f in decision.filters],
        "scores": [
            {
                "plugin": s.plugin,
                "weight": s.weight,
                "skipped": s.skipped,
                "raw": of(s.raw),
                "normalized": of(s.normalized),
            }
            for s in decision.scores
        ],
        "totals": of(decision.totals),
        "rank": of(decision.rank),
    }
    blank(columns, decision.unknown)
    return columns


def _filter(f: FilterColumn, ids: list[int]) -> Json:
    return {"plugin": f.plugin, "skipped": f.skipped, "verdicts": [_verdict(v) for v in f.verdicts], "ids": ids}


def _verdict(v: Verdict) -> Json:
    return {"code": v.code.label, "against": v.against, "reasons": [reasons.sentence(r) for r in v.reasons]}
