"""Build the whole record as JSON with `apiVersion` and `kind`, as `-o json --full` prints it and exports hold it.

Owns: the document's shape. Does not own: answers to questions (the other modules), which are small and derived.

Invariant: the document holds everything in the frame. Columns become objects by node name, slots without a node are
omitted, and values that the record does not know are null.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, Literal, TypedDict

from herodotus_answers import suggestions
from herodotus_answers.declare import Document, NotRequired, Page
from herodotus_answers.explain import count_first_rejections, derive_state
from herodotus_answers.pruned import build_pruned
from herodotus_record import notes, reasons
from herodotus_record.fields import list_declarations
from herodotus_record.kubernetes_version import find_wording_version
from herodotus_record.model import (
    API_VERSION,
    NOT_RUN,
    Column,
    Decision,
    Evaluation,
    FilterColumn,
    Inputs,
    NodeTable,
    Outcome,
    PluginVerdict,
    SchedulerInfo,
    ScoreColumn,
    Suggestion,
    Verdict,
)
from herodotus_record.units import format_timestamp

Json = dict[str, Any]


class RequeueEvent(TypedDict):
    """The cluster event that requeued the pod before this attempt."""

    event: Annotated[str, "Name of the event, such as Node/Add."]
    plugin: Annotated[str | None, "Plugin that registered for the event; null if none did."]


class Retry(TypedDict):
    """When a rejected pod is tried again."""

    queue: Annotated[str, "Queue of the scheduler in which the pod waits."]
    notBefore: Annotated[str, "Time before which it is not tried again."]
    latest: Annotated[
        str | None, "Time at which it is tried even if nothing changes; null if it waits only for its backoff."
    ]


class GroupCycle(TypedDict):
    """The cycle of the pod's group in which the pod was decided."""

    number: Annotated[int, "Number of the cycle among all group cycles of the scheduler process."]
    position: Annotated[int, "Position of the pod in the cycle, from 1."]
    pods: Annotated[int, "Number of pods that the cycle had to decide."]
    scheduled: Annotated[int, "Number of pods of the group that were on a node before the cycle."]
    minCount: Annotated[int, "Number of pods that the group needs at least; 0 without the gang policy."]


class Repeats(TypedDict):
    """Later attempts that equal this one and have no record of their own."""

    count: Annotated[int, "Number of these attempts."]
    firstAt: Annotated[str, "Start of the first of them."]
    lastAt: Annotated[str, "Start of the last of them."]


class Reconstruction(TypedDict):
    """How a reconstruction compares with the other scheduler's outcome."""

    agreement: Annotated[str, "Whether the outcome agrees: agree, agree-in-window, disagree or unknown."]
    cause: Annotated[str | None, "Why the outcome does not agree; null if it does."]
    bindingsInFlight: Annotated[
        int,
        "Number of bindings near the outcome: negative for earlier ones that the snapshot omits, positive for later"
        " ones that it includes.",
    ]
    deletionsInFlight: Annotated[int, "Number of pod deletions near the outcome, counted like `bindingsInFlight`."]


OriginOfPart = TypedDict(
    "OriginOfPart",
    {
        "part": Annotated[str, "Path of the part in the answer."],
        "text": Annotated[str, "The part in words."],
        "from": Annotated[list[str], "Sources of the part: logged, or both if each provides values."],
        "overruled": Annotated[int, "Number of values in which the reconstruction differs from the log."],
    },
)


class Origins(TypedDict):
    """Origin of each part if a log record and a reconstruction of one attempt are merged; otherwise absent."""

    records: Annotated[dict[str, str], "ID of each merged record, by source."]
    parts: Annotated[list[OriginOfPart], "Parts with values from the log."]
    rest: Annotated[str, "Source of all other parts."]
    evaluation: Annotated[str, "Headline of the reconstruction alone."]


class Archive(TypedDict):
    """Where the decision comes from, if it is in the archive and not in the database any more."""

    day: Annotated[str, "UTC day in which the service stored it."]


class AddedSpec(TypedDict):
    """Fields of the spec that follow from other fields or from the store."""

    ties: Annotated[list[str], "Nodes that shared the best total; empty if one node alone had it."]
    origins: NotRequired[Origins]
    archive: NotRequired[Archive]


class AddedStatus(TypedDict):
    """Fields of the status that follow from other fields or from the store."""

    state: Annotated[str, "State of the attempt: Bound, Binding, DryRun, Failed, Unschedulable or Error."]
    lost: NotRequired[Annotated[bool, "Whether the result was not recorded because the scheduler was restarted."]]


class AddedToReason(TypedDict):
    """Fields that the document of a reason has beside those of the record."""

    sentence: Annotated[str, "kube-scheduler's sentence for the reason."]


class AddedToFilter(TypedDict):
    """Fields that the document of a filter has beside those of the record."""

    notRun: Annotated[list[str], "Nodes on which the filter did not run because an earlier filter had rejected them."]


