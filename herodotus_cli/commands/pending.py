"""`kubectl herodotus pending`: every pod that waits, by what most nodes said.

Owns: its options and the question they make up. Does not own: the screen.
"""

from __future__ import annotations

import sys
from functools import partial

import click

from herodotus_cli import options
from herodotus_cli.connection import Connection
from herodotus_cli.context import Surroundings, given
from herodotus_cli.options import Output
from herodotus_cli.transport import questions
from herodotus_cli.transport.live import GatedPods


@click.command(short_help="Pending pods by their dominant reason, and when each is tried again.")
@options.namespaces_options
@options.selector_option
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def pending(ctx: click.Context, /, **_given: object) -> None:
    """Pending pods by their dominant reason, and when each is tried again.

    The dominant reason is what most nodes said in the pod's last attempt. Pods that were not tried again when it was
    due are told apart: they were deleted since, or the scheduler does not run. Pods that wait for schedulingGates, and
    so were never tried, are asked of the API server.

    \b
    kubectl herodotus pending -A
    kubectl herodotus pending -n shop -l app=checkout
    kubectl herodotus pending -n shop -o name
    """
    around = given(ctx).around
    every, namespace = options.every_namespace(ctx), options.namespace(ctx)
    labels = ctx.params["selector"]
    run(namespace, every, labels, options.connection(ctx, around.environ), options.output(ctx), around)


def run(
    given_namespace: str, every: bool, labels: str, connection: Connection, output: Output, around: Surroundings
) -> None:
    """Asks and prints; where nothing waits, says so as kubectl does."""
    namespace = "" if every else around.namespace(given_namespace, connection)
    once = partial(_once, namespace, labels, connection, output, around)
    around.answer(once, connection, output, namespace, questions.Selected(labels=labels))


def _once(namespace: str, labels: str, connection: Connection, output: Output, around: Surroundings) -> None:
    with _gated_pods(namespace, labels, connection, around) as live:
        answer = around.ask(connection, questions.pending(namespace, labels=labels), output, "pending")
        gated = live.pods()
    if gated:
        from herodotus_cli import gated as gates  # here, because few clusters have such pods

        answer = gates.told_in(answer, gated)
    if not answer.get("pods") and output.format not in ("json", "yaml"):
        where = f" in {namespace} namespace; every namespace: -A" if namespace else ""
        print(f"No pending pods{where}.", file=sys.stderr)
        return
    from herodotus_cli.render import pending as pending_screen

    around.show(answer, output, lambda view: pending_screen.screen(answer, view))


def _gated_pods(namespace: str, labels: str, connection: Connection, around: Surroundings) -> GatedPods:
    """Asked beside the question. Only kubectl can ask for pods."""
    if connection.endpoint:
        return GatedPods()
    from herodotus_cli.transport.kubectl import KubectlTransport

    return KubectlTransport(connection, around.environ, around.begun).gated_pods(namespace, labels)
