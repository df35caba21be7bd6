"""`kubectl herodotus balance`: why pods are distributed over nodes as they are, and the effect of other weights.

Owns: its options and its request. Does not own: the screen.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, NamedTuple

import click

from herodotus_cli import completion_values, option_values, options, parameter_types
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, environment_of
from herodotus_cli.option_values import OutputOptions
from herodotus_client import api_paths

# kube-scheduler's plugins that score nodes by default.
_SCORING = (
    "DynamicResources",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "TaintToleration",
    "VolumeBinding",
)


class Weights(click.ParamType[str]):
    """The type of the option --weights: `PLUGIN=NUMBER`, separated by commas. 0 removes a plugin's influence."""

    name = "weights"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the weights as text without spaces, or fail with a usage error if they have another form."""
        text = str(value).replace(" ", "")
        if not re.fullmatch(r"[^=,]+=\d{1,6}(,[^=,]+=\d{1,6})*", text):
            self.fail(f"{value!r} is not PLUGIN=NUMBER,…: write NodeResourcesFit=5,ImageLocality=0", param, ctx)
        return text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Return the plugins whose names start with what follows the last comma, each with `=`."""
        from click.shell_completion import CompletionItem  # here, because only completion needs it

        before, comma, last = incomplete.rpartition(",")
        names = (name for name in _SCORING if name.lower().startswith(last.lower()))
        return [CompletionItem(f"{before}{comma}{name}=") for name in names]


class BalanceArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus balance`.

    `weights` is text such as `NodeResourcesFit=5`, `decisions` the number of newest placements to use, and `labels` a
    label selector. Empty text or None means that an option was not given.
    """

    since_s: float
    weights: str
    profile: str
    decisions: int | None
    labels: str


@options.command(short_help="Explain how pods spread over nodes, or would by others.")
@click.option(
    "--weights",
    type=Weights(),
    default=None,
    metavar="PLUGIN=N,…",
    help="Weigh the recorded decisions again with these weights.",
)
@options.selector_option
@options.since_option
@click.option(
    "--decisions",
    type=parameter_types.WholeNumber(1, 1000),
    default=None,
    metavar="N",
    help="The newest N placements [200].",
)
@click.option(
    "--profile",
    default="",
    metavar="NAME",
    shell_complete=completion_values.schedulers,
    help="Only decisions of this profile (spec.schedulerName).",
)
@options.ignored_namespace_option
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def balance(ctx: click.Context, /, **_given: object) -> None:
    """Explain how pods spread over nodes; with --weights, who would have won.

    Shows what each node won beside what it would have won if all feasible nodes had scored the same, what decided, and
    how many winners each plugin changed. Each recorded decision is weighed on its own: room that a pod leaves free
    elsewhere is not taken into account.

    \b
    kubectl herodotus balance --since 7d
    kubectl herodotus balance --weights NodeResourcesFit=5,ImageLocality=0
    """
    environment, given_ = environment_of(ctx), ctx.params
    arguments = BalanceArguments(
        given_["since"], given_["weights"] or "", given_["profile"], given_["decisions"], given_["selector"]
    )
    run(
        arguments,
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )


def run(
    arguments: BalanceArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch how the recorded decisions spread pods over nodes, and print it. With --watch, repeat it on changes."""
    path = api_paths.balance(
        since_s=arguments.since_s,
        weights=arguments.weights,
        profile=arguments.profile,
        decisions=arguments.decisions,
        labels=arguments.labels,
    )
    selector = api_paths.DecisionSelector(labels=arguments.labels)
    environment.run_or_watch(partial(_once, path, connection, output), connection, output, selector=selector)


def _once(path: str, connection: ConnectionSettings, output: OutputOptions, environment: Environment) -> None:
    answer = environment.fetch(connection, path, output, "balance")
    from herodotus_cli.render import balance as balance_screen

    environment.print_answer(answer, output, lambda view: balance_screen.build_screen(answer, view))