class VerdictCounts(TypedDict):
    """Numbers of nodes with one verdict of a filter, in a pruned record."""

    nodes: Annotated[int, "Number of nodes with the verdict."]
    first: Annotated[int, "Number of these nodes that no earlier filter had rejected."]


class DecisionDocument(Document):
    """One attempt to schedule one pod."""

    kind: Literal["Decision"]
    spec: dict[str, Any]
    status: dict[str, Any]


class DecisionList(Page):
    """A page of items of kind Decision."""

    kind: Literal["DecisionList"]
    items: Annotated[list[DecisionDocument], "Items of this page."]


def build_decision_document(decision: Decision, outcomes: Sequence[Outcome], table: NodeTable) -> DecisionDocument:
    """Return the whole record of a decision and its outcomes as a JSON document of kind Decision.

    `table` is the node table at the decision's generation.
    """
    document = build_part(decision, without=_OTHER_SHAPES)
    spec, status = document["spec"], document["status"]
    nodes = {slot: table.names[slot] for slot, e in enumerate(decision.evaluation) if e != Evaluation.ABSENT}
    evaluated = {slot: name for slot, name in nodes.items() if decision.evaluation[slot] == Evaluation.EVALUATED}
    spec |= {
        "preFilters": [_plugin_verdict(v, decision.scheduler) for v in decision.pre_filters],
        "evaluation": {name: Evaluation(decision.evaluation[slot]).label for slot, name in nodes.items()},
        "filters": [_filter(f, evaluated, decision.scheduler) for f in decision.filters],
        "scores": [_score(s, decision.rank, nodes) for s in decision.scores],
        "inputs": [_inputs(inputs, evaluated) for inputs in decision.inputs],
        "totals": _by_node(decision.totals, decision.rank, nodes),
        "rank": _by_node(decision.rank, decision.rank, nodes),
        "ties": [table.names[slot] for slot in decision.ties],
        "postFilters": [_plugin_verdict(v, decision.scheduler) for v in decision.post_filters],
        "notes": notes.format_decision_notes(decision),
        "suggestions": [_suggestion(s) for s in decision.suggestions],
        "pruned": _pruned(decision),
    }
    status |= {
        "state": derive_state(decision, outcomes),
        "node": None if decision.chosen is None else table.names[decision.chosen],
        "outcomes": [
            build_part(o) | {"message": notes.format_outcome_message(o), "nodeGroups": read_node_groups(o)}
            for o in outcomes
        ],
    }
    set_unknown_to_null(spec, decision.unknown)
    return {
        "apiVersion": API_VERSION,
        "kind": "Decision",
        "metadata": {
            "name": decision.id,
            "namespace": decision.pod.namespace,
            "creationTimestamp": format_timestamp(decision.times.started_us),
        },
        "spec": spec,
        "status": status,
    }


# Fields of a decision whose document has another shape than the record.
_OTHER_SHAPES: Final = (
    *("pre_filters", "post_filters", "chosen", "evaluation", "filters", "scores", "inputs", "totals", "rank"),
    *("summary", "notes", "suggestions"),
)


def build_part(part: Any, without: Collection[str] = ()) -> Any:
    """Return a part of a record as JSON, by the declarations of its fields, or None for a part that is None.

    The names of fields in `without` are left out. Times, which end with `_us`, become text.
    """
    if part is None:
        return None
    document: Json = {}
    kind: Any = type(part)
    for name, declared in _list_declarations(kind).items():
        if declared.path and name not in without:
            *parents, last = declared.path.split(".")
            holder = document
            for parent in parents:
                holder = holder.setdefault(parent, {})
            value = getattr(part, name)
            shown = format_timestamp(value) if name.endswith("_us") and value is not None else _build_value(value)
            holder[last] = None if declared.null_if_empty and not shown else shown
    return document


_list_declarations = cache(list_declarations)


def _build_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_build_value(each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Enum):
        return getattr(value, "label", value.value)
    return build_part(value) if is_dataclass(value) else value


def build_repeats(outcomes: Sequence[Outcome]) -> Repeats | None:
    """Return how many later attempts equal the one with these outcomes, and when the first and the last started.

    Return None if there was none. Such attempts have no record of their own.
    """
    recorded = [o for o in outcomes if o.repeats]
    if not recorded:
        return None
    return {
        "count": count_repeats(recorded),
        "firstAt": format_timestamp(min(o.at_us - round(o.duration_s * 1e6) for o in recorded)),
        "lastAt": format_timestamp(max(o.at_us for o in recorded)),
    }


def count_repeats(outcomes: Sequence[Outcome]) -> int:
    """Return how many later attempts are only counted, on the decision with these outcomes."""
    return sum(o.repeats for o in outcomes)


