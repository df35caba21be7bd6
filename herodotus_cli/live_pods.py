"""What the API server and a running scheduler know now about a pod, beside the record of its decision.

    reader = LivePodReader(arguments, connection, output, environment)
    with reader.start_lookup(namespace) as query:
        answer = ...  # of the decisions service
    answer = reader.complete(answer, query.lookup())

Owns: which objects are read for which answer, and when none is. Everything is read with the user's rights, and a
request that fails leaves its part out. Does not own: what the objects mean (`herodotus_answers.live`), the screens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from herodotus_cli import node_groups
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import SCREEN_FORMATS, Environment, Json
from herodotus_cli.errors import CliError
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.output_formats import BRIEF, is_document
from herodotus_cli.transport.api_server_queries import LivePodQuery, PodLookup
from herodotus_client import api_paths

# Other modules are imported where they are needed: most pods are placed and run well.
if TYPE_CHECKING:
    from datetime import datetime

    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import BatchQueue, LivePod, LiveState, QueuePlace
    from herodotus_answers.live.pods.holders import HeldObject, Holders
    from herodotus_answers.node_groups import EventReport, PodNodeGroups
    from herodotus_cli.render.screen_elements import Block
    from herodotus_cli.transport.api_server_queries import NodePodsQuery
    from herodotus_cli.transport.kubectl import KubectlTransport

_NO_TIMELINE = "error: the timeline is read from the API server, where this pod does not exist or cannot be read"
_NOT_WAITING = "error: --node-groups is about a pod that waits for a node, and this one does not"


class PodArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus pod`.

    If `namespace` is empty, that of the kubeconfig's current context is used. `attempt` is None for the last attempt,
    `every_node` is --all, `history` is --attempts, and `timeline` is --timeline. `groups` is the question of
    --node-groups, or None.
    """

    name: str
    namespace: str
    attempt: int | None
    every_node: bool
    node: str
    full: bool
    history: bool
    groups: Json | None = None
    timeline: bool = False


class LiveFacts(NamedTuple):
    """What the API server says about a pending pod that no record holds.

    `missing` has the rights for suggestions that the user lacks, `holders` the pods that hold what the pod lacks, or
    the object whose holders may not be listed.
    """

    missing: list[Json]
    holders: Holders | HeldObject | None

    def build(self, *, is_short: bool = False) -> list[list[Block]]:
        """Return the sections of the screen."""
        from herodotus_answers.live.pods.holders import Holders
        from herodotus_cli.render import suggestions
        from herodotus_cli.render.screen_elements import TextLine

        held: list[Block] = []
        if isinstance(self.holders, Holders):
            held = suggestions.build_holders(self.holders, is_short=is_short)
        elif self.holders is not None:
            held = [TextLine(suggestions.describe_unread_holders(self.holders), "dim")]
        return [section for section in (suggestions.build_missing_rights(self.missing), held) if section]


