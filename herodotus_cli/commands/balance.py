"""`kubectl herodotus balance`: why the distribution over nodes is what it is, and what other weights would make of it.

Owns: its options and the question they make up. Does not own: the screen.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import click

from herodotus_cli import options
from herodotus_cli.connection import Connection
from herodotus_cli.context import Environment, given
from herodotus_cli.options import Output
from herodotus_cli.transport import questions


class Weights(click.ParamType[str]):
    """`PLUGIN=NUMBER`, several with commas; 0 leaves a plugin without a say."""

    name = "weights"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same text without spaces; a usage error for anything else."""
        text = str(value).replace(" ", "")
        if not re.fullmatch(r"[^=,]+=\d{1,6}(,[^=,]+=\d{1,6})*", text):
            self.fail(f"{value!r} is not PLUGIN=NUMBER,…: write NodeResourcesFit=5,ImageLocality=0", param, ctx)
        return text


class BalanceQuestion(NamedTuple):
    """What is asked."""

    since_s: float
    weights: str
    profile: str
    decisions: int | None
    labels: str


@click.command(short_help="Why pods spread over nodes as they do; with --weights, who would have won.")
@click.option(
    "--weights", type=Weights(), default=None, metavar="PLUGIN=N,…", help="Weigh the decisions again with these."
)
@options.selector_option
@options.SINCE
@click.option(
    "--decisions", type=options.WholeNumber(1, 1000), default=None, metavar="N", help="The newest N placements [200]."
)
@click.option("--profile", default="", metavar="NAME", help="Only of this profile (a pod's spec.schedulerName).")
@options.ignored_namespace_option
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def balance(ctx: click.Context, /, **_given: object) -> None:
    """Why pods spread over nodes as they do; with --weights, who would have won.

    Shows what each node won beside what it would have won if all nodes that fit were alike, what decided, and how many
    decisions each plugin turned. Each recorded decision is weighed for itself: what a pod that goes elsewhere leaves
    free is not followed.

    \b
    kubectl herodotus balance --since 7d
    kubectl herodotus balance --weights NodeResourcesFit=5,ImageLocality=0
    """
    around, given_ = given(ctx).around, ctx.params
    question = BalanceQuestion(
        given_["since"], given_["weights"] or "", given_["profile"], given_["decisions"], given_["selector"]
    )
    run(question, options.connection(ctx, around.environ), options.output(ctx), around)


def run(question: BalanceQuestion, connection: Connection, output: Output, around: Environment) -> None:
    """Asks and prints."""
    path = questions.balance(
        since_s=question.since_s,
        weights=question.weights,
        profile=question.profile,
        decisions=question.decisions,
        labels=question.labels,
    )
    selected = questions.Selected(labels=question.labels)
    around.answer(lambda: _once(path, connection, output, around), connection, output, selected=selected)


def _once(path: str, connection: Connection, output: Output, around: Environment) -> None:
    answer = around.ask(connection, path, output, "balance")
    from herodotus_cli.render import balance as balance_screen

    around.show(answer, output, lambda view: balance_screen.screen(answer, view))
