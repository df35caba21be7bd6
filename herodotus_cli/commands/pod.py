"""`kubectl herodotus pod NAME`: what happened to a pod, and why.

Owns: its options, the question they make up, what helps when there is no answer. Does not own: the screens.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from herodotus_cli import live, missing, options
from herodotus_cli.connection import Connection
from herodotus_cli.context import SCREENS, Environment, Json, given
from herodotus_cli.options import Output
from herodotus_cli.transport import questions
from herodotus_cli.transport.live import DELETED, REPLACED, LivePod

if TYPE_CHECKING:
    from herodotus_cli.render.blocks import Block, View

_FATES = {
    DELETED: "note: this pod no longer exists: it was deleted after this decision",
    REPLACED: "note: this is an earlier pod of that name; the pod that exists now has no decision yet",
}


class PodQuestion(NamedTuple):
    """What is asked. `namespace` empty: the context's."""

    name: str
    namespace: str
    attempt: int | None
    every_node: bool
    node: str
    full: bool
    history: bool


@click.command(short_help="Why a pod is on its node, or Pending.")
@click.argument("name", metavar="POD", shell_complete=live.pods)
@options.namespace_option
@click.option("--attempt", type=options.WholeNumber(min=1), metavar="N", help="The pod's Nth attempt [the last one].")
@click.option("--attempts", "history", is_flag=True, help="Every attempt, and what changed from each to the next.")
@click.option("--all", "every_node", is_flag=True, help="Every node: verdict of every filter, every score.")
@click.option(
    "--node",
    "node",
    metavar="NODE",
    default="",
    shell_complete=live.nodes,
    help="Why (not) this node, and what would have to change.",
)
@options.watch_option
@options.output_options
@click.option("--full", is_flag=True, help="With -o json or yaml: the whole record instead of the answer.")
@options.connection_options
@click.pass_context
def pod(ctx: click.Context, /, name: str, full: bool, **_given: object) -> None:
    """Why a pod is on its node, or why it is Pending.

    POD is NAME or pod/NAME. Shows the last scheduling attempt: the node and what decided for it, the scores of the
    best nodes, and why the others were rejected.

    \b
    kubectl herodotus pod checkout-7d9f-x2k -n shop
    kubectl herodotus pod payments-0 --node worker-3
    kubectl herodotus pod payments-0 --attempts
    kubectl herodotus pod payments-0 --all -o json
    """
    output = options.output(ctx)
    if full and output.format not in ("json", "yaml"):
        raise click.UsageError("--full needs -o json or -o yaml")
    if full and (ctx.params["every_node"] or ctx.params["node"]):
        raise click.UsageError("--full is the whole record: leave out --all and --node")
    if output.watch and ctx.params["attempt"]:
        raise click.UsageError("--watch is about what comes: leave out --attempt")
    narrowed = [ctx.params[name] not in (None, False, "") for name in ("attempt", "every_node", "node")]
    if ctx.params["history"] and (full or any(narrowed)):
        raise click.UsageError("--attempts stands alone: leave out --attempt, --all, --node and --full")
    question = PodQuestion(
        name=options.name_of("pod", name),
        namespace=options.namespace(ctx),
        attempt=ctx.params["attempt"],
        every_node=ctx.params["every_node"],
        node=options.name_of("node", ctx.params["node"]) if ctx.params["node"] else "",
        full=full,
        history=ctx.params["history"],
    )
    around = given(ctx).around
    run(question, options.connection(ctx, around.environ), output, around)


def run(question: PodQuestion, connection: Connection, output: Output, around: Environment) -> None:
    """Asks and prints."""
    namespace = around.namespace(question.namespace, connection)
    selected = questions.Selected(f"spec.pod={question.name}")
    once = partial(_once, question, namespace, connection, output, around)
    around.answer(once, connection, output, namespace, selected)


def _once(question: PodQuestion, namespace: str, connection: Connection, output: Output, around: Environment) -> None:
    if question.history:
        path = questions.pod_history(namespace, question.name)
    elif question.full:
        path = questions.decision(namespace, question.name, attempt=question.attempt)
    else:
        path = questions.pod_explanation(
            namespace,
            question.name,
            attempt=question.attempt,
            every_node=question.every_node,
            node=question.node,
        )
    screen = "attempts" if question.history else "node_of_pod" if question.node else "pod"
    with _live_pod(question, connection, output, around, namespace) as live:
        ask = partial(around.ask, connection, path, output, screen)
        answer = missing.answer(ask, question.name, namespace, connection, around, _of_gated)
        fate = live.fate(answer)
    _show(answer, question, output, around, fate=fate)


def _live_pod(
    question: PodQuestion, connection: Connection, output: Output, around: Environment, namespace: str
) -> LivePod:
    """For a screen about the last attempt: whether the pod is another one by now. Only kubectl can ask for pods."""
    if connection.endpoint or question.attempt is not None or output.format not in SCREENS:
        return LivePod()
    from herodotus_cli.transport.kubectl import KubectlTransport

    return KubectlTransport(connection, around.environ, around.begun).live_pod(namespace, question.name)


def _show(answer: Json, question: PodQuestion, output: Output, around: Environment, *, fate: str) -> None:
    from herodotus_cli.render.blocks import Line

    def screen(view: View) -> list[Block]:
        note: list[Block] = [Line(_FATES[fate])] if fate else []
        return [*note, *_screen(answer, question, view)]

    around.show(answer, output, screen)


def _of_gated(pod: Json) -> Json:
    from herodotus_cli import gated  # here, because few pods have gates

    return gated.document(pod)


def _screen(answer: Json, question: PodQuestion, view: View) -> list[Block]:
    """What was asked for, by the one screen that it needs."""
    if answer["kind"] == "GatedPod":
        from herodotus_cli import gated

        return gated.screen(answer, view)
    if question.history:
        from herodotus_cli.render import attempts

        return attempts.screen(answer, view)
    if question.node:
        from herodotus_cli.render import node_of_pod

        return node_of_pod.screen(answer, view, every_node=question.every_node)
    from herodotus_cli.render import pod as pod_screen

    return pod_screen.screen(answer, view, every_node=question.every_node)
