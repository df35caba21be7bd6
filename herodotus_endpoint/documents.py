"""Documents that the endpoint makes up itself: what it knows of a decision beyond the record, and lists.

Owns: the facts that it adds to an answer (attempts, lost results), the list of incarnations. Does not own:
`PodExplanation` and `Decision` (`herodotus_record`), HTTP. Pure.

Invariant: what is added is told from the store, never guessed: a result is called lost only where a later incarnation
took over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from herodotus_endpoint.store import KnownIncarnation, Stored
from herodotus_record.answers import pod_explanation
from herodotus_record.columns import node_columns
from herodotus_record.document import decision_document
from herodotus_record.explain import Json, state
from herodotus_record.model import API_VERSION
from herodotus_record.units import timestamp

LOST: Final = "result not recorded: the scheduler was restarted"
ITS_LOST: Final = "its result was not recorded: the scheduler was restarted"  # within a sentence
SENTENCES: Final = ("headline", "summary")  # those that say where the pod is; each can be shown without the outcome


def explanation(stored: Stored, *, every_node: bool = False, columns: bool = False, node: str = "") -> Json:
    """The answer document with the endpoint's facts. KeyError when `node` was not in the cluster.

    `columns`: with all nodes, as columns.
    """
    answer = pod_explanation(stored.decision, stored.outcomes, stored.table, every_node=every_node, node=node)
    answer["attempt"] |= {
        "ordinal": stored.ordinal,
        "attempts": stored.attempts,
        "failedBefore": stored.failed_before,
    }
    if stored.origins is not None:
        answer |= {"origins": stored.origins.document(), "reconstruction": stored.origins.compared}
    if columns:
        answer["columns"] = node_columns(stored.decision, stored.table)
    if _lost(stored):
        answer["outcome"] |= {"lost": True, "message": LOST}
        answer |= {sentence: f"{answer[sentence].removesuffix('.')} ({ITS_LOST})." for sentence in SENTENCES}
    return answer


def record(stored: Stored) -> Json:
    """The whole record."""
    document = decision_document(stored.decision, stored.outcomes, stored.table)
    if stored.origins is not None:
        document["spec"] |= {"origins": stored.origins.document(), "reconstruction": stored.origins.compared}
    if _lost(stored):
        document["status"] |= {"lost": True}
    return document


def listing(kind: str, items: list[Json]) -> Json:
    """A list that is whole."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {}, "items": items}


def _lost(stored: Stored) -> bool:
    return stored.replaced and state(stored.decision, stored.outcomes) == "Binding"


def incarnations(known: Sequence[KnownIncarnation]) -> list[Json]:
    """The scheduler processes heard of, newest first."""
    return [
        {
            "metadata": {"name": i.incarnation, "creationTimestamp": timestamp(i.first_us)},
            "cluster": i.cluster or None,
            "identity": i.identity or None,
            "profiles": list(i.profiles),
            "lastSeenAt": timestamp(i.last_us),
            "nodeTableGeneration": i.rows_generation if i.rows_generation >= 0 else None,
            "highestSequence": i.highest if i.highest >= 0 else None,
            "missing": i.missing,
            "explainedByGaps": i.explained,
            "holes": [{"first": h.first, "last": h.last, "explained": h.explained} for h in i.holes],
            "holesOmitted": i.holes_omitted,
        }
        for i in known
    ]
