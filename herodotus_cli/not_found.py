"""Hints for an object without decisions: similar names, other namespaces, what the API server knows about the pod.

For a pod that was just created, the answer waits for the first decision, so that `kubectl create` and
`kubectl herodotus pod` can be pasted together.

Owns: these hints and that wait. Does not own: the errors that get the hints (`errors`), requests.

Invariant: a hint never replaces the error; a failed lookup costs only its hint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.errors import CliError, ServerError, print_to_stderr
from herodotus_cli.transport.api_server_queries import PodLookup
from herodotus_client import api_paths

if TYPE_CHECKING:
    from herodotus_answers.live.workload_objects import Workload
    from herodotus_cli.environment import Environment

Json = dict[str, Any]

# A younger pod may get its first decision at any moment: schedulers take milliseconds, delivery a second.
MAX_FRESH_AGE_S = 10.0
FIRST_DECISION_TIMEOUT_S = 5.0
RETRY_INTERVAL_S = 0.3
_MAX_NAMES = 5  # similar names or other namespaces in a hint
_NO_RECORDS = [
    "this service has no records of the cluster's schedulers yet; after an installation they take a minute or two",
    "for an older installation: see the scheduler's log",
    "records of other clusters: kubectl herodotus clusters",
]
_POD_COLUMNS = "custom-columns=SCHEDULER:.spec.schedulerName,NODE:.spec.nodeName,GATES:.spec.schedulingGates[*].name"


class PodRequest(NamedTuple):
    """The pod that a command asks about, and the cluster in which to look for it."""

    name: str
    namespace: str
    connection: ConnectionSettings
    environment: Environment


def similar_name_hints(error: ServerError) -> list[str]:
    """Return a hint with the similar names in the error's details, or [] if there are none."""
    names = error.details.get("similar") or []
    return [f"similar: {', '.join(names[:_MAX_NAMES])}"] if names else []


def node_hints(error: ServerError) -> list[str]:
    """Return the hints to add to the error for a node that no decision considered."""
    return _no_records_hints(error) or similar_name_hints(error)


def missing_node_hints(name: str, nodes: Iterable[Json]) -> list[str]:
    """Return hints with the nodes that the user may have meant by a name which none of these Node objects has.

    They are the nodes that have it as the value of a label, such as that of an instance type or a node group, or those
    with similar names, or some of all nodes.
    """
    from difflib import get_close_matches

    from herodotus_record.units import join_limited, natural_sort_key  # here, because only failures need it

    labels = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes}
    names = sorted(labels, key=natural_sort_key)
    for key in sorted({key for each in labels.values() for key, value in each.items() if value == name}):
        having = [each for each in names if labels[each].get(key) == name]
        return [f"nodes with the label {key}={name}: {join_limited(having, _MAX_NAMES)}"]
    if similar := get_close_matches(name, names, n=3):
        return [f"similar: {', '.join(similar)}"]
    if not names:
        return []
    listed = join_limited(names, _MAX_NAMES, "kubectl herodotus node")
    return [f"nodes: {listed}", "node groups, with their nodes: kubectl herodotus nodegroups"]


def workload_hints(error: ServerError) -> list[str]:
    """Return the hints to add to the error for a workload without placements; [] for any other error."""
    if error.reason != "NotFound":
        return []
    return _no_records_hints(error) or [
        *similar_name_hints(error),
        "in another namespace: -n NAMESPACE",
        "further back: --since 7d",
    ]


def elsewhere_hints(list_everywhere: Callable[[], Json], namespace: str) -> list[str]:
    """Return a hint with the namespaces that have an object of the name which `namespace` does not have.

    `list_everywhere` returns the list of the objects of this name in all namespaces. If that fails, as without the
    right to it, or if there is none, the hint says how to name a namespace.
    """
    try:
        items = list_everywhere().get("items") or []
    except CliError:
        items = []
    found = sorted({str(item["metadata"]["namespace"]) for item in items})
    if not found:
        return [f"looked for in namespace {namespace}; another one: -n NAMESPACE"]
    more = f", … {len(found) - _MAX_NAMES} more" if len(found) > _MAX_NAMES else ""
    return [f"in other namespaces: {', '.join(found[:_MAX_NAMES])}{more} (-n {found[0]})"]


