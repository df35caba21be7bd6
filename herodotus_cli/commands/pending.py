"""`kubectl herodotus pending`: every pod that waits, by what most nodes said.

Owns: its options and the question they make up. Does not own: the screen.
"""

from __future__ import annotations

import sys

import click

from herodotus_cli import options
from herodotus_cli.connection import Connection
from herodotus_cli.context import Surroundings, given
from herodotus_cli.options import Output
from herodotus_cli.transport import questions


@click.command(short_help="Pending pods by their dominant reason, and when each is tried again.")
@options.namespaces_options
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def pending(ctx: click.Context, /, **_given: object) -> None:
    """Pending pods by their dominant reason, and when each is tried again.

    The dominant reason is what most nodes said in the pod's last attempt. Pods that were not tried again when it was
    due are told apart: they were deleted since, or the scheduler does not run.

    \b
    kubectl herodotus pending -A
    kubectl herodotus pending -n shop -o name
    """
    around = given(ctx).around
    every, namespace = options.every_namespace(ctx), options.namespace(ctx)
    run(namespace, every, options.connection(ctx, around.environ), options.output(ctx), around)


def run(given_namespace: str, every: bool, connection: Connection, output: Output, around: Surroundings) -> None:
    """Asks and prints; where nothing waits, says so as kubectl does."""
    namespace = "" if every else around.namespace(given_namespace, connection)
    around.answer(lambda: _once(namespace, connection, output, around), connection, output, namespace)


def _once(namespace: str, connection: Connection, output: Output, around: Surroundings) -> None:
    answer = around.ask(connection, questions.pending(namespace), output)
    from herodotus_cli.render import pending as pending_screen

    if not answer.get("pods") and output.format not in ("json", "yaml"):
        where = f" in {namespace} namespace; every namespace: -A" if namespace else ""
        print(f"No pending pods{where}.", file=sys.stderr)
        return
    around.show(answer, output, lambda view: pending_screen.screen(answer, view))
