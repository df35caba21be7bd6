"""What a forked copy does with a question: decode it, decide its pods or changes, and encode the answer.

Owns: the content of questions, and the form of answers. Does not own: the copy (`forked_copies`), placement and changes
(`engine.whatif`), requests (`reviewer`, `review_client`).

Everything here runs in the copy, whose state it changes and whose memory and time are limited. The process itself reads
no more of a question than `list_examined_pods` returns.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from herodotus_answers.cluster_questions import ClusterQuestion
from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_record import codec
from herodotus_record.notes import format_note
from herodotus_record.templates import PodTemplate
from herodotus_record.typed_decoding import decode_json
from scheduler.engine.framework.extenders import Extenders
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.manifests.cluster import ManifestError
from scheduler.engine.nodegroups.answers import MAX_PODS
from scheduler.engine.nodegroups.reading import AutoscalingObjects
from scheduler.engine.progress import ProgressReport
from scheduler.engine.records.build import Origin
from scheduler.engine.whatif.changes import ClusterReviewError, answer_review
from scheduler.engine.whatif.controllers import ensure
from scheduler.engine.whatif.placement import CopiedCluster, place
from scheduler.engine.whatif.pods import PriorityClass, build_pods
from scheduler.engine.whatif.simulation import WhatIfState
from scheduler.reviews.forked_copies import RefusedQuestionError
from scheduler.reviews.reviewed_state import ReviewedState

MAX_UNPACKED_BYTES: Final = codec.MAX_FRAME_BYTES  # of an answer: the service reads no more

Question = TypeVar("Question")


class _Template(msgspec.Struct):
    kind: str
    name: str
    namespace: str
    pod: dict[str, dict[str, Any]]


class _PlacementQuestion(msgspec.Struct):
    """A question where pods of a template would be placed. `scheduler` is the profile that decides."""

    namespace: str
    scheduler: str
    template: _Template
    replicas: int


class _ClusterQuestionDocument(msgspec.Struct):
    spec: ClusterQuestion


class _PriorityClasses(msgspec.Struct):
    items: list[PriorityClass]


class _Names(msgspec.Struct):
    pods: list[str] = []


class _NodeGroupParts(msgspec.Struct, rename="camel"):
    node_groups: _Names | None = None
    scale_down: msgspec.Raw = msgspec.Raw()


class _ClusterQuestionParts(msgspec.Struct):
    spec: _NodeGroupParts


def list_examined_pods(question: bytes) -> list[str] | None:
    """Return the pods (NAMESPACE/NAME) whose autoscaler events a question about the cluster needs.

    Return [] for a question about scale-down, which needs autoscalers' objects but no events, and None for a question
    that needs neither. Raise RefusedQuestionError if the question names too many pods.
    """
    spec = _decode(question, _ClusterQuestionParts).spec
    if spec.node_groups is None:
        return [] if spec.scale_down not in (b"", b"null") else None
    if len(spec.node_groups.pods) > MAX_PODS:
        raise RefusedQuestionError(f"nodeGroups: pods: at most {MAX_PODS}, got {len(spec.node_groups.pods)}")
    return spec.node_groups.pods


def encode_cluster_question(spec: ClusterQuestion) -> bytes:
    """Return a question of this process itself in the form in which the decisions service sends questions."""
    return msgspec.json.encode({"spec": {k: v for k, v in msgspec.to_builtins(spec).items() if v is not None}})


def decode_cluster_answer(answer: bytes) -> ClusterReviewStatus:
    """Return the answer that `answer_cluster_review` encoded."""
    return decode_json(codec.decompress(answer, MAX_UNPACKED_BYTES), ClusterReviewStatus)


def place_pods(state: ReviewedState, question: bytes, classes: bytes, origin: Origin) -> bytes:
    """Place the pods of a question one after the other and return the records as compressed frames.

    `classes` is the API server's list of PriorityClasses. Raise RefusedQuestionError for an invalid pod.
    """
    asked = _decode(question, _PlacementQuestion)
    t = asked.template
    template = PodTemplate(t.kind, t.name, t.namespace, t.pod, 1)
    try:
        pods = build_pods(template, asked.namespace, asked.scheduler, asked.replicas, _index_classes(classes))
    except ManifestError as e:
        raise RefusedQuestionError(str(e)) from e
    pods = pods.with_notes(state.notes(asked.scheduler))
    framework, cluster = state.frameworks[asked.scheduler], state.cluster
    ensure(pods.controller, cluster.objects)
    framework.extenders = Extenders(state.extenders())
    copy = CopiedCluster(cluster.cache.columns, cluster.objects)
    frames = place(framework, copy, pods, origin, random.getrandbits(31))
    return _compress(map(codec.encode, frames))


def answer_cluster_review(
    state: ReviewedState, question: bytes, classes: bytes, read: AutoscalingObjects, report: ProgressReport
) -> bytes:
    """Return the compressed answer to a question about the whole cluster.

    `classes` is the API server's list of PriorityClasses. `read` are the objects that questions about node groups need.
    `report` is called with the progress. Raise RefusedQuestionError if the question is invalid.
    """
    spec = _decode(question, _ClusterQuestionDocument).spec
    first = next(iter(state.frameworks.values()))
    others = set[str]()

    def find_framework(scheduler: str) -> Framework:
        if scheduler not in state.frameworks:
            others.add(scheduler)
        return state.frameworks.get(scheduler, first)

    def build_notes() -> Iterator[str]:
        for name in state.frameworks:
            yield from map(format_note, state.notes(name))
        for name in sorted(others):
            yield f"pods of scheduler {name} are decided as those of {first.profile.scheduler_name}"

    extenders, cluster = Extenders(state.extenders()), state.cluster
    for framework in state.frameworks.values():
        framework.extenders = extenders
    for obj in read.objects:
        cluster.objects.set(obj)
    columns, pending = cluster.cache.columns, state.pending()
    whatif = WhatIfState(columns, cluster.objects, cluster.nominator, find_framework, pending, read.note)
    whatif.rebuild, whatif.rules, whatif.feature_gates = state.rebuild, first.profile.rules, state.feature_gates
    try:
        status = answer_review(whatif, spec, report, random.getrandbits(31), _index_classes(classes))
    except (ClusterReviewError, ManifestError) as e:
        raise RefusedQuestionError(str(e)) from e
    status["notes"] = [*build_notes(), *status["notes"]]
    return _compress([msgspec.json.encode(status)])


def _decode(question: bytes, type: type[Question]) -> Question:
    try:
        return decode_json(question, type)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise RefusedQuestionError(f"a question that cannot be read: {e}") from e


def _index_classes(response: bytes) -> dict[str, PriorityClass]:
    """Return the cluster's PriorityClasses by name."""
    return {c.metadata.name: c for c in decode_json(response, _PriorityClasses).items}


def _compress(parts: Iterable[bytes]) -> bytes:
    """Return the parts of an answer as one, compressed. Raise RefusedQuestionError if they are too large."""
    encoded = bytearray()
    for part in parts:
        encoded += part
        if len(encoded) > MAX_UNPACKED_BYTES:
            size = f"{MAX_UNPACKED_BYTES >> 20} MiB"
            raise RefusedQuestionError(f"the answer is larger than {size}: ask about fewer pods")
    return codec.compress(bytes(encoded))
