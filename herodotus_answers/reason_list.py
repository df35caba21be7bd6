"""Build the document `ReasonList`: the published vocabulary of reasons, for products that show them.

Everything follows from one declaration of each fact: codes and sentences from `herodotus_record.reasons`, parameters
from `reason_parameters`, remedies from `wording`, plugins from `plugin_reference`, outcomes from `brief`, states and
causes of `live` from `live.codes` and `live.workloads.workload_codes`.

Owns: the document's shape, and the stage at which each reason excludes nodes. Pure.

Stages have the names of scheduler-library's RejectionStage, the field `Stage` of its NodeExclusion
(github.com/kubernetes-sigs/scheduler-library, issue 15 and pkg/upstreamsync/exclusions.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypedDict

from herodotus_answers import wording
from herodotus_answers.brief import OUTCOMES
from herodotus_answers.declare import Page
from herodotus_answers.live import codes as live_codes
from herodotus_answers.live.workloads import workload_codes
from herodotus_answers.plugin_reference import PLUGINS
from herodotus_record import reasons
from herodotus_record.model import API_VERSION
from herodotus_record.reason_parameters import PARAMETERS, SCORE_PARAMETERS, ReasonParameter

STATES: Final[Mapping[str, str]] = {**live_codes.STATES, **workload_codes.STATES}
CAUSES: Final[Mapping[str, str]] = {**live_codes.CAUSES, **workload_codes.CAUSES}
PRE_FILTER, NARROWING, FILTER, EXTENDER = "PreFilter", "PreFilterNarrowing", "Filter", "Extender"
# Codes whose stage is not Filter alone. () is a reason that comes before or after nodes are excluded.
_STAGES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        (
            "affinity-conflict",
            "claims-unbound",
            "claim-not-made",
            "claim-lost",
            "claim-deleted",
            "claim-not-owned",
            "device-claim-not-found",
            "device-claim-deleted",
            "device-claim-in-flight",
            "device-claim-not-made",
            "device-claim-unsupported",
            "device-claim-not-owned",
            "device-claim-not-owned-by-group",
            "prioritized-list-disabled",
            "request-unknown",
            "not-built",
        ),
        (PRE_FILTER,),
    ),
    # VolumeZone and DynamicResources find these in either
    **dict.fromkeys(
        (
            "claim-not-found",
            "claim-unnamed",
            "claim-without-class",
            "claim-without-volume",
            "class-without-mode",
            "class-not-found",
            "volume-not-found",
            "device-class-not-found",
        ),
        (PRE_FILTER, FILTER),
    ),
    **dict.fromkeys(("narrowed", "narrowed-empty", "narrowed-disjoint"), (NARROWING,)),
    "text": (PRE_FILTER, FILTER, EXTENDER),
    **dict.fromkeys(
        (
            "no-nodes",
            "no-claims",
            "device-claim-deallocated",
            "extended-claim-deleted",
            "group-claim-unreserved",
            "still-unschedulable",
        ),
        (),
    ),
}
# Their reasons are about the queue, preemption, a group or a placement.
_WITHOUT_EXCLUSIONS: Final = ("SchedulingGates", "GangScheduling", "TopologyPlacementGenerator", "DefaultPreemption")


class PublishedParameter(TypedDict):
    """A parameter of a reason."""

    name: Annotated[str, "Name of the parameter."]
    meaning: Annotated[str, "What its value is."]
    unit: Annotated[str | None, "What a number counts; null for other values."]


class EarlierSentence(TypedDict):
    """The sentence of earlier versions of kube-scheduler."""

    before: Annotated[str, "First version of Kubernetes with the present sentence."]
    sentence: Annotated[str, "The sentence of the versions before."]


class PublishedReason(TypedDict):
    """A reason why a pod has no node, or why a node does not take it."""

    code: Annotated[str, "Stable code of the reason."]
    conditionReason: Annotated[str, "The code as Kubernetes spells reasons of conditions."]
    plugin: Annotated[str | None, "Plugin that returns the reason; null if every plugin may."]
    sentence: Annotated[str, "kube-scheduler's sentence, with parameters in braces."]
    earlierSentences: Annotated[list[EarlierSentence], "Sentences of earlier versions."]
    params: Annotated[list[PublishedParameter], "Parameters that the reason may have."]
    possibleChanges: Annotated[list[str], "What would change it, with parameters and amounts in braces."]
    stages: Annotated[list[str], "Stages at which it excludes nodes, as in scheduler-library's NodeExclusion."]


class PublishedScoreReason(TypedDict):
    """What made up a part of a score."""

    code: Annotated[str, "Stable code."]
    text: Annotated[str, "It in words, with parameters in braces."]
    params: Annotated[list[PublishedParameter], "Parameters that it has."]


class PublishedOutcome(TypedDict):
    """What an answer has in place of a reason: an outcome, a state, or the cause of a state."""

    code: Annotated[str, "Stable code of the outcome."]
    conditionReason: Annotated[str, "The code as Kubernetes spells reasons of conditions."]
    meaning: Annotated[str, "What it says."]


class PublishedChange(TypedDict):
    """A kind of change that a suggestion may have."""

    code: Annotated[str, "Stable code of the change."]
    text: Annotated[str, "The change as a sentence, with parameters in braces."]


class ReasonList(Page):
    """The vocabulary of reasons."""

    kind: Literal["ReasonList"]
    version: Annotated[int, "Version of the vocabulary, which grows with every addition."]
    items: Annotated[list[PublishedReason], "All reasons."]
    outcomes: Annotated[list[PublishedOutcome], "Outcomes that are no reasons."]
    states: Annotated[list[PublishedOutcome], "States of pods and workloads (`live.state.code`)."]
    causes: Annotated[list[PublishedOutcome], "Causes of states (`live.state.causes[].code`)."]
    changes: Annotated[list[PublishedChange], "Kinds of changes that suggestions have."]
    scores: Annotated[list[PublishedScoreReason], "What made up scores (`margin.reasons[]`)."]


def build_reason_list() -> ReasonList:
    """Return the JSON document of kind ReasonList."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ReasonList",
        "metadata": {},
        "version": reasons.VERSION,
        "items": [_describe(code) for code in reasons.CATALOGUE],
        "outcomes": _list_codes(OUTCOMES),
        "states": _list_codes(STATES),
        "causes": _list_codes(CAUSES),
        "changes": [{"code": code, "text": text} for code, text in reasons.CHANGES.items()],
        "scores": [
            {"code": code, "text": text, "params": _list_parameters(SCORE_PARAMETERS[code])}
            for code, text in reasons.SCORES.items()
        ],
    }