def pod_group_hints(error: ServerError) -> list[str]:
    """Return the hints to add to the error for a pod group without decisions; [] for any other error."""
    if error.reason != "NotFound":
        return []
    return _no_records_hints(error) or [*similar_name_hints(error), "in another namespace: -n NAMESPACE"]


def fetch_pod_answer(
    ask: Callable[[], Json],
    request: PodRequest,
    answer_undecided: Callable[[Json, CliError], Json] | None = None,
) -> Json:
    """Call `ask`, which requests the document about the pod of `request`, and return that document.

    If the pod was just created, wait for its first decision.

    `answer_undecided` builds the document about an existing pod without a decision, or about one that local mode cannot
    evaluate. Its arguments are the Pod object, and why there is no decision. Raises CliError, with hints, if the pod
    does not exist or cannot be read, or if the decisions service does not answer.
    """
    try:
        return ask()
    except Exception as e:
        if isinstance(e, ServerError) and is_without_decision(e):
            return _answer_without_decision(e, ask, request, answer_undecided)
        hints = [*similar_name_hints(e), *_attempt_hints(e)] if isinstance(e, ServerError) else []
        failure = e.with_hints(hints) if isinstance(e, ServerError) else e
        wants_traceback = not isinstance(e, CliError) and request.environment.environ.get("HERODOTUS_DEBUG") == "1"
        if answer_undecided is None or wants_traceback or not _failed_to_evaluate(request):
            raise failure from None
        lookup = _look_up_pod(request)
        if lookup.refusal is not None:
            right = (
                f"the right to get pods in namespace {request.namespace} is needed: not even whether it exists is known"
            )
            raise lookup.refusal.with_hints([right, *(e.hints if isinstance(e, ServerError) else ())]) from None
        if not lookup.pod:
            if lookup.known and isinstance(e, ServerError):
                failure = e.with_hints([*hints, *_list_owner_hints(request)])
            raise failure from None
        if not isinstance(e, CliError):
            e = CliError("error: local mode cannot evaluate this cluster; HERODOTUS_DEBUG=1 shows why")
        return answer_undecided(lookup.pod, e)


def _answer_without_decision(
    error: ServerError,
    ask: Callable[[], Json],
    request: PodRequest,
    answer_undecided: Callable[[Json, CliError], Json] | None,
) -> Json:
    """Return the document about a pod of which `error` says that it has no decision.

    It is that of its first decision if the pod is new, otherwise what `answer_undecided` builds. Raises `error`, with
    hints, if the pod does not exist or `answer_undecided` is None.
    """
    absent = request._replace(name=str(error.details.get("name") or request.name))
    lookup = _look_up_pod(absent)
    if lookup.pod and _is_fresh(lookup.pod, request.environment.now()):
        try:
            return _wait_for_first_decision(ask)
        except ServerError as later:
            error = later
    if lookup.pod and answer_undecided:
        return answer_undecided(lookup.pod, error)
    raise error.with_hints(_pod_hints(error, absent, lookup)) from None


def _list_owner_hints(request: PodRequest) -> list[str]:
    """Return hints with who deleted the pod, or the state of the workload that makes pods of such names, or []."""
    from herodotus_answers.live.workload_objects import find_maker
    from herodotus_answers.live.workloads.deletions import list_deletions
    from herodotus_cli.transport import open_objects

    objects = open_objects(request.connection, request.environment.environ)
    ends = list_deletions(request.name, request.namespace, objects, request.environment.now())
    maker = find_maker(request.name, request.namespace, objects, request.environment.now())
    if maker is None:
        return ends
    if maker.name == request.name:
        see = f"kubectl herodotus workload {maker.short} -n {maker.namespace}"
        return [*ends, f"{maker.label} has this name: {see}"]
    return [*ends, *_describe_maker(maker)]


