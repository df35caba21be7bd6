"""Asks a question about the whole cluster, a ClusterReview, and prints the answer.

Owns: the request, and the option that limits its time. Does not own: the changes in the question
(`commands.whatif_actions`), the screen.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from herodotus_answers.plans import MAX_TIME_S
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment
from herodotus_cli.errors import CliError, ServerError
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.parameter_types import WholeNumber
from herodotus_cli.progress import ProgressLine, note_after_delay
from herodotus_cli.transport import Transport, connect
from herodotus_client import api_paths

Json = dict[str, Any]

WAITING = "note: this what-if takes a moment to evaluate"
MAX_TRIES = 10  # while other questions are answered
RETRY_INTERVAL_S = 1.0
_MISSING_NODE = re.compile(r'nodes "([^"]+)" not found')
# Reasons for which the service has no answer, although the cluster may be read with the user's own rights.
_WITHOUT_SERVICE = ("ServiceUnavailable", "Timeout")
_LOCAL_HINT = "--local evaluates here, with your own rights"
PINNED = "Its controller pins one pod to each node: write a Pod manifest and use -f"
RESOURCES = {  # kinds of which more pods can be asked about
    "pod": "v1/pods",
    "deployment": "apps/v1/deployments",
    "statefulset": "apps/v1/statefulsets",
    "replicaset": "apps/v1/replicasets",
    "replicationcontroller": "v1/replicationcontrollers",
    "job": "batch/v1/jobs",
    "cronjob": "batch/v1/cronjobs",
}
SCALABLE = {
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "replicaset": "ReplicaSet",
    "replicationcontroller": "ReplicationController",
    "job": "Job",
}


time_limit_option = click.option(
    "--time-limit",
    type=WholeNumber(1, MAX_TIME_S),
    default=20,
    metavar="S",
    help="Seconds that the search for the answer may take [20].",
)


class ReviewOptions(NamedTuple):
    """The options of a question and of its answer's display.

    `title` names the question on the screen. `cluster_files` holds paths of files with the objects to use instead of a
    running cluster. `every_row` is --all.
    """

    title: str
    cluster_files: tuple[str, ...]
    every_row: bool


def run(
    spec: Json,
    options: ReviewOptions,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> bool:
    """Ask the question, print the answer, and return whether the question's aim is met, as `meets_aim` says."""
    answer = fetch_answer(spec, options, connection, environment)
    print_answer(answer, options, output, environment)
    return meets_aim(answer)


def fetch_answer(spec: Json, options: ReviewOptions, connection: ConnectionSettings, environment: Environment) -> Json:
    """Return the answer to a question, from the cluster or from the files of the options. Raises CliError."""
    if options.cluster_files:
        from herodotus_cli.transport.local import review_files

        return review_files(options.cluster_files, connection, _build_document(spec))
    try:
        answer = ask(connect(connection, environment.environ), spec)
    except ServerError as e:
        missing = _MISSING_NODE.search(e.words)
        raise (e.with_hints(list_node_hints(missing[1], connection, environment)) if missing else e) from None
    from herodotus_cli.admission_refusals import add_refusals  # here, because most commands create no pods

    add_refusals(spec, answer["status"], connection, environment.environ)
    return answer


def print_answer(answer: Json, options: ReviewOptions, output: OutputOptions, environment: Environment) -> None:
    """Print an answer as its screen or, in the other formats, as the document."""
    from herodotus_cli.render import cluster_review as screen

    environment.print_answer(
        answer, output, lambda view: screen.build_screen(answer, options.title, view, every_row=options.every_row)
    )


def meets_aim(answer: Json) -> bool:
    """Return whether the aim of the answer's question is met.

    A question for a plan needs one. Pods that the descheduler evicts must land on other nodes. For other questions,
    every pod must find or keep a node, none may be blocked or refused by a quota, and no rule of another version may
    reject one that fits now.
    """
    status = answer["status"]
    if status.get("refusals"):
        return False
    if status.get("plan"):
        return bool(status["plan"]["verdict"] != "NoPlan")
    if status.get("deschedule"):
        from herodotus_answers.descheduling import POINTLESS  # here, because few questions need it

        if any(each["outcome"] in POINTLESS for each in status["deschedule"]["evictions"]):
            return False
    changes = (status.get("upgrade") or {}).get("changes", ())
    rejected = any(each["change"] in ("FitsNoMore", "NodeRejects") for each in changes)
    return not rejected and not status["blocked"] and all(pod["node"] for pod in status["placements"])


def _build_document(spec: Json) -> Json:
    return {"apiVersion": "herodotus.dev/v1alpha1", "kind": "ClusterReview", "spec": spec}


