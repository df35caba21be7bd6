"""`kubectl herodotus whatif`: where pods would go that nobody creates.

Owns: its options and the question they make up. Does not own: reading files (`manifests`), the screen, the way without
a cluster (`offline`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from herodotus_cli import live, options
from herodotus_cli.connection import Connection
from herodotus_cli.context import Environment, Json, given
from herodotus_cli.errors import CliError, ServerError, print_to_stderr
from herodotus_cli.options import Output
from herodotus_cli.transport import connect, questions

MOST = 100  # pods; the service's own limit
TRIES = 10  # while others ask
PAUSE_S = 1.0
NOTE_S = 2.0  # of silence: most answers take a tenth of that
_PODS = ("pod", "pods", "po")
_RESOURCES = {
    "pod": "v1/pods",
    "deployment": "apps/v1/deployments",
    "statefulset": "apps/v1/statefulsets",
    "replicaset": "apps/v1/replicasets",
    "replicationcontroller": "v1/replicationcontrollers",
    "job": "batch/v1/jobs",
    "cronjob": "batch/v1/cronjobs",
}


class WhatIf(NamedTuple):
    """What is asked. Either `file` or `kind` and `name`. `cluster`: files instead of a cluster."""

    file: str
    kind: str
    name: str
    namespace: str
    replicas: int | None
    node: str
    every_node: bool
    scheduler: str
    cluster: tuple[str, ...]


@click.command(short_help="Where pods would go that nobody creates, and what stops the next one.")
@click.argument("words", metavar="[pod NAME | KIND/NAME]", nargs=-1, shell_complete=live.asked_about)
@click.option("-f", "--filename", "file", metavar="FILE", default="", help="A manifest, YAML or JSON; - is stdin.")
@options.namespace_option
@click.option(
    "--replicas",
    type=options.WholeNumber(1, MOST),
    metavar="N",
    help="So many pods, one after the other [as many as the object says].",
)
@click.option(
    "--node", metavar="NODE", default="", shell_complete=live.nodes, help="Why (not) this node, for the first of them."
)
@click.option("--all", "every_node", is_flag=True, help="Every pod, and every node with every filter's verdict.")
@click.option("--scheduler", metavar="NAME", default="", help="As if the object named this scheduler.")
@click.option(
    "--cluster",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Without a cluster: its objects as kubectl get -o yaml printed them, repeatable; needs the servers' package.",
)
@options.output_options
@options.connection_options
@click.pass_context
def whatif(ctx: click.Context, /, words: tuple[str, ...], file: str, **_given: object) -> None:
    """Where pods would go that nobody creates, and what stops the next one.

    Asks the scheduler to decide them on a copy of what it knows this moment: filters, scores, and whom preemption would
    evict. Nothing is created, evicted or recorded. A pod that exists is asked about as if it were not there; a
    workload's pods come on top of those that it has.

    \b
    kubectl herodotus whatif -f pod.yaml
    kubectl herodotus whatif -f deployment.yaml --replicas 20
    kubectl herodotus whatif pod payments-0 -n shop --node worker-3
    kubectl herodotus whatif deploy/checkout --replicas 5
    kubectl herodotus whatif -f pod.yaml --cluster nodes.yaml --cluster pods.yaml
    """
    if bool(words) == bool(file):
        raise click.UsageError("say what: -f FILE, pod NAME, or KIND/NAME")
    if ctx.params["cluster"] and not file:
        raise click.UsageError("--cluster goes with -f FILE: there is no cluster to ask for the object")
    kind, name = _object_of(words) if words else ("", "")
    question = WhatIf(
        file=file,
        kind=kind,
        name=name,
        namespace=options.namespace(ctx),
        replicas=ctx.params["replicas"],
        node=options.name_of("node", ctx.params["node"]) if ctx.params["node"] else "",
        every_node=ctx.params["every_node"],
        scheduler=ctx.params["scheduler"],
        cluster=ctx.params["cluster"],
    )
    around = given(ctx).around
    run(question, options.connection(ctx, around.environ), options.output(ctx), around)


def run(question: WhatIf, connection: Connection, output: Output, around: Environment) -> None:
    """Asks and prints."""
    answer = _offline(question, connection, around) if question.cluster else _asked(question, connection, around)
    from herodotus_cli.render import whatif as whatif_screen

    def screen(view: Any) -> Sequence[Any]:
        return whatif_screen.screen(answer, view, every_node=question.every_node, one_node=bool(question.node))

    around.show(answer, output, screen)


def _object_of(words: Sequence[str]) -> tuple[str, str]:
    """`pod NAME`, `pod/NAME`, `deploy/NAME`, `deploy NAME` -> (kind, NAME)."""
    if len(words) > 2:
        raise click.UsageError(f"one object at a time: {' '.join(words)[:60]!r} names several")
    text = "/".join(words)
    if text in _PODS:
        raise click.UsageError(f"name the pod: {text} NAME")
    if "/" not in text or text.partition("/")[0] in _PODS:
        return "pod", options.name_of("pod", text)
    kind, name = options.workload_of(text)
    if kind not in _RESOURCES:
        raise click.UsageError(
            f"a {kind} has a pod for each node, which its controller pins there: ask with -f, as a Pod"
        )
    return kind, name


def _asked(question: WhatIf, connection: Connection, around: Environment) -> Json:
    from herodotus_cli import manifests

    obj = manifests.read(question.file) if question.file else None
    written = str((obj.get("metadata") or {}).get("namespace") or "") if obj else ""
    namespace = around.namespace(question.namespace or written, connection)
    if written and written != namespace:
        said = f'the namespace from the provided object "{written}" does not match the namespace "{namespace}"'
        raise CliError(f"error: {said}. You must pass '--namespace={written}' to perform this operation.")
    if obj is None:
        obj = _live(question, namespace, connection, around)
    spec: Json = {"object": obj, "node": question.node, "allNodes": question.every_node}
    spec |= {"schedulerName": question.scheduler} | ({"replicas": question.replicas} if question.replicas else {})
    body = {"apiVersion": "herodotus.dev/v1alpha1", "kind": "PlacementReview", "spec": spec}
    transport, path = connect(connection, around.environ), questions.reviews(namespace)
    with _note_after(NOTE_S, "note: waiting for the scheduler's answer"):
        for left in range(TRIES, 0, -1):
            try:
                return transport.post(path, body)
            except ServerError as e:
                if e.reason != "TooManyRequests" or left == 1:
                    raise e.with_hints(_hints(e, connection)) from None
            time.sleep(PAUSE_S)
    raise AssertionError("the last try returns or raises")


@contextmanager
def _note_after(seconds: float, note: str) -> Iterator[None]:
    """Says on stderr what is waited for, where the block takes so long."""
    timer = threading.Timer(seconds, lambda: print_to_stderr(note))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _live(question: WhatIf, namespace: str, connection: Connection, around: Environment) -> Json:
    """The object that exists. Only kubectl can ask for it."""
    if connection.endpoint:
        raise CliError(
            f"error: {question.kind}/{question.name} is asked of the API server: leave out --endpoint",
            ["or give the manifest: -f FILE"],
        )
    from herodotus_cli.transport.kubectl import KubectlTransport

    path = questions.live_object(_RESOURCES[question.kind], namespace, question.name)
    return KubectlTransport(connection, around.environ).get_of_cluster(path)


def _hints(e: ServerError, connection: Connection) -> list[str]:
    if e.reason == "NotFound" and "answers reviews; these do" in e.words:
        return ["decide it as if it named one of them: --scheduler NAME"]
    if e.reason in ("ServiceUnavailable", "Timeout") and "scheduler" in e.words:
        return [f"is the scheduler running?  kubectl -n {connection.service.namespace} get pods"]
    return []


def _offline(question: WhatIf, connection: Connection, around: Environment) -> Json:
    from herodotus_cli import offline

    arguments = ["--cluster", *question.cluster, "--pod", question.file]
    named = {"--replicas": question.replicas, "--node": question.node, "--namespace": question.namespace}
    named["--scheduler"] = question.scheduler
    arguments += [word for name, value in named.items() if value for word in (name, str(value))]
    arguments += ["--all-nodes"] * question.every_node
    sys.stdout.flush()
    return offline.review(arguments, around.environ, connection.request_timeout_s)