def list_selected_hints(
    labels: str, namespace: str, connection: ConnectionSettings, environment: Environment
) -> list[str]:
    """Return hints with the state of the pods that labels such as `app=web,tier=front` select.

    Without such pods, they have the state of the workloads that make them. If `namespace` is empty, all count. The
    result is [] for a selector with other operators.
    """
    from herodotus_answers.live.pods.pod_state import find_state
    from herodotus_answers.live.workload_objects import find_makers
    from herodotus_cli.transport import open_objects

    pairs = [part.strip().replace("==", "=").partition("=") for part in labels.split(",")]
    if not all(sign and key and not key.endswith("!") for key, sign, _ in pairs):
        return []
    selector = {key.strip(): value.strip() for key, _, value in pairs}
    objects, now = open_objects(connection, environment.environ), environment.now()
    listed = objects.list_objects("Pod", namespace).items
    pods = [pod for pod in listed if selector.items() <= (pod["metadata"].get("labels") or {}).items()]
    if not pods:
        return [hint for maker in find_makers(selector, namespace, objects, now) for hint in _describe_maker(maker)]
    hints = []
    for pod in pods[:_MAX_NAMES]:
        name = f"{pod['metadata']['name']} -n {pod['metadata']['namespace']}"
        hints.append(f"{pod['metadata']['name']}: {find_state(pod, objects, now)['headline']}")
        hints.append(f"  more: kubectl herodotus pod {name}")
    return [*hints, *([f"… {len(pods) - _MAX_NAMES} more pods"] if len(pods) > _MAX_NAMES else [])]


def _describe_maker(maker: Workload) -> list[str]:
    """Return hints with the state of a workload that makes pods of which none exists under the name or labels."""
    from herodotus_answers.live.workloads.situation import Situation
    from herodotus_answers.live.workloads.workload_state import find_state

    headline = find_state(Situation(maker, lambda _: None))["headline"]
    see = f"kubectl herodotus workload {maker.short} -n {maker.namespace}"
    return [f"{maker.label} makes such pods: {headline}", f"more: {see}"]


def _failed_to_evaluate(request: PodRequest) -> bool:
    """Return whether local mode has read the cluster for this command, so that a failure is one of the evaluation."""
    from herodotus_cli.transport import has_read_locally  # here, because most answers succeed

    return has_read_locally(request.connection)


def describe_missing_decision(error: CliError, pod: Json, request: PodRequest) -> list[str]:
    """Return sentences on why an existing pod has no decision or evaluation; [] if the pod's state says it.

    `error` is the error of the request for the pod's explanation.
    """
    from herodotus_answers.live.objects import has_ended, was_created_with_node

    if not isinstance(error, ServerError):
        return [f"not evaluated: {error.message.removeprefix('error: ')}"]
    if pod["spec"].get("schedulingGates") or was_created_with_node(pod):  # the state says why there is no decision
        return []
    if is_without_decision(error):
        if _failed_to_evaluate(request):  # local mode evaluates no pod that is being deleted
            return []
        return _no_records_hints(error)[:1] or [_explain_missing_record(pod)]
    if has_ended(pod) and error.reason != "Forbidden":  # local mode evaluates none that has ended
        return []
    return [f"not evaluated: {error.words}"]


def _no_records_hints(error: ServerError) -> list[str]:
    """Return hints if the error says that the decisions service has no records of the cluster, otherwise []."""
    return _NO_RECORDS if error.details.get("noRecords") else []


def is_without_decision(error: ServerError) -> bool:
    """Return whether the error says that the service has no decision about the pod."""
    is_missing = error.reason == "NotFound" and error.words.startswith("no decision for pod")
    return is_missing and " with attempt" not in error.words


def _attempt_hints(error: ServerError) -> list[str]:
    missing = error.reason == "NotFound" and " with attempt" in error.words
    return ["the last attempt: leave out --attempt", "all of them: --attempts"] if missing else []


def _look_up_pod(request: PodRequest) -> PodLookup:
    """Ask the API server for the Pod object. With --endpoint or --cluster the result is unknown."""
    if not request.connection.reaches_cluster:
        return PodLookup()
    from herodotus_cli.transport.kubectl import KubectlTransport

    transport = KubectlTransport(request.connection, request.environment.environ)
    try:
        pod = transport.get_from_api_server(api_paths.cluster_pod(request.namespace, request.name))
    except ServerError as e:
        is_absent = e.reason == "NotFound" and e.words.startswith("pods ")
        return PodLookup(known=is_absent, refusal=e if e.reason == "Forbidden" else None)
    except CliError:
        return PodLookup()
    return PodLookup(True, pod) if pod.get("kind") == "Pod" else PodLookup()