class LivePodReader:
    """Reads for one answer of `kubectl herodotus pod`."""

    def __init__(
        self,
        arguments: PodArguments,
        connection: ConnectionSettings,
        output: OutputOptions,
        environment: Environment,
    ) -> None:
        self._arguments, self._connection = arguments, connection
        self._output, self._environment = output, environment

    def start_lookup(self, namespace: str) -> LivePodQuery:
        """Start a request to the API server for the Pod that has this name now, to see if it was deleted or replaced.

        It runs beside the request to the decisions service. Return a query without a result if kubectl is not used, if
        an attempt was named, or if the output is a name or the full record.
        """
        is_shown = self._output.format != "name" and not self._arguments.full
        if not self._connection.reaches_cluster or self._arguments.attempt is not None or not is_shown:
            return LivePodQuery()
        return self._kubectl().live_pod(namespace, self._arguments.name)

    def complete(self, answer: Json, lookup: PodLookup) -> Json:
        """Return the answer with what is known now, and with suggestions that fit the pod's template.

        Any document but the short one keeps the service's suggestions. Raises CliError if --node-groups or --timeline
        has no answer.
        """
        from herodotus_answers.live.objects import add_live

        if self._output.format == BRIEF or not is_document(self._output.format):
            answer = self._add_group_result(answer)
            answer = self._correct_suggestions(answer, lookup)
        return add_live(answer, self._read_live(answer, lookup))

    def read_facts(self, answer: Json) -> LiveFacts | None:
        """Return what no record holds about a pending pod, or None.

        It is None for a pod with a node, if the cluster's API server is not reached, and if an attempt is named.
        """
        if not self._connection.reaches_cluster or self._arguments.attempt is not None:
            return None
        if not _is_pending(answer):
            return None
        return read_live_facts(answer, self._kubectl())

    # --- the parts of an answer -------------------------------------------------------------------------------------

    def _read_live(self, answer: Json, lookup: PodLookup) -> LivePod | None:
        from herodotus_answers.live import objects as live_objects

        arguments, at = self._arguments, self._environment.now()
        fate = live_objects.find_fate(answer["metadata"].get("uid"), lookup.pod) if lookup.known else None
        is_gone = fate in live_objects.FATES_WITHOUT_POD
        is_explanation = answer["kind"] == "PodExplanation"
        is_pod = lookup.pod is not None and lookup.pod.get("kind") == "Pod"
        replaced_by = queue = groups = state = place = None
        preempted, end = "", list[str]()
        reports: list[EventReport] = []
        if fate == "replaced" and lookup.pod and is_pod and is_explanation:
            from herodotus_answers.unrecorded import build_undecided

            replaced_by = build_undecided(lookup.pod)
        is_undecided = replaced_by is not None or answer["kind"] == "UndecidedPod"
        if lookup.pod and (is_undecided or (is_explanation and not is_gone)):
            queue = self._read_queue(lookup.pod)
            is_recorded = is_explanation and answer["attempt"]["source"] != "evaluated"
            is_enough = is_recorded and not arguments.timeline and live_objects.is_running_well(lookup.pod)
            if is_pod and not is_enough and (is_undecided or not arguments.node):  # --node is about the decision
                from herodotus_answers.live.workloads.deletions import describe_preempted

                objects = self._open_objects()  # each object is read once for the answer
                state = self._read_state(lookup.pod, {} if is_undecided else answer, at, objects)
                reports = _read_reports(lookup.pod, objects)
                preempted = describe_preempted(lookup.pod, objects, at)
                place = None if is_undecided else _find_place(lookup.pod, answer, at, objects)
        if is_explanation and is_gone and not arguments.node:
            from herodotus_answers.live.workloads.deletions import describe_end

            objects = self._open_objects()
            is_told = answer["outcome"]["node"] is None or answer.get("preemptedBy")
            end = [] if is_told else describe_end(answer, objects, at)
            if arguments.timeline:
                from herodotus_answers.live.pods.pod_timeline import build_deleted_pod_timeline

                state = build_deleted_pod_timeline(answer, objects, self._read_attempts(answer["metadata"]))
                replaced_by = None
        if arguments.timeline and not arguments.every_node and state is None:
            raise CliError(_NO_TIMELINE, ["the attempts that were recorded: --attempts"])
        if is_undecided or not is_gone:
            groups = self._ask_about_groups(answer, is_reported=bool(reports))
        elif arguments.groups is not None:
            raise CliError(_NOT_WAITING)
        return live_objects.build_live_pod(
            at,
            fate,
            was_read=lookup.known,
            pod=lookup.pod,
            state=state,
            replaced_by=replaced_by,
            place=place,
            queue=queue,
            node_groups=groups,
            reports=reports,
            preempted=preempted,
            end=end,
        )

    def _read_state(self, pod: Json, answer: Json, now: datetime, objects: ClusterObjects) -> LiveState | None:
        """Return the pod's real state, or None if the explanation of its decision, `answer`, says the same.

        With --timeline, always return the state, with its timeline.
        """
        from herodotus_answers.live.pods.pod_state import add_resizes, find_state, is_decision_enough

        state = find_state(pod, objects, now)
        if answer:
            add_resizes(state, answer, objects, now)
        if self._arguments.timeline:
            from herodotus_answers.live.pods.pod_timeline import build_timeline

            attempts = self._read_attempts(pod["metadata"])
            state["timeline"], state["unread"] = build_timeline(pod, objects, attempts), list(objects.unread)
            return state
        return None if answer and is_decision_enough(state, answer, now) else state

    def _read_attempts(self, meta: Json) -> list[Json]:
        """Return the recorded attempts at the pod with this metadata; [] if there are none, as always in local mode."""
        try:
            history = self._ask(api_paths.pod_history(meta["namespace"], meta["name"]))
        except CliError:
            return []
        return list(history["attempts"]) if history["metadata"].get("uid") == meta["uid"] else []

    def _read_queue(self, pod: Json) -> BatchQueue | None:
        """Return the queue of a pod that waits for Kueue or Volcano, else None."""
        if not self._connection.reaches_cluster or (pod.get("spec") or {}).get("nodeName"):
            return None
        from herodotus_cli import batch_queues

        return batch_queues.read_queue(pod, self._kubectl().get_from_api_server)

    def _ask_about_groups(self, answer: Json, *, is_reported: bool) -> PodNodeGroups | None:
        """Return the verdicts of the node groups on a pod without a node, or None if nothing requests them.

        A request is made with --node-groups, by the screen of local mode, which has read the cluster already, and
        where an autoscaler reported about the pod (`is_reported`) or runs, because no record says what stops its
        groups. Otherwise the screen shows those that the record has. Raises CliError if --node-groups has no answer.
        """
        asked = self._arguments.groups
        is_about_more = bool(self._arguments.attempt or self._arguments.node or self._arguments.history)
        has_screen = self._output.format in SCREEN_FORMATS and not is_about_more
        if asked is None and (not has_screen or needs_present_node(answer)):
            return None
        is_pending = _is_pending(answer)
        is_evaluated = (answer.get("attempt") or {}).get("source") == "evaluated"
        if asked is not None and not is_pending:
            raise CliError(_NOT_WAITING)
        if asked is None and not (is_pending and (is_evaluated or self._lacks_group_verdicts(answer, is_reported))):
            return None
        meta = answer["metadata"]
        question = (asked or {}) | {"pods": [f"{meta['namespace']}/{meta['name']}"]}
        try:
            return node_groups.ask_about_pod(question, self._connection, self._environment, local=is_evaluated)
        except CliError:
            if asked is not None:
                raise
            return None

    def _lacks_group_verdicts(self, answer: Json, is_reported: bool) -> bool:
        """Return whether a record says nothing of node groups, and there is an autoscaler that could enlarge them."""
        from herodotus_answers.live.pods.new_node_causes import has_autoscaler

        return not answer.get("nodeGroups") and (is_reported or has_autoscaler(self._open_objects()))

    def _correct_suggestions(self, answer: Json, lookup: PodLookup) -> Json:
        """Return the explanation with suggestions that fit the template of the pod that it is about, if that one waits.

        To go back to the previous template is one of them where a rollout made the pod. An answer about one node has
        none.
        """
        pod = lookup.pod or {}
        is_waiting = pod.get("kind") == "Pod" and not pod["spec"].get("nodeName")
        is_asked = not self._arguments.node and "suggestions" in answer  # an unknown document may lack them
        if not is_asked or not is_waiting or not _is_pending(answer):
            return answer
        if pod["metadata"].get("uid") != answer["metadata"].get("uid"):
            return answer
        from herodotus_answers.live.pods.template_overrides import correct_suggestions
        from herodotus_answers.live.workloads.workload_pods import add_undo

        objects = self._open_objects()
        return add_undo(correct_suggestions(answer, pod, objects), pod, objects, self._environment.now())

    def _add_group_result(self, answer: Json) -> Json:
        """Return the explanation, with its group's headline if the pod has found a node and waits for the group."""
        group = (answer.get("pod") or {}).get("podGroup")  # an unknown document may lack it
        if answer["kind"] != "PodExplanation" or not group or answer["attempt"]["source"] == "evaluated":
            return answer
        outcome, meta = answer["outcome"], answer["metadata"]
        if outcome["node"] is None or outcome["state"] not in ("Unschedulable", "Binding"):
            return answer
        try:
            result = self._ask(api_paths.pod_group_placement(meta["namespace"], group))
        except CliError:
            return answer
        return answer if result["state"] in ("Scheduled", "Fits") else answer | {"groupHeadline": result["headline"]}

    # --- where it is read -------------------------------------------------------------------------------------------

    def _ask(self, path: str) -> Json:
        from herodotus_cli.transport import connect

        return connect(self._connection, self._environment.environ).get(path)

    def _kubectl(self) -> KubectlTransport:
        from herodotus_cli.transport.kubectl import KubectlTransport

        return KubectlTransport(self._connection, self._environment.environ)

    def _open_objects(self) -> ClusterObjects:
        from herodotus_cli.transport import open_objects

        return open_objects(self._connection, self._environment.environ)