def _list_codes(meanings: Mapping[str, str]) -> list[PublishedOutcome]:
    return [
        {"code": code, "conditionReason": reasons.format_condition_reason(code), "meaning": meaning}
        for code, meaning in meanings.items()
    ]


def list_stages(code: str) -> tuple[str, ...]:
    """Return the stages at which a reason excludes nodes; none if it comes before or after that."""
    return () if _find_plugin(code) in _WITHOUT_EXCLUSIONS else _STAGES.get(code, (FILTER,))


def _describe(code: str) -> PublishedReason:
    return {
        "code": code,
        "conditionReason": reasons.format_condition_reason(code),
        "plugin": _find_plugin(code),
        "sentence": reasons.CATALOGUE[code],
        "earlierSentences": [
            {"before": str(since), "sentence": sentence} for of, since, sentence in reasons.EARLIER if of == code
        ],
        "params": _list_parameters(PARAMETERS.get(code, {})),
        "possibleChanges": wording.list_remedies(code),
        "stages": list(list_stages(code)),
    }


def _list_parameters(declared: Mapping[str, ReasonParameter]) -> list[PublishedParameter]:
    return [{"name": name, "meaning": p.meaning, "unit": p.unit or None} for name, p in declared.items()]


def _find_plugin(code: str) -> str | None:
    return next((plugin.plugin for plugin in PLUGINS if code in plugin.codes), None)
