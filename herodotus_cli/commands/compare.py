"""`kubectl herodotus compare pod A B` and `compare pod A --nodes X Y`: two pods, or two nodes for one.

Owns: its options and the questions they make up. Does not own: the screens.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import click

from herodotus_cli import live, missing, options
from herodotus_cli.connection import Connection
from herodotus_cli.context import Environment, given
from herodotus_cli.options import Output
from herodotus_cli.transport import questions

_KIND = ("pod", "pods", "po")


class Comparison(NamedTuple):
    """What is asked: `pods` are two, or one with two `nodes`. `namespace` empty: the context's."""

    namespace: str
    pods: tuple[str, ...]
    nodes: tuple[str, ...]
    attempt: int | None


@click.command(short_help="Two pods side by side, or two nodes for one pod.")
@click.argument("names", metavar="pod A [B]", nargs=-1, shell_complete=live.pods)
@options.namespace_option
@click.option(
    "--nodes", nargs=2, metavar="X Y", shell_complete=live.nodes, help="Two nodes for one pod, instead of two pods."
)
@click.option(
    "--attempt", type=options.WholeNumber(min=1), metavar="N", help="With --nodes: the pod's Nth attempt [last]."
)
@options.output_options
@options.connection_options
@click.pass_context
def compare(ctx: click.Context, /, names: tuple[str, ...], **_given: object) -> None:
    """Two pods side by side, or two nodes for one pod.

    Of two pods: where each went, what was different when the later one was decided, and how the nodes stood for both.
    Of two nodes: each filter's verdict, and the points of each plugin.

    \b
    kubectl herodotus compare pod checkout-7d9f-x2k checkout-7d9f-9pp
    kubectl herodotus compare pod checkout-7d9f-x2k --nodes worker-1 worker-3
    """
    pods = tuple(options.name_of("pod", name) for name in (names[1:] if names[:1] and names[0] in _KIND else names))
    nodes = tuple(options.name_of("node", name) for name in ctx.params["nodes"] or ())
    if len(pods) != (1 if nodes else 2):
        raise click.UsageError("compare two pods (A B), or one pod on two nodes (A --nodes X Y)")
    if len({*pods, *nodes}) < len(pods) + len(nodes):
        raise click.UsageError("compare two different ones")
    if ctx.params["attempt"] and not nodes:
        raise click.UsageError("--attempt needs --nodes: of two pods, the last attempts are compared")
    around = given(ctx).around
    question = Comparison(options.namespace(ctx), pods, nodes, ctx.params["attempt"])
    run(question, options.connection(ctx, around.environ), options.output(ctx), around)


def run(question: Comparison, connection: Connection, output: Output, around: Environment) -> None:
    """Asks and prints."""
    namespace = around.namespace(question.namespace, connection)
    if question.nodes:
        path = questions.node_comparison(namespace, question.pods[0], *question.nodes, attempt=question.attempt)
    else:
        path = questions.pod_comparison(namespace, *question.pods)
    ask = partial(around.ask, connection, path, output, "compared")
    answer = missing.answer(ask, question.pods[0], namespace, connection, around)
    from herodotus_cli.render import compared

    screen = compared.nodes if question.nodes else compared.pods
    around.show(answer, output, lambda view: screen(answer, view))
