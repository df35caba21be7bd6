"""The answer document `PlacementReview`: where pods would go that nobody creates, and what stops the next one.

Owns: the document's shape, its headline. Does not own: what is told of one pod (`answers`), who decides. Pure.

Invariant: pods are told in the order in which they were placed, each as if those before it were there already; what is
told of the one that does not fit is what its attempt would say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from herodotus_record.answers import pod_explanation
from herodotus_record.model import API_VERSION, Decision, Frame, NodeRows, NodeTable, Outcome
from herodotus_record.one_node import count
from herodotus_record.placements import why
from herodotus_record.units import natural_key

Json = dict[str, Any]

MAX_REPLICAS: Final = 100  # each is a whole cycle: at 5,000 nodes together a second or two
REVIEWED: Final = "Review"  # the phase that ends the decision about a pod that was placed
NOTHING_CREATED: Final = "reviewed: nothing is created"
_NAMED: Final = 5  # nodes that the headline names


@dataclass(frozen=True)
class Reviewed:
    """One pod's attempt. `table`: as of the decision; it is read before the next one."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable


def reviewed(frames: Iterable[Frame]) -> Iterable[Reviewed]:
    """The attempts of a review as they were written down: node rows, decision, outcome of one after the other.

    ValueError where they do not make up attempts.
    """
    table, decision = NodeTable(), None
    for frame in frames:
        if isinstance(frame, Outcome) and decision is not None:
            yield Reviewed(decision, (frame,), table)
            decision = None
        elif decision is not None:
            raise ValueError("an attempt without its outcome")
        elif isinstance(frame, NodeRows):
            table.apply(frame)
        elif isinstance(frame, Decision) and frame.generation <= table.generation:
            decision = frame
            if frame.chosen is None:
                yield Reviewed(frame, (), table)
                decision = None
        else:
            raise ValueError(f"a {type(frame).__name__} where an attempt is expected")
    if decision is not None:
        raise ValueError("an attempt without its outcome")


def placement_review(
    attempts: Iterable[Reviewed], *, name: str, kind: str, asked: int, every_node: bool = False, node: str = ""
) -> Json:
    """The document. `asked`: for how many pods of the `kind` called `name`. KeyError where `node` is not there.

    `every_node` and `node`: of what is told of one pod, as in `pod_explanation`. ValueError without any attempt.
    """
    pods: list[Json] = []
    first = stopped = None
    decision = None
    for attempt in attempts:
        decision, table = attempt.decision, attempt.table
        placed = decision.chosen is not None
        if first is None or not placed:
            told = pod_explanation(decision, attempt.outcomes, table, every_node=every_node, node=node)
            first, stopped = first or told, None if placed else told
        if placed:
            pods.append(_placed(decision, table))
    if first is None or decision is None:
        raise ValueError("a review needs an attempt")
    on = Counter(str(pod["node"]) for pod in pods)
    return {
        "apiVersion": API_VERSION,
        "kind": "PlacementReview",
        "metadata": {"namespace": decision.pod.namespace, "name": name},
        "spec": {"kind": kind, "replicas": asked, "schedulerName": decision.scheduler.profile},
        "status": {
            "headline": _headline(asked, pods, on, first, stopped),
            "fits": len(pods),
            "nodes": [{"node": n, "pods": on[n]} for n in sorted(on, key=lambda n: (-on[n], natural_key(n)))],
            "pods": pods,
            "first": first,
            "stopped": stopped,
        },
    }


def _placed(decision: Decision, table: NodeTable) -> Json:
    reason = why(decision)
    assert decision.chosen is not None
    return {
        "pod": decision.pod.name,
        "node": table.names[decision.chosen],
        "decidedBy": reason.by,
        "points": reason.points,
        "feasible": decision.nodes_feasible,
    }


def _headline(asked: int, pods: Sequence[Json], on: Counter[str], first: Json, stopped: Json | None) -> str:
    if asked == 1:
        return str(first["headline"])
    where = ", ".join(f"{node} ({n})" for node, n in on.most_common(_NAMED))
    more = f" and {len(on) - _NAMED} more" if len(on) > _NAMED else ""
    spread = f", on {where}{more}" if on else ""
    if stopped is None:
        return f"All {asked} pods fit{spread}."
    if not pods:
        return f"None of {count(asked, 'pod')} fits. {stopped['headline']}"
    return f"{len(pods)} of {asked} pods fit{spread}. Number {len(pods) + 1} does not: {stopped['headline']}"
