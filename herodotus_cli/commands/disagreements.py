"""`kubectl herodotus disagreements`: does what another scheduler does follow from what an observer reconstructs?

Owns: its options and the question they make up. Does not own: the screen.
"""

from __future__ import annotations

from typing import NamedTuple

import click

from herodotus_cli import options
from herodotus_cli.connection import Connection
from herodotus_cli.context import Environment, given
from herodotus_cli.errors import print_to_stderr
from herodotus_cli.options import Output
from herodotus_cli.transport import questions

_OBSERVER = "to observe one: kubectl apply -f deploy/observer.yaml (docs/observer.md)"


class AgreementsQuestion(NamedTuple):
    """What is asked. `namespace` empty: the context's, unless `every`."""

    namespace: str
    every: bool
    since_s: float
    scheduler: str
    labels: str


@click.command(short_help="Decisions of other schedulers that the observer cannot explain, and how many it can.")
@options.namespaces_options
@options.selector_option
@options.SINCE
@click.option("--scheduler", default="", metavar="NAME", help="Only of this scheduler (a pod's spec.schedulerName).")
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def disagreements(ctx: click.Context, /, **_given: object) -> None:
    """Decisions of other schedulers that the observer cannot explain, and how many it can.

    An observer (python -m scheduler observe) evaluates again what another scheduler decided. Its outcome agrees where
    it follows from the cluster as it was seen, or as it was without what was in flight just then. Where it does not,
    the cause is told.

    \b
    kubectl herodotus disagreements -A
    kubectl herodotus disagreements -A --since 7d --scheduler default-scheduler
    """
    around = given(ctx).around
    every, namespace, chosen = options.every_namespace(ctx), options.namespace(ctx), ctx.params
    question = AgreementsQuestion(namespace, every, chosen["since"], chosen["scheduler"], chosen["selector"])
    run(question, options.connection(ctx, around.environ), options.output(ctx), around)


def run(question: AgreementsQuestion, connection: Connection, output: Output, around: Environment) -> None:
    """Asks and prints; where nothing was observed, says so and what would."""
    namespace = "" if question.every else around.namespace(question.namespace, connection)
    path = questions.agreements(
        namespace, since_s=question.since_s, scheduler=question.scheduler, labels=question.labels
    )
    selected = questions.Selected(labels=question.labels)
    around.answer(lambda: _once(path, namespace, connection, output, around), connection, output, namespace, selected)


def _once(path: str, namespace: str, connection: Connection, output: Output, around: Environment) -> None:
    answer = around.ask(connection, path, output, "disagreements")
    from herodotus_cli.render import disagreements as disagreements_screen

    if not answer.get("schedulers") and output.format not in ("json", "yaml"):
        where = f" in {namespace} namespace; every namespace: -A" if namespace else ""
        print_to_stderr(f"No decisions of other schedulers were observed{where}.", f"  {_OBSERVER}")
        return
    around.show(answer, output, lambda view: disagreements_screen.screen(answer, view))