def _is_fresh(pod: Json, now: datetime) -> bool:
    """Return whether the pod is so new that its first decision may arrive at any moment.

    A pod with scheduling gates or created with spec.nodeName is not, because no scheduler decides it.
    """
    from herodotus_answers.live.objects import (
        was_created_with_node,
    )  # here and below, because most pods have a decision

    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
    undecided = pod["spec"].get("schedulingGates") or was_created_with_node(pod)
    return not undecided and (now - created).total_seconds() < MAX_FRESH_AGE_S


def _wait_for_first_decision(ask: Callable[[], Json]) -> Json:
    """Call `ask` repeatedly until the pod has a decision, and return its document.

    Raises the last ServerError after FIRST_DECISION_TIMEOUT_S, and any other ServerError at once.
    """
    print_to_stderr("note: the pod was just created; waiting for its first decision")
    until = time.monotonic() + FIRST_DECISION_TIMEOUT_S
    while True:
        time.sleep(RETRY_INTERVAL_S)
        try:
            return ask()
        except ServerError as e:
            if not is_without_decision(e) or time.monotonic() > until:
                raise


def _pod_hints(error: ServerError, request: PodRequest, lookup: PodLookup) -> list[str]:
    """Return the hints for a pod without decisions.

    They name similar pods, namespaces with a pod of that name, and why there may be no record.
    """
    nothing = _no_records_hints(error)
    if nothing and not (lookup.known and not lookup.pod):
        return nothing
    elsewhere = error.details.get("otherNamespaces") or []
    named = [f"in other namespaces: {', '.join(elsewhere[:_MAX_NAMES])}"] if elsewhere else []
    if lookup.pod:
        return [*named, _explain_missing_record(lookup.pod)]
    if lookup.known:
        return [
            *similar_name_hints(error),
            *named,
            f"the API server has no such pod in namespace {request.namespace}{'' if nothing else ' either'}",
            *(_list_owner_hints(request) or nothing),
        ]
    return [
        *similar_name_hints(error),
        *named,
        "if the pod exists: another scheduler decides it, spec.nodeName was set, another client bound it, it waits for"
        " its schedulingGates, or its record was pruned. To see which:",
        _kubectl_command(request) if not request.connection.cluster else "kubectl get pod, with that cluster's context",
    ]


def _explain_missing_record(pod: Json) -> str:
    """Return a sentence on why the existing pod has no record, as far as its Pod object shows it."""
    from herodotus_answers.live.objects import read_scheduler, was_created_with_node

    spec = pod["spec"]
    scheduler, node = read_scheduler(pod), spec.get("nodeName")
    gates = [str(gate.get("name")) for gate in spec.get("schedulingGates") or ()]
    if gates:
        return (
            f"the pod waits for its schedulingGates ({', '.join(gates)}): no scheduler tries it before they are removed"
        )
    if was_created_with_node(pod):
        return f"the pod was created with spec.nodeName {node}: no scheduler decided it"
    if node:
        return (
            f"the pod is on {node}, and its schedulerName is {scheduler}: it is not recorded, spec.nodeName was set,"
            " another client bound it, or its record was pruned"
        )
    return (
        f"no decision of {scheduler}, its schedulerName, is recorded. To explain its pods, observe that scheduler"
        " (docs/observer.md) or set a schedulerName that is recorded. A recorded scheduler may be down, or may not have"
        " tried the pod yet"
    )


def _kubectl_command(request: PodRequest) -> str:
    """Return a `kubectl get pod` command with which the user can see why the pod has no record."""
    import shlex  # here, because only this failure needs it

    connection = request.connection
    command = ["kubectl", "get", "pod", request.name, "-n", request.namespace]
    command += ["--context", connection.context] * bool(connection.context)
    command += ["--kubeconfig", connection.kubeconfig] * bool(connection.kubeconfig)
    return shlex.join([*command, "-o", _POD_COLUMNS])
