"""`kubectl herodotus node NAME`: what a node was considered for, and how it fared.

Owns: its options and the question they make up. Does not own: the screen.
"""

from __future__ import annotations

from typing import NamedTuple

import click

from herodotus_cli import live, missing, options
from herodotus_cli.connection import Connection
from herodotus_cli.context import Environment, given
from herodotus_cli.errors import ServerError
from herodotus_cli.options import Output
from herodotus_cli.transport import questions


class NodeQuestion(NamedTuple):
    """What is asked."""

    name: str
    since_s: float


@click.command(short_help="What a node was considered for, and how it fared.")
@click.argument("name", metavar="NODE", shell_complete=live.nodes)
@click.option(
    "--since", type=options.Since(), default="24h", metavar="DURATION", help="How far back, in whole hours [24h]."
)
@options.ignored_namespace_option
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def node(ctx: click.Context, /, name: str, since: float, **_given: object) -> None:
    """What a node was considered for, and how it fared.

    NODE is NAME or node/NAME. Shows how often it was feasible and chosen, how often each filter lets it pass, its
    scores, what it won and lost by, and the last decisions.

    \b
    kubectl herodotus node worker-1
    kubectl herodotus node worker-1 --since 7d
    """
    around = given(ctx).around
    question = NodeQuestion(options.name_of("node", name), since)
    run(question, options.connection(ctx, around.environ), options.output(ctx), around)


def run(question: NodeQuestion, connection: Connection, output: Output, around: Environment) -> None:
    """Asks and prints."""
    around.answer(lambda: _once(question, connection, output, around), connection, output)


def _once(question: NodeQuestion, connection: Connection, output: Output, around: Environment) -> None:
    try:
        answer = around.ask(connection, questions.node_history(question.name, since_s=question.since_s), output, "node")
    except ServerError as e:
        raise e.with_hints(missing.node_hints(e)) from None
    from herodotus_cli.render import node as node_screen

    around.show(answer, output, lambda view: node_screen.screen(answer, view))