def read_node_groups(outcome: Outcome) -> Json | None:
    """Return the verdicts of node groups that the outcome holds, or None if it holds none that can be read."""
    try:
        groups = json.loads(outcome.node_groups or "null")
    except ValueError:
        return None
    return groups if isinstance(groups, dict) else None


def set_unknown_to_null(document: Mapping[str, Any], unknown: Sequence[str]) -> None:
    """Set the fields at the given paths, such as `pod.requests`, to null in the document, which is changed in place.

    Where a path leads through a list, the field is set in each entry. Paths that the document does not have are
    ignored.
    """
    for path in unknown:
        *parents, last = path.split(".")
        holders: list[Any] = [document]
        for name in parents:
            values = (holder.get(name) for holder in holders)
            holders = [h for f in values for h in (f if isinstance(f, list) else [f]) if isinstance(h, dict)]
        for holder in holders:
            if last in holder:
                holder[last] = None


def _pruned(d: Decision) -> Json | None:
    """Return, as JSON, the counts over all nodes that a pruned record keeps, or None if the record is complete.

    The columns of a pruned record hold only a few nodes. In each verdict, `nodes` counts the nodes with that verdict
    and `first` those of them that no earlier filter had rejected.
    """
    pruned = build_pruned(d)
    if pruned is None or d.summary is None:
        return None
    first = {(r.filter, r.verdict): r.nodes for r in count_first_rejections(d)}
    filters = [
        {
            "plugin": f.plugin,
            "verdicts": [
                {**_verdict(v, d.scheduler), "nodes": counts[n], "first": first.get((position, n), 0)}
                for n, v in enumerate(f.verdicts)
            ],
        }
        for position, (f, counts) in enumerate(zip(d.filters, d.summary.verdicts, strict=True))
    ]
    return pruned | {"evaluation": dict(d.summary.evaluation), "filters": filters, "ties": d.summary.ties}


def _filter(f: FilterColumn, evaluated: Mapping[int, str], scheduler: SchedulerInfo) -> Json:
    """Return, as JSON, a filter's rejections by node name and the nodes on which it did not run.

    `evaluated` maps slots to names of the evaluated nodes. Those in neither `rejected` nor `notRun` passed, or the
    filter was skipped.
    """
    verdicts = {name: f.verdicts[f.ids[slot]] for slot, name in evaluated.items() if len(f.ids)}
    return {
        "plugin": f.plugin,
        "skipped": f.skipped,
        "rejected": {name: _verdict(v, scheduler) for name, v in verdicts.items() if v.rejects_node},
        "notRun": [name for name, verdict in verdicts.items() if verdict == NOT_RUN],
    }


def _score(s: ScoreColumn, rank: Column, nodes: Mapping[int, str]) -> Json:
    return {
        "plugin": s.plugin,
        "weight": s.weight,
        "skipped": s.skipped,
        "raw": _by_node(s.raw, rank, nodes),
        "normalized": _by_node(s.normalized, rank, nodes),
    }


def _inputs(inputs: Inputs, evaluated: Mapping[int, str]) -> Json:
    """Return, as JSON, the measurements of a plugin for each evaluated node.

    `evaluated` maps slots to node names. A value is null if the node has no measurement, a time if it is unknown.
    """
    measured = {name: inputs.measured_s(slot) for slot, name in evaluated.items()}
    return {
        "plugin": inputs.plugin,
        "source": inputs.source,
        "numbers": [
            {"name": n.name, "unit": n.unit, "values": {name: n.value_at(slot) for slot, name in evaluated.items()}}
            for n in inputs.numbers
        ],
        "measuredAt": {name: format_timestamp(at_s * 1_000_000) if at_s else None for name, at_s in measured.items()},
        "stale": [name for slot, name in evaluated.items() if len(inputs.stale) and inputs.stale[slot]],
    }


def _by_node(column: Column, rank: Column, nodes: Mapping[int, str]) -> dict[str, int]:
    """Return the column's entries by node name, for the feasible nodes; `nodes` maps slots to names."""
    if not len(column):
        return {}
    return {name: column[slot] for slot, name in nodes.items() if rank[slot]}


def _suggestion(s: Suggestion) -> Json:
    changes = [
        {"code": change.code, "params": dict(change.params), "sentence": suggestions.format_change(s, change)}
        for change in s.changes
    ]
    return {"node": s.node, "changes": changes, "patch": s.patch, "checked": s.is_checked, "helps": s.helps}


def _verdict(v: Verdict, scheduler: SchedulerInfo) -> Json:
    version = find_wording_version(scheduler.rules)
    return {
        "code": v.code.label,
        "reasons": [
            {"code": r.code, "params": dict(r.params), "sentence": reasons.format_reason(r, version)} for r in v.reasons
        ],
    }


def _plugin_verdict(v: PluginVerdict, scheduler: SchedulerInfo) -> Json:
    return {"plugin": v.plugin, **_verdict(v.verdict, scheduler)}
