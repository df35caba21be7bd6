"""`kubectl herodotus watch`: decisions as they come, a line each.

Owns: its options and the lines. Does not own: the stream (`following`).
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timezone
from typing import NamedTuple

import click

from herodotus_cli import following, live, options
from herodotus_cli.connection import Connection
from herodotus_cli.context import SCREENS, Environment, Json, given
from herodotus_cli.options import Output
from herodotus_cli.transport import connect, questions


class Watching(NamedTuple):
    """What is asked. `namespace` empty: the context's, unless `every`."""

    namespace: str
    every: bool
    node: str
    last: int
    binding: bool
    labels: str


@click.command(short_help="Decisions as they come.")
@options.namespaces_options
@click.option("--node", default="", metavar="NODE", shell_complete=live.nodes, help="Only pods that went to this node.")
@click.option(
    "--last", type=options.WholeNumber(0, 500), default=10, metavar="N", help="Begin with the last N decisions [10]."
)
@options.selector_option
@click.option("--binding", is_flag=True, help="Also decisions that are not bound yet; each is told again when it is.")
@options.output_options
@options.connection_options
@click.pass_context
def watch(ctx: click.Context, /, **_given: object) -> None:
    """Decisions as they come, a line each, until you end it.

    \b
    kubectl herodotus watch -A
    kubectl herodotus watch -n shop --node worker-3 -o json
    """
    around, chosen = given(ctx).around, ctx.params
    node = options.name_of("node", chosen["node"]) if chosen["node"] else ""
    every = options.every_namespace(ctx)
    question = Watching(options.namespace(ctx), every, node, chosen["last"], chosen["binding"], chosen["selector"])
    run(question, options.connection(ctx, around.environ), options.output(ctx), around)


def run(question: Watching, connection: Connection, output: Output, around: Environment) -> None:
    """Prints decisions until it is interrupted."""
    namespace = "" if question.every else around.namespace(question.namespace, connection)
    selected = questions.Selected(f"status.node={question.node}" if question.node else "", question.labels)
    transport = connect(connection, around.environ)
    from herodotus_cli.render.stream import Lines

    lines = Lines(terminal=around.width() if around.on_terminal(output) else None, color=around.color(output))
    if output.format in SCREENS and output.headers:
        around.out.write(lines.header())
    stream = following.decisions(transport, namespace, selected, question.last, binding=question.binding)
    with closing(stream) as found:  # kubectl ends with it
        for decision in found:
            around.out.write(_written(decision, output, lines))
            around.out.flush()


def _written(decision: Json, output: Output, lines: object) -> str:
    from herodotus_cli.render.stream import Lines

    assert isinstance(lines, Lines)
    if output.format not in SCREENS:
        from herodotus_cli.render import documents

        return documents.streamed(decision, output.format)
    return lines.line(decision, datetime.now(timezone.utc).astimezone().tzinfo)
