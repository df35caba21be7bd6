"""`kubectl herodotus disagreements`: outcomes of another scheduler that the observer's evaluation does not explain.

Owns: its options and its request. Does not own: the screen.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import click

from herodotus_answers.unrecorded import OBSERVE
from herodotus_cli import completion_values, option_values, options
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, environment_of
from herodotus_cli.errors import print_to_stderr
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.output_formats import is_document
from herodotus_cli.sorting import SortKey, sort_option, sort_rows
from herodotus_client import api_paths

SORT_KEYS = {
    "time": SortKey(("at",)),
    "pod": SortKey(("pod",)),
    "node": SortKey(("node",)),
    "cause": SortKey(("cause",)),
}
_OBSERVER = f"to observe one: {OBSERVE} (docs/observer.md)"


class DisagreementsArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus disagreements`.

    With `every`, all namespaces count. If `namespace` is empty, that of the kubeconfig's current context is used.
    `labels` is a label selector.
    """

    namespace: str
    every: bool
    since_s: float
    scheduler: str
    labels: str
    sort_key: SortKey | None = None


@options.command(short_help="Show outcomes of other schedulers that no rule explains.")
@options.namespaces_options
@options.selector_option
@options.since_option
@sort_option(SORT_KEYS, "the newest first")
@click.option(
    "--scheduler",
    default="",
    metavar="NAME",
    shell_complete=completion_values.schedulers,
    help="Only decisions of this scheduler (spec.schedulerName).",
)
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def disagreements(ctx: click.Context, /, **_given: object) -> None:
    """Show the decisions of other schedulers that the observer cannot explain.

    An observer (docs/observer.md) evaluates again what another scheduler decided. The two agree if the outcome follows
    from the cluster as it was observed, or without the changes that were in flight at that moment. Otherwise the cause
    is shown.

    \b
    kubectl herodotus disagreements -A
    kubectl herodotus disagreements -A --since 7d --scheduler default-scheduler
    """
    environment = environment_of(ctx)
    every, namespace, chosen = option_values.all_namespaces(ctx), option_values.namespace(ctx), ctx.params
    arguments = DisagreementsArguments(
        namespace, every, chosen["since"], chosen["scheduler"], chosen["selector"], chosen["sort_key"]
    )
    run(
        arguments,
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )


def run(
    arguments: DisagreementsArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch the outcomes that the observer cannot explain, and print them.

    If no outcome was observed, print how to set up an observer. With --watch, repeat it when decisions change.
    """
    namespace = "" if arguments.every else environment.resolve_namespace(arguments.namespace, connection)
    path = api_paths.agreements(
        namespace, since_s=arguments.since_s, scheduler=arguments.scheduler, labels=arguments.labels
    )
    selector = api_paths.DecisionSelector(labels=arguments.labels)
    once = partial(_once, path, namespace, arguments.sort_key, connection, output)
    environment.run_or_watch(once, connection, output, namespace, selector)


def _once(
    path: str,
    namespace: str,
    sort_key: SortKey | None,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> None:
    answer = environment.fetch(connection, path, output, "disagreements")
    from herodotus_cli.render import disagreements as disagreements_screen

    if not answer.get("schedulers") and not is_document(output.format):
        scope = f" in {namespace} namespace; every namespace: -A" if namespace else ""
        print_to_stderr(f"No decisions of other schedulers were observed{scope}.", f"  {_OBSERVER}")
        return
    answer = sort_rows(answer, "disagreements", sort_key)
    environment.print_answer(answer, output, lambda view: disagreements_screen.build_screen(answer, view))
