"""Answer requests to the decisions API from the cluster as it is now.

A request names the pods that its answer is about. They are decided first, their records are stored in a temporary
database, and then the decisions service's own route answers. So an answer has the document that the service would
return. Only a workload is answered from the pods that exist, because no record has the placement of those with a node.

Does not own: routes and documents (`herodotus_endpoint`), decisions (`evaluation`), reading (`cluster_reader`).
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self, cast
from urllib.parse import parse_qs, quote, unquote, urlsplit

import msgspec

from herodotus_answers.cluster_questions import ClusterQuestionDocument
from herodotus_answers.cluster_review import build_cluster_review
from herodotus_answers.node import (
    HistoryWindow,
    build_listed_node_history,
    build_unconsidered_node,
    mark_as_evaluated,
)
from herodotus_answers.pending import PendingPods, replace_messages
from herodotus_answers.pod_group import FEW_MEMBERS
from herodotus_answers.workload import (
    Placement,
    WorkloadName,
    belongs_to_workload,
    build_present_placement,
    build_workload_placements,
    get_kind_name,
)
from herodotus_endpoint.app import create_app
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Store
from herodotus_endpoint.store.counters import name_workload
from herodotus_endpoint.store.reader import MAX_SIMILAR
from herodotus_endpoint.store.reviews import ReviewAnswer, ReviewingScheduler, ReviewQuestion
from herodotus_endpoint.store.sqlite import TemporarySqlite
from herodotus_local.cluster_reader import DEVICES, ClusterListing
from herodotus_local.conditions import build_from_conditions, prefer_condition
from herodotus_local.errors import (
    HistoryNeededError,
    NodesForbiddenError,
    NoObjectError,
    UnusableInputError,
)
from herodotus_local.evaluation import UNREAD_PODS, ClusterEvaluation, ReviewedPods, has_volumes, is_waiting
from herodotus_record import codec
from herodotus_record.model import API_VERSION, POD_GROUP_PHASE, Decision, Frame
from herodotus_record.templates import PodTemplate, PodTemplateError, parse_pod_template
from herodotus_record.typed_decoding import convert
from herodotus_record.units import format_timestamp
from scheduler.config import ConfigError, Configuration
from scheduler.engine.manifests.cluster import ManifestError
from scheduler.engine.nodegroups.reading import AutoscalingObjects
from scheduler.engine.objects.times import parse_microseconds
from scheduler.engine.objects.types import Pod
from scheduler.engine.objects.watched_kinds import DEVICE_TAINT_RULES
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.progress import ProgressReport, ignore_progress
from scheduler.engine.whatif.changes import ClusterReviewError

Json = dict[str, Any]

MAX_PODS: Final = 5000  # decided for one answer; each takes about a millisecond on a thousand nodes
_NODE_PODS: Final = 500  # of those on the node that an answer is about
_PREFIX: Final = "/apis/herodotus.dev/v1alpha1"
_IN_NAMESPACE: Final = re.compile(rf"{_PREFIX}/namespaces/(?P<namespace>[^/]+)/(?P<resource>[a-z]+)/(?P<name>[^/]+)")
_PENDING: Final = re.compile(rf"{_PREFIX}(/namespaces/(?P<namespace>[^/]+))?/pendingpods")
_NODE: Final = re.compile(rf"{_PREFIX}/nodehistories/(?P<node>[^/]+)")
_REVIEWS: Final = re.compile(rf"{_PREFIX}/namespaces/(?P<namespace>[^/]+)/placementreviews")
_CLUSTER_REVIEWS: Final = f"{_PREFIX}/clusterreviews"
_ABOUT_ONE_POD: Final = frozenset({"podexplanations", "decisions", "nodecomparisons"})
_TEMPLATE_HASH: Final = "pod-template-hash"
_ABOUT_SERVICE: Final = re.compile(rf"{_PREFIX}/serviceversions/?")
_NODES: Final = re.compile(rf"{_PREFIX}/nodehistories/?")
_WORKLOADS: Final = re.compile(rf"{_PREFIX}(/namespaces/(?P<namespace>[^/]+))?/workloadplacements")

Note = Callable[[str], None]


class ReadsCluster(Protocol):
    """A source of the cluster's objects: the API server (`ClusterReader`) or files (`files.FileReader`)."""

    def read(self, namespace: str, needs_storage: Callable[[Sequence[Pod]], bool], /) -> ClusterListing:
        """Return the cluster's objects, as `ClusterReader.read` does."""
        ...

    def read_pods(self, namespace: str, /) -> list[Pod]:
        """Return the pods that have not ended, as `ClusterReader.read_pods` does."""
        ...

    def read_node_groups(self, pods: Iterable[str], /) -> AutoscalingObjects:
        """Return the objects and events that describe node groups, as `ClusterReader.read_node_groups` does."""
        ...


