"""Documents with facts that only the service knows: the position of an attempt, lost results, and lists.

Owns: the facts added to an answer (attempts, lost results) and the list of incarnations. Does not own: `PodExplanation`
and `Decision` (`herodotus_record`), HTTP. Pure.

Invariant: added facts come from the store. A result counts as lost only if a later incarnation took over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from herodotus_answers.decision import DecisionDocument, build_decision_document
from herodotus_answers.explain import derive_state
from herodotus_answers.node_columns import build_node_columns
from herodotus_answers.node_groups import PodNodeGroups
from herodotus_answers.pod import PodExplanation, build_pod_explanation
from herodotus_answers.service import IncarnationDocument, IncarnationList
from herodotus_endpoint.store import IncarnationStatus, StoredAttempt
from herodotus_record.model import API_VERSION
from herodotus_record.typed_decoding import convert
from herodotus_record.units import format_timestamp

LOST_MESSAGE: Final = "result not recorded: the scheduler was restarted"
LOST_CLAUSE: Final = "its result was not recorded: the scheduler was restarted"  # for use within a sentence


def build_explanation(
    stored: StoredAttempt, *, every_node: bool = False, columns: bool = False, node: str = ""
) -> PodExplanation:
    """Return the PodExplanation document of a stored attempt.

    It includes what only the store knows: the attempt's position among the pod's attempts, the origins of a merged
    record, and whether the result was lost. `every_node` adds every node as an object, `columns` adds all nodes as
    arrays, and `node` limits details to one node. Raises KeyError if `node` was not in the cluster.
    """
    answer = build_pod_explanation(stored.decision, stored.outcomes, stored.table, every_node=every_node, node=node)
    if "nodeGroups" in answer and not _is_valid(answer["nodeGroups"]):
        del answer["nodeGroups"]
    answer["attempt"] |= {
        "ordinal": stored.ordinal,
        "lastOrdinal": stored.last_ordinal,
        "attempts": stored.attempts,
        "failedBefore": stored.failed_before,
    }
    if stored.origins is not None:
        answer |= {"origins": stored.origins.to_document(), "reconstruction": stored.origins.reconstruction}
    if stored.archived:
        answer["archive"] = {"day": stored.archived}
    if columns:
        answer["columns"] = build_node_columns(stored.decision, stored.table)
    if _is_result_lost(stored):
        answer["outcome"] |= {"lost": True, "message": LOST_MESSAGE}
        answer["headline"] = _add_lost(answer["headline"])
        answer["summary"] = _add_lost(answer["summary"])
    return answer


def _is_valid(groups: PodNodeGroups) -> bool:
    """Return whether verdicts of node groups, which the service stores unchecked, match the schema of an answer."""
    try:
        convert(groups, PodNodeGroups)
    except msgspec.ValidationError:
        return False
    return True


def _add_lost(sentence: str) -> str:
    return f"{sentence.removesuffix('.')} ({LOST_CLAUSE})."


def build_record(stored: StoredAttempt) -> DecisionDocument:
    """Return the Decision document of a stored attempt, with all nodes.

    It includes what only the store knows: the origins of a merged record, and whether the result was lost.
    """
    document = build_decision_document(stored.decision, stored.outcomes, stored.table)
    if stored.origins is not None:
        document["spec"] |= {"origins": stored.origins.to_document(), "reconstruction": stored.origins.reconstruction}
    if stored.archived:
        document["spec"]["archive"] = {"day": stored.archived}
    if _is_result_lost(stored):
        document["status"] |= {"lost": True}
    return document


def _is_result_lost(stored: StoredAttempt) -> bool:
    return stored.replaced and derive_state(stored.decision, stored.outcomes) == "Binding"


def build_incarnations(incarnations: Sequence[IncarnationStatus]) -> IncarnationList:
    """Return the list of scheduler processes (incarnations), with the gaps in their sequence numbers."""
    return {
        "apiVersion": API_VERSION,
        "kind": "IncarnationList",
        "metadata": {},
        "items": [_build_incarnation(i) for i in incarnations],
    }


def _build_incarnation(i: IncarnationStatus) -> IncarnationDocument:
    return {
        "apiVersion": API_VERSION,
        "kind": "Incarnation",
        "metadata": {"name": i.incarnation, "creationTimestamp": format_timestamp(i.first_us)},
        "cluster": i.cluster or None,
        "identity": i.identity or None,
        "profiles": list(i.profiles),
        "lastSeenAt": format_timestamp(i.last_us),
        "nodeTableGeneration": i.rows_generation if i.rows_generation >= 0 else None,
        "highestSequence": i.highest if i.highest >= 0 else None,
        "missing": i.missing,
        "explainedByGaps": i.explained,
        "missingRanges": [{"first": h.first, "last": h.last, "explained": h.explained} for h in i.holes],
        "missingRangesOmitted": i.holes_omitted,
    }
