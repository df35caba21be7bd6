"""`kubectl herodotus pending`: every pod that waits, by what most nodes said.

Owns: its options and the question they make up. Does not own: the screen.
"""

from __future__ import annotations

from functools import partial

import click

from herodotus_cli import options
from herodotus_cli.connection import Connection
from herodotus_cli.context import Environment, given
from herodotus_cli.errors import print_to_stderr
from herodotus_cli.options import Output
from herodotus_cli.transport import questions
from herodotus_cli.transport.live import UnassignedPods


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
    due are told apart: the scheduler does not run. The API server is asked which pods still wait, and which wait for
    schedulingGates and so were never tried; with --endpoint it is not, and deleted pods count as not tried again.

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
    given_namespace: str, every: bool, labels: str, connection: Connection, output: Output, around: Environment
) -> None:
    """Asks and prints; where nothing waits, says so as kubectl does."""
    namespace = "" if every else around.namespace(given_namespace, connection)
    once = partial(_once, namespace, labels, connection, output, around)
    around.answer(once, connection, output, namespace, questions.Selected(labels=labels))


def _once(namespace: str, labels: str, connection: Connection, output: Output, around: Environment) -> None:
    with (
        _unassigned_pods(namespace, labels, connection, around) as live,
        # which pods exist does not depend on labels, which may have changed since a decision
        _unassigned_pods(namespace, "", connection, around) if labels else live as every,
    ):
        answer = around.ask(connection, questions.pending(namespace, labels=labels), output, "pending")
        gated, unassigned = live.gated(), every.uids() if answer.get("pods") else None
    if unassigned is not None:
        from herodotus_record.pending import remove_deleted_pods

        answer = remove_deleted_pods(answer, unassigned)
    if gated:
        from herodotus_cli import gated as gates  # here, because few clusters have such pods

        answer = gates.told_in(answer, gated)
    if not answer.get("pods") and output.format not in ("json", "yaml"):
        where = f" in {namespace} namespace; every namespace: -A" if namespace else ""
        print_to_stderr(f"No pending pods{where}.")
        return
    from herodotus_cli.render import pending as pending_screen

    around.show(answer, output, lambda view: pending_screen.screen(answer, view))


def _unassigned_pods(namespace: str, labels: str, connection: Connection, around: Environment) -> UnassignedPods:
    """Asked beside the question. Only kubectl can ask for pods."""
    if connection.endpoint:
        return UnassignedPods()
    from herodotus_cli.transport.kubectl import KubectlTransport

    return KubectlTransport(connection, around.environ, around.begun).unassigned_pods(namespace, labels)