class LocalAnswer:
    """The HTTP status code and the JSON document of an answer."""

    def __init__(self, code: int, document: Json) -> None:
        self.code, self.document = code, document


class LocalService(AbstractContextManager["LocalService"]):
    """The decisions API over one cluster that is read when the first question comes.

    All answers until `close` are about the cluster as it was read then.
    """

    def __init__(
        self,
        reader: ReadsCluster,
        config: Configuration,
        note: Note,
        report: ProgressReport = ignore_progress,
        announce: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare without reading.

        `note` receives sentences for the user about what the answer lacks. `report` receives the numbers of pods that
        were decided, and that are known, while a question about the whole cluster is answered. `announce` is called
        once, before anything is evaluated.
        """
        self._reader, self._config, self._note, self._report = reader, config, note, report
        self._announce = announce
        self._folder = tempfile.TemporaryDirectory(prefix="herodotus-local-")
        database = TemporarySqlite(Path(self._folder.name) / "records.db")
        database.prepare()
        self._store = Store(database)
        self._reviews = _LocalReviews()
        self._store.reviews = self._reviews  # type: ignore[assignment]
        self._client = create_app(self._store, ServiceSettings()).test_client()
        self._evaluation: ClusterEvaluation | None = None
        self._is_partial = False  # whether only the pods of one namespace were read
        self._decided: set[str] = set()
        self._messages: dict[str, str] = {}  # of decisions, by the UID of the pod

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Delete the temporary database."""
        self._store.close()
        self._folder.cleanup()

    def get(self, path: str) -> LocalAnswer:
        """Answer a GET request for a path with its query string.

        Raises HistoryNeededError if the question is about past decisions, NoObjectError if it names a pod that does not
        exist, ReadError if the cluster cannot be read, and UnusableInputError if an object of the cluster or the
        configuration is invalid.
        """
        question = _Question(path)
        try:
            self._decide(question)
        except NodesForbiddenError:
            if not question.is_pending:
                raise
            waiting = question.choose(self._reader.read_pods(question.namespace))
            self._note("you may not list nodes: nothing is evaluated; the reasons are those of the pods' conditions")
            return LocalAnswer(200, dict(build_from_conditions(waiting, question.namespace)))
        if question.workload is not None:
            return self._place_workload(question, *question.workload)
        if question.is_of_workloads:
            return self._qualify(self._list_workloads(question.namespace))
        answer = LocalAnswer(200, self._list_nodes()) if question.is_of_nodes else self._respond("GET", path)
        if question.node and answer.code == 404:  # it exists, and no pod was decided that could use it
            now_us = time.time_ns() // 1000
            over = HistoryWindow(now_us, now_us, 1_000_000)
            answer = LocalAnswer(200, dict(build_unconsidered_node(question.node, over)))
        if answer.document.get("kind") == "PendingPods":
            answer.document["source"] = "evaluated"
            answer.document.pop("noRecords", None)  # no pod is pending, and nothing records
            document = cast(PendingPods, answer.document)
            answer = LocalAnswer(200, dict(replace_messages(document, self._list_contradicted())))
        elif answer.document.get("kind") == "NodeHistory":
            mark_as_evaluated(answer.document)
        self._add_untried_members(answer.document)
        return self._qualify(answer)

    def _list_contradicted(self) -> dict[str, str]:
        """Return, by UID, what schedulers state of decided pods that an incomplete evaluation lets fit."""
        pods = [] if self._evaluation is None else self._evaluation.pods.values()
        given = {pod.metadata.uid: self._messages.get(pod.metadata.uid, "") for pod in pods}
        stated = {pod.metadata.uid: prefer_condition(pod, given[pod.metadata.uid]) for pod in pods}
        return {uid: message for uid, message in stated.items() if message != given[uid]}

    def _add_untried_members(self, document: Json) -> None:
        """Add to an answer about a pod group its members that are not tried: those with gates or in deletion.

        The headline of a pod that was undone with its group is replaced by the group's.
        """
        name = document["metadata"]["name"] if document.get("kind") == "PodGroupPlacement" else ""
        if document.get("kind") == "PodExplanation":
            name = document["pod"]["podGroup"] or ""
        if not name or self._evaluation is None:
            return
        others = self._evaluation.list_other_members(document["metadata"]["namespace"], name)
        if document["kind"] == "PodGroupPlacement":
            document["otherMembers"] = [{"pod": pod, "reason": reason} for pod, reason in others]
        if FEW_MEMBERS.partition("pods")[2] in document["headline"]:
            which = "; ".join(f"{pod} {reason}" for pod, reason in others[:MAX_SIMILAR])
            document["headline"] += f" {which}." if which else " No other pod of the group exists."
        elif document["kind"] == "PodExplanation" and _is_undone(document):
            of_group = f"{_PREFIX}/namespaces/{document['metadata']['namespace']}/podgroupplacements/{quote(name)}"
            result, node = self._respond("GET", of_group).document["headline"], document["outcome"]["node"]
            document["headline"] = f"Pending with its pod group. {result} It alone would fit {node}."

    def _qualify(self, answer: LocalAnswer) -> LocalAnswer:
        """Add to the answer's headline that pods of other namespaces are unknown, unless it says so; return the answer.

        The answer is changed only if these pods could not be read.
        """
        document = answer.document if "headline" in answer.document else answer.document.get("status")
        if self._is_partial and isinstance(document, dict) and UNREAD_PODS not in document.get("headline", UNREAD_PODS):
            document["headline"] += f" But {UNREAD_PODS}, so nodes may have less free."
        return answer

    def post(self, path: str, document: Json) -> LocalAnswer:
        """Answer a review: where hypothetical pods would be placed, or what changes to the cluster would do.

        Raises the errors of `get`.
        """
        if urlsplit(path).path == _CLUSTER_REVIEWS:
            return self._review_cluster(document)
        asked = _REVIEWS.fullmatch(urlsplit(path).path)
        if asked is None:
            raise HistoryNeededError(path)
        found, objects = self._read(unquote(asked["namespace"]), lambda _: True)
        self._note_unread(objects)
        self._reviews.evaluation, self._evaluation = found, None  # a review changes the cluster
        answer = self._respond("POST", path, {**document, "spec": self._with_scheduler(document["spec"])})
        return self._qualify(answer)

    def _review_cluster(self, document: Json) -> LocalAnswer:
        try:
            review = convert(document, ClusterQuestionDocument)
        except msgspec.ValidationError as e:
            raise UnusableInputError(str(e)) from e
        spec = review.spec
        keeps_cluster = spec.node_groups is not None or spec.scale_down is not None
        if keeps_cluster and self._evaluation is not None:
            evaluation = self._evaluation  # of the pod that the same command explains
        else:
            evaluation, objects = self._read("", lambda _: True)
            self._note_unread(objects)
        if keeps_cluster:
            pods = spec.node_groups.pods if spec.node_groups is not None else ()
            evaluation.add_node_groups(self._reader.read_node_groups(pods))
        try:
            status = evaluation.review_cluster(spec, self._report)
        except (ClusterReviewError, ManifestError) as e:
            raise UnusableInputError(str(e)) from e
        return LocalAnswer(201, dict(build_cluster_review(status)))

    def _with_scheduler(self, spec: Json) -> Json:
        """Return a review's spec with the first profile's scheduler name if neither it nor its object names one."""
        try:
            named = spec.get("schedulerName") or parse_pod_template(spec["object"]).scheduler
        except PodTemplateError:  # the route refuses it with a better message
            return spec
        return {**spec, "schedulerName": named or self._config.profiles[0].scheduler_name}

    def _respond(self, method: str, path: str, document: Json | None = None) -> LocalAnswer:
        response = self._client.open(path, method=method, json=document)
        return LocalAnswer(response.status_code, msgspec.json.decode(response.data))

    def _place_workload(self, question: _Question, kind: str, name: str) -> LocalAnswer:
        """Return on which nodes the pods of a workload are, and why the others wait.

        Raises NoObjectError if it has no pod.
        """
        assert self._evaluation is not None
        pods = [pod for pod in self._list_active() if question.is_of_workload(pod)]
        if not pods:
            raise NoObjectError(f'no pod of {kind} "{name}" found among the pods that have not ended', ())
        workload = WorkloadName(question.namespace, f"{get_kind_name(kind)}/{name}")
        placements = [
            Placement.from_present_pod(
                pod.metadata.namespace,
                pod.metadata.name,
                workload.name,
                pod.spec.node_name or None,
                parse_microseconds(pod.metadata.creation_timestamp),
                prefer_condition(pod, self._messages.get(pod.metadata.uid, "")),
            )
            for pod in pods
        ]
        nodes = len(self._evaluation.nodes.index)
        at_us = time.time_ns() // 1000
        return LocalAnswer(200, dict(build_present_placement(workload, placements, nodes, "evaluated", at_us)))

    def _list_active(self) -> list[Pod]:
        """Return the pods that are neither ended nor being deleted: the pods that a workload counts."""
        assert self._evaluation is not None
        return [pod for pod in self._evaluation.pods.values() if pod.metadata.deletion_timestamp is None]

    def _list_workloads(self, namespace: str) -> LocalAnswer:
        """Return the workloads of the pods that exist, with the nodes of their pods."""
        assert self._evaluation is not None
        placements = [
            Placement.from_present_pod(
                pod.metadata.namespace,
                pod.metadata.name,
                _name_workload(pod),
                pod.spec.node_name or None,
                parse_microseconds(pod.metadata.creation_timestamp),
            )
            for pod in self._list_active()
            if namespace in ("", pod.metadata.namespace)
        ]
        document = build_workload_placements(
            placements, since_us=time.time_ns() // 1000, complete=not self._is_partial, namespace=namespace
        )
        return LocalAnswer(200, dict(document))

    def _list_nodes(self) -> Json:
        """Return all nodes with what is allocatable on them and what their pods request, and no counts."""
        assert self._evaluation is not None
        now_us = time.time_ns() // 1000
        over = HistoryWindow(now_us, now_us, 1_000_000)
        items = list[Json]()
        for name, (allocatable, requested) in sorted(self._evaluation.read_amounts().items()):
            item = dict(build_listed_node_history(name, over, (0, 0, 0, 0)))
            item["resources"] = {"at": format_timestamp(now_us), "allocatable": allocatable, "requested": requested}
            items.append(item)
        return {"apiVersion": API_VERSION, "kind": "NodeHistoryList", "metadata": {}, "items": items}

    def _decide(self, question: _Question) -> None:
        """Decide the pods that the question is about and that are not decided yet, and store their records.

        Of more than MAX_PODS pods, only the first are decided. Raises NoObjectError if the question names a pod or node
        that does not exist.
        """
        if not question.needs_cluster:
            return
        if self._evaluation is None:
            self._evaluation, objects = self._read(
                question.namespace, lambda pods: any(map(has_volumes, question.choose(pods)))
            )
            self._note_unread(objects, question.choose(objects.pods))
        self._require_objects(question)
        pods = [
            pod
            for pod in question.choose(list(self._evaluation.pods.values()))
            if pod.metadata.uid not in self._decided and self._evaluation.has_node_of(pod)
        ]
        if len(pods) > MAX_PODS:
            self._note(f"{len(pods)} pods are in question; the first {MAX_PODS} are evaluated")
            pods = pods[:MAX_PODS]
        together = (member for pod in pods for member in self._evaluation.list_members(pod))
        pods = list({pod.metadata.uid: pod for pod in together}.values())
        self._decided.update(pod.metadata.uid for pod in pods)
        frames = ((frame, codec.encode(frame)) for frame in self._keep_messages(self._evaluation.decide(pods)))
        self._store.writer.store(frames)

    def _keep_messages(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Yield the frames unchanged, and store the message of each decision among them in `_messages`, by pod UID."""
        for frame in frames:
            if isinstance(frame, Decision):
                self._messages[frame.pod.uid] = frame.message
            yield frame

    def _require_objects(self, question: _Question) -> None:
        """Raise NoObjectError for a pod or node that the question names and that is not in the cluster, or has ended.

        A pod that waits for scheduling gates is in the cluster; the caller explains it from the Pod object.
        """
        assert self._evaluation is not None
        for where, name in sorted(question.pods - self._evaluation.pods.keys()):
            here = {name for namespace, name in self._evaluation.pods if namespace == where}
            similar = tuple(get_close_matches(name, here, n=MAX_SIMILAR, cutoff=0.5))
            elsewhere = sorted(space for space, each in self._evaluation.pods if each == name)[:MAX_SIMILAR]
            where = f"; in namespace {' and '.join(elsewhere)} there is one of that name" if elsewhere else ""
            raise NoObjectError(f'pods "{name}" not found among the pods that have not ended{where}', similar)
        for where, name in sorted(question.pods):
            pod = self._evaluation.pods[where, name]
            if not self._evaluation.has_node_of(pod):
                raise NoObjectError(f'pods "{name}" is on node {pod.spec.node_name}, which does not exist')
        for node in sorted(question.nodes - self._evaluation.node_names):
            similar = tuple(get_close_matches(node, self._evaluation.node_names, n=MAX_SIMILAR, cutoff=0.5))
            raise NoObjectError(f'nodes "{node}" not found{self._name_pods_of(node)}', similar)

    def _name_pods_of(self, node: str) -> str:
        """Return a clause with the pods that name a node which does not exist; "" if none does."""
        assert self._evaluation is not None
        left = [f"{space}/{name}" for (space, name), p in self._evaluation.pods.items() if p.spec.node_name == node]
        more = f" and {len(left) - MAX_SIMILAR} more" if len(left) > MAX_SIMILAR else ""
        return f"; pods that name it: {', '.join(left[:MAX_SIMILAR])}{more}" if left else ""

    def _read(
        self, namespace: str, needs_storage: Callable[[Sequence[Pod]], bool]
    ) -> tuple[ClusterEvaluation, ClusterListing]:
        listing = self._reader.read(namespace, needs_storage)
        self._is_partial = listing.is_partial
        self._announce()
        self._announce = lambda: None
        try:
            return ClusterEvaluation(listing, self._config, IN_TREE), listing
        except (ManifestError, ConfigError) as e:
            raise UnusableInputError(str(e)) from e

    def _note_unread(self, found: ClusterListing, pods: Sequence[Pod] | None = None) -> None:
        """Pass to `note`, in at most two lines, what the answer lacks because kinds of objects could not be read.

        Kinds that do not matter to `pods` are not mentioned. If `pods` is None, the question is about pods that do not
        exist or about the whole cluster, to which every kind matters. That pods of other namespaces are unknown is in
        the headline.
        """
        kinds = {kind.plural for kind in found.unread} - {"pods"}
        if pods is not None:
            kinds -= {"priorityclasses", "resourceclaimtemplates"}
            kinds -= {kind for kind, concerns in _CONCERNS.items() if not concerns(pods, found.pods)}
        first, *others = found.format_unread(kinds) or [""]
        for sentence in filter(None, (first, "; ".join(others))):
            self._note(sentence)


def _is_undone(explanation: Json) -> bool:
    """Return whether the pod found a node, but the placement of its pod group was undone."""
    outcome = explanation["outcome"]
    return outcome["node"] is not None and any(phase["phase"] == POD_GROUP_PHASE for phase in outcome["phases"][-1:])


def _name_workload(pod: Pod) -> str:
    """Return KIND/NAME of the workload of a pod: the Deployment of its ReplicaSet, its controller, or the pod."""
    owner = pod.metadata.controller
    if owner is None:
        return f"Pod/{pod.metadata.name}"
    return name_workload(str(owner), pod.metadata.name, pod.metadata.labels or {})


def _has_claims(pods: Sequence[Pod], _all: Sequence[Pod]) -> bool:
    return any(pod.spec.resource_claims for pod in pods)


def _can_preempt(pods: Sequence[Pod], others: Sequence[Pod]) -> bool:
    """Return whether one of `pods` has no node and a higher priority than one of `others` that has a node."""
    lowest = min((pod.spec.priority or 0 for pod in others if pod.spec.node_name), default=0)
    return any((pod.spec.priority or 0) > lowest for pod in pods if not pod.spec.node_name)


def _are_scored(pods: Sequence[Pod], _all: Sequence[Pod]) -> bool:
    """Return whether one of `pods` is on a node, so that scores matter for the answer."""
    return any(pod.spec.node_name for pod in pods)


def _select_namespaces(pods: Sequence[Pod], others: Sequence[Pod]) -> bool:
    """Return whether an affinity term of any of these pods selects namespaces by labels (`namespaceSelector`)."""
    return any(b'"namespaceSelector":{' in msgspec.json.encode(pod.spec.affinity) for pod in (*pods, *others))


# Whether a kind that was not read concerns a question, by the pods in question and all pods.
_CONCERNS: Final[Mapping[str, Callable[[Sequence[Pod], Sequence[Pod]], bool]]] = {
    **dict.fromkeys((*DEVICES, DEVICE_TAINT_RULES.name), _has_claims),
    **dict.fromkeys(("services", "replicationcontrollers", "replicasets", "statefulsets"), _are_scored),
    "poddisruptionbudgets": _can_preempt,
    "namespaces": _select_namespaces,
    "podgroups": lambda pods, _all: any(pod.spec.scheduling_group for pod in pods),
}


class _Question:
    """Which pods the answer to a request is about."""

    def __init__(self, path: str) -> None:
        """Parse a path with its query string. Raises HistoryNeededError if the answer needs past decisions."""
        url = urlsplit(path)
        query = parse_qs(url.query)
        self.pods: frozenset[tuple[str, str]] = frozenset()  # by namespace and name
        self.nodes: frozenset[str] = frozenset()  # that have to exist
        self.node = self.pod_group = ""
        self.workload: tuple[str, str] | None = None  # kind and name
        self.is_pending = self.is_of_nodes = self.is_of_workloads = False
        pending, node, named, workloads = (
            _PENDING.fullmatch(url.path),
            _NODE.fullmatch(url.path),
            _IN_NAMESPACE.fullmatch(url.path),
            _WORKLOADS.fullmatch(url.path),
        )
        self.is_of_nodes, self.is_of_workloads = bool(_NODES.fullmatch(url.path)), workloads is not None
        self.needs_cluster = bool(pending or node or named or workloads or self.is_of_nodes)
        scoped = pending or named or workloads
        self.namespace = unquote((scoped and scoped["namespace"]) or "")
        if pending:
            self.is_pending = True
        elif node:
            self.node = unquote(node["node"])
            self.nodes = frozenset({self.node})
        elif named and named["resource"] in _ABOUT_ONE_POD and "attempt" not in query:
            self.pods = frozenset({(self.namespace, unquote(named["name"]))})
            self.nodes = frozenset(query.get("node", ()))
        elif named and named["resource"] == "podgroupplacements":
            self.pod_group = unquote(named["name"])
        elif named and named["resource"] == "workloadplacements":
            kind, _, name = unquote(named["name"]).partition(".")
            self.workload = kind, name
        elif named and named["resource"] == "podcomparisons":
            where = query.get("withNamespace", [self.namespace])[0]
            others = ((where, name) for name in query.get("with", ()))
            self.pods = frozenset({(self.namespace, unquote(named["name"])), *others})
        elif not (self.is_of_nodes or self.is_of_workloads or _ABOUT_SERVICE.fullmatch(url.path)):
            raise HistoryNeededError(path)

    def choose(self, pods: Sequence[Pod]) -> list[Pod]:
        """Return those of `pods`, the pods of the cluster, that must be decided before the request can be answered."""
        if self.is_of_nodes or self.is_of_workloads:
            return []
        if self.pods:
            named = (p for p in pods if (p.metadata.namespace, p.metadata.name) in self.pods)
            return [p for p in named if p.spec.node_name or not p.spec.scheduling_gates]
        if self.pod_group:
            return [p for p in pods if p.metadata.namespace == self.namespace and self._is_member(p)]
        if self.workload:
            return [p for p in pods if is_waiting(p) and self.is_of_workload(p)]
        if self.node:
            here = [p for p in pods if p.spec.node_name == self.node]
            return [*here[:_NODE_PODS], *filter(is_waiting, pods)]
        return [p for p in pods if is_waiting(p) and self.namespace in ("", p.metadata.namespace)]

    def is_of_workload(self, pod: Pod) -> bool:
        """Return whether the pod belongs to the workload in question."""
        if self.workload is None or pod.metadata.namespace != self.namespace:
            return False
        owner = pod.metadata.controller
        suffix = (pod.metadata.labels or {}).get(_TEMPLATE_HASH)
        return belongs_to_workload(str(owner) if owner else "", pod.metadata.name, suffix, *self.workload)

    def _is_member(self, pod: Pod) -> bool:
        """Return whether the pod belongs to the pod group in question and has a node or waits for one."""
        group = pod.spec.scheduling_group
        named = group is not None and group.pod_group_name == self.pod_group
        return named and (bool(pod.spec.node_name) or is_waiting(pod))


class _LocalReviews:
    """Answers a review at once, in place of the queue in which the decisions service passes it to a scheduler."""

    def __init__(self) -> None:
        self.evaluation: ClusterEvaluation | None = None
        self._answer: ReviewAnswer | None = None

    def list_reviewers(self, within_s: float) -> list[ReviewingScheduler]:
        """Return every scheduler name that a pod of the cluster has."""
        assert self.evaluation is not None
        return [ReviewingScheduler("", name) for name in self.evaluation.scheduler_names]

    def add_question(self, question: ReviewQuestion, most: int) -> bool:
        """Decide the question's pods."""
        assert self.evaluation is not None
        asked = msgspec.json.decode(question.body)
        template = PodTemplate(**{**asked["template"], "replicas": 1})
        try:
            reviewed = ReviewedPods(template, asked["namespace"], asked["scheduler"], asked["replicas"])
            frames = b"".join(map(codec.encode, self.evaluation.review(reviewed)))
            self._answer = ReviewAnswer(codec.compress(frames), codec.CONTENT_TYPE)
        except ManifestError as e:
            refusal = {"code": 422, "message": str(e)}
            self._answer = ReviewAnswer(msgspec.json.encode(refusal), "application/json")
        return True

    def read_answer(self, id: str) -> ReviewAnswer | None:
        """Return the answer to the last question, or None before the first; `id` is ignored."""
        return self._answer

    def remove_question(self, id: str) -> None:
        """Do nothing: no question is kept."""