def ask(transport: Transport, spec: Json) -> Json:
    """Return the complete answer to a question, which the service may give only after further requests.

    Raises CliError if there is none. Where there is no service, the transport answers locally.
    """
    document, progress = _build_document(spec), ProgressLine()
    progress.expect(spec)
    try:
        with note_after_delay(WAITING):
            answer = post_question(transport, api_paths.cluster_reviews(), document)
        while (status := answer["status"]).get("phase") == "Running":
            so_far = status["progress"]
            progress.report_decided(so_far["done"], so_far["total"], so_far.get("smallestPlan", 0))
            continued = document | {"spec": {"continue": status["continue"]}}
            answer = post_question(transport, api_paths.cluster_reviews(), continued)
        return answer
    finally:
        progress.clear()


def post_question(transport: Transport, path: str, document: Json) -> Json:
    """Post a what-if and return the response. While the service answers TooManyRequests, post it again.

    Raises CliError, with hints, for any other error or after MAX_TRIES posts.
    """
    for left in range(MAX_TRIES, 0, -1):
        try:
            return transport.post(path, document)
        except ServerError as e:
            if e.reason != "TooManyRequests" or left == 1:
                raise e.with_hints(_list_hints(e)) from None
        time.sleep(RETRY_INTERVAL_S)
    raise AssertionError("the last try returns or raises")


def _list_hints(e: ServerError) -> list[str]:
    if e.reason == "NotFound" and "answers reviews; these do" in e.words:
        return ["choose one of them: --scheduler NAME"]
    return [_LOCAL_HINT] if e.reason in _WITHOUT_SERVICE else []


def list_node_hints(name: str, connection: ConnectionSettings, environment: Environment) -> list[str]:
    """Return hints with the nodes that the user may have meant by a name that no node has; if it is empty, with some.

    They are [] where no node can be read.
    """
    if not connection.reaches_cluster:
        return []
    from herodotus_cli.not_found import missing_node_hints  # here, because most nodes exist
    from herodotus_cli.transport import open_objects

    return missing_node_hints(name, open_objects(connection, environment.environ).list_objects("Node").items)


def find_object_kind(name: str, namespace: str, connection: ConnectionSettings, environment: Environment) -> str:
    """Return the kind of the pod, or else the workload, with a name: a key of RESOURCES. Raises CliError otherwise.

    Where no objects can be read, it is `pod`.
    """
    if not connection.reaches_cluster:
        return "pod"
    from herodotus_cli.transport import open_objects
    from herodotus_cli.workload_lookup import find_kind

    kind = find_kind(name, namespace, open_objects(connection, environment.environ), or_pod=True)
    if kind not in RESOURCES:
        raise click.UsageError(f"{name} is a {kind}. {PINNED}")
    return kind


def fetch_object(
    kind: str, name: str, namespace: str, connection: ConnectionSettings, environment: Environment
) -> Json:
    """Return a pod or workload from the API server. `kind` is a key of RESOURCES, or empty if it is to be looked up.

    Raises CliError with --endpoint, because only kubectl can read it, and with --cluster.
    """
    if not connection.reaches_cluster:
        option = "--cluster" if connection.cluster else "--endpoint"
        raise CliError(
            f"error: {kind or 'pod'}/{name} must be read from the API server: leave out {option}",
            ["or give its manifest: -f FILE"],
        )
    from herodotus_cli.transport.kubectl import KubectlTransport

    transport = KubectlTransport(connection, environment.environ)
    try:
        return transport.get_from_api_server(api_paths.cluster_object(RESOURCES[kind or "pod"], namespace, name))
    except ServerError as e:
        if e.reason != "NotFound":
            raise
        if not kind:  # a workload of this name, if no pod has it
            found = find_object_kind(name, namespace, connection, environment)
            return fetch_object(found, name, namespace, connection, environment)
        from herodotus_answers.workload import get_kind_name  # here and below, because most objects exist
        from herodotus_cli.not_found import elsewhere_hints
        from herodotus_cli.transport import open_objects
        from herodotus_cli.workload_lookup import list_name_hints

        everywhere = api_paths.cluster_objects_named(RESOURCES[kind], name)
        objects = open_objects(connection, environment.environ)
        hints = [] if kind == "pod" else list_name_hints(get_kind_name(kind), name, namespace, objects)
        hints = hints or elsewhere_hints(lambda: transport.get_from_api_server(everywhere), namespace)
        raise e.with_hints(hints) from None


def join_names(names: Sequence[str]) -> str:
    """Return names for the title of a screen: at most three of them, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