def _is_pending(answer: Json) -> bool:
    """Return whether an answer explains why a pod has no node. An unknown document may lack an outcome."""
    return answer["kind"] == "PodExplanation" and (answer.get("outcome") or {}).get("node", "") is None


def needs_present_node(answer: Json) -> bool:
    """Return whether the pod of an answer is of a DaemonSet, so that a new node gets another pod."""
    from herodotus_answers.live.objects import is_of_daemon_set

    return is_of_daemon_set((answer.get("pod") or {}).get("owner"))


def _read_reports(pod: Json, objects: ClusterObjects) -> list[EventReport]:
    """Return the autoscalers' events about a pod without a node, and about the NodeClaims that these events name.

    The result is [] if the pod has a node, or if events cannot be read.
    """
    if pod["spec"].get("nodeName"):
        return []
    from herodotus_answers.live.cluster_objects import read_event_time
    from herodotus_answers.node_groups import find_node_claims, list_autoscaler_reports

    events = objects.list_events({**pod, "kind": "Pod"})
    for name in find_node_claims(list_autoscaler_reports(events)):
        events += objects.list_events({"kind": "NodeClaim", "metadata": {"name": name}})
    return list_autoscaler_reports(sorted(events, key=read_event_time))


def _find_place(pod: Json, answer: Json, now: datetime, objects: ClusterObjects) -> QueuePlace | None:
    """Return the place of a pod that waits for a node in its scheduler's queue, or None if it does not wait there."""
    if pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates") or answer["outcome"]["node"] is not None:
        return None
    from herodotus_answers.live.pods.queue_place import find_place

    return find_place(pod, answer["attempt"], objects, now)


def read_live_facts(answer: Json, transport: KubectlTransport) -> LiveFacts | None:
    """Return the answers of the API server about a pending pod to requests, all at once; None if there are none.

    Everything is read with the user's rights. A request that fails leaves its part out.
    """
    from contextlib import ExitStack

    from herodotus_answers.live.pods.holders import find_held

    held = find_held(answer)
    needed = [right for suggestion in answer.get("suggestions") or () for right in suggestion["rights"]]
    if held is None and not needed:
        return None
    with ExitStack() as running:
        rights = running.enter_context(transport.rights(answer["metadata"]["namespace"])) if needed else None
        pods = running.enter_context(transport.pods_on_node(held.node)) if held else None
        missing = rights.find_missing(needed) if rights else []
        return LiveFacts(missing, _read_holders(held, pods) if held and pods else None)


def _read_holders(held: HeldObject, query: NodePodsQuery) -> Holders | HeldObject | None:
    """Return the holders, the object itself if the user may not list them, or None if the request failed."""
    from herodotus_answers.live.pods.holders import find_holders

    pods = query.pods()
    if pods is not None:
        return find_holders(held, pods)
    return held if query.is_forbidden else None
