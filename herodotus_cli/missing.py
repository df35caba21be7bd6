"""What helps when there is no answer about something: names alike, other places, what the API server knows of a pod.

A pod that was just created has no decision yet: its first one is waited for, so that two commands in one paste do what
they say.

Owns: these hints, that wait. Does not own: the errors that they stand below (`errors`), requests.

Invariant: a hint never replaces the error; what cannot be looked up costs the hint alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from herodotus_cli.connection import Connection
from herodotus_cli.errors import CliError, ServerError, print_to_stderr
from herodotus_cli.transport import questions

if TYPE_CHECKING:
    from herodotus_cli.context import Environment

Json = dict[str, Any]

FRESH_S = 10.0  # a pod younger than that may be decided any moment: schedulers take milliseconds, delivery a second
PATIENCE_S = 5.0  # of someone who has just created it
AGAIN_S = 0.3
_NAMED = 5  # similar names or other namespaces in a hint
_NO_RECORDS = [
    "no scheduler's records ever came to this service; those of a new installation take a minute or two",
    "if it is older: the scheduler's log says why they wait",
]
_WHOSE = "custom-columns=SCHEDULER:.spec.schedulerName,NODE:.spec.nodeName,GATES:.spec.schedulingGates[*].name"


class Looked(NamedTuple):
    """What the API server says of a pod. `pod` None: there is none, where that is `known`."""

    known: bool = False
    pod: Json | None = None


def similar(error: ServerError) -> list[str]:
    """Names like the one that was asked for."""
    names = error.details.get("similar") or []
    return [f"similar: {', '.join(names[:_NAMED])}"] if names else []


def node_hints(error: ServerError) -> list[str]:
    """For a node that no decision considered."""
    return _empty(error) or similar(error)


def workload_hints(error: ServerError) -> list[str]:
    """For a workload without a placement."""
    if error.reason != "NotFound":
        return []
    return _empty(error) or [*similar(error), "in another namespace: -n NAMESPACE", "further back: --since 7d"]


def answer(
    ask: Callable[[], Json],
    pod: str,
    namespace: str,
    connection: Connection,
    around: Environment,
    of_gated: Callable[[Json], Json] | None = None,
) -> Json:
    """What is answered about a pod, of one that was just created as soon as there is an answer.

    `of_gated`: makes the answer about a pod that waits for its scheduling gates, given the pod of the API server.
    ServerError with what helps, where there is no answer.
    """
    try:
        return ask()
    except ServerError as e:
        if not _says_no_decision(e):
            raise e.with_hints([*similar(e), *_attempt_hints(e)]) from None
        absent = str(e.details.get("name") or pod)
        looked = _look(absent, namespace, connection, around)
        if looked.pod and of_gated and looked.pod["spec"].get("schedulingGates"):
            return of_gated(looked.pod)
        if looked.pod and _is_fresh(looked.pod, around.now()):
            try:
                return _first(ask)
            except ServerError as later:
                e = later
        raise e.with_hints(_pod_hints(e, absent, namespace, connection, looked)) from None


def _empty(error: ServerError) -> list[str]:
    """For a service that was never sent anything; [] where it was."""
    return _NO_RECORDS if error.details.get("noRecords") else []


def _says_no_decision(error: ServerError) -> bool:
    """Whether it says that a pod has no decision at all."""
    said = error.reason == "NotFound" and error.words.startswith("no decision for pod")
    return said and " with attempt" not in error.words


def _attempt_hints(error: ServerError) -> list[str]:
    missing = error.reason == "NotFound" and " with attempt" in error.words
    return ["the last attempt: leave out --attempt", "all of them: --attempts"] if missing else []


def _look(pod: str, namespace: str, connection: Connection, around: Environment) -> Looked:
    """The pod that exists. Only kubectl can ask for it."""
    if connection.endpoint:
        return Looked()
    from herodotus_cli.transport.kubectl import KubectlTransport

    transport = KubectlTransport(connection, around.environ)
    try:
        found = transport.get_of_cluster(questions.live_pod(namespace, pod))
    except CliError as e:
        return Looked(known=isinstance(e, ServerError) and e.reason == "NotFound" and e.words.startswith("pods "))
    return Looked(True, found) if found.get("kind") == "Pod" else Looked()


def _is_fresh(pod: Json, now: datetime) -> bool:
    """Whether its first decision may come any moment."""
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
    undecided = pod["spec"].get("schedulingGates") or _was_created_with_node(pod)
    return not undecided and (now - created).total_seconds() < FRESH_S


def _was_created_with_node(pod: Json) -> bool:
    """Whether the pod had spec.nodeName from the start, so that no scheduler decides it.

    Binding sets the condition PodScheduled and leaves no trace of spec.nodeName among the managed fields.
    """
    if not pod["spec"].get("nodeName"):
        return False
    fields = [entry.get("fieldsV1") or {} for entry in pod["metadata"].get("managedFields") or ()]
    if any("f:nodeName" in (field.get("f:spec") or {}) for field in fields):
        return True
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not any(condition.get("type") == "PodScheduled" for condition in conditions)


def _first(ask: Callable[[], Json]) -> Json:
    """The answer, as soon as there is one; after PATIENCE_S the error that there is none."""
    print_to_stderr("note: the pod was created just now; waiting for its first decision")
    until = time.monotonic() + PATIENCE_S
    while True:
        time.sleep(AGAIN_S)
        try:
            return ask()
        except ServerError as e:
            if not _says_no_decision(e) or time.monotonic() > until:
                raise


def _pod_hints(error: ServerError, pod: str, namespace: str, connection: Connection, looked: Looked) -> list[str]:
    """Pods called alike, the same name elsewhere, and why there may be no record."""
    if nothing := _empty(error):
        return nothing
    elsewhere = error.details.get("otherNamespaces") or []
    named = [f"in other namespaces: {', '.join(elsewhere[:_NAMED])}"] if elsewhere else []
    if looked.pod:
        return [*named, _why(looked.pod)]
    if looked.known:
        return [*similar(error), *named, f"nor is there such a pod in namespace {namespace} now"]
    return [
        *similar(error),
        *named,
        "if it exists: it is another scheduler's, spec.nodeName was set, someone else bound it, it waits for its"
        " schedulingGates, or its record was pruned:",
        _command(pod, namespace, connection),
    ]


def _why(pod: Json) -> str:
    """Why a pod that exists has no record, as far as the pod shows it."""
    spec = pod["spec"]
    scheduler, node = spec.get("schedulerName") or "default-scheduler", spec.get("nodeName")
    gates = [str(gate.get("name")) for gate in spec.get("schedulingGates") or ()]
    if gates:
        return f"it waits for its schedulingGates ({', '.join(gates)}): no scheduler tries it before they are gone"
    if _was_created_with_node(pod):
        return f"it was created with spec.nodeName {node}: no scheduler decided it"
    if node:
        return (
            f"it is on {node}, and its schedulerName is {scheduler}: that one does not record, spec.nodeName was set,"
            " someone else bound it, or its record was pruned"
        )
    return (
        f"no decision of {scheduler}, its schedulerName, is recorded. To explain its pods, observe that scheduler"
        " (docs/observer.md) or name one that records; one that does may not run, or not have tried the pod yet"
    )


def _command(pod: str, namespace: str, connection: Connection) -> str:
    """The command that shows which of the reasons it is, ready to be pasted into a shell."""
    import shlex  # here, because only this failure needs it

    command = ["kubectl", "get", "pod", pod, "-n", namespace]
    command += ["--context", connection.context] * bool(connection.context)
    command += ["--kubeconfig", connection.kubeconfig] * bool(connection.kubeconfig)
    return shlex.join([*command, "-o", _WHOSE])
