"""`kubectl herodotus preemptions`: which pods were evicted to make room, and for which pods.

Owns: its options and its request. Does not own: the screen.
"""

from __future__ import annotations

from functools import partial

import click

from herodotus_cli import option_values, options
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, environment_of
from herodotus_cli.errors import print_to_stderr
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.output_formats import is_document
from herodotus_cli.sorting import SortKey, sort_option, sort_rows
from herodotus_client import api_paths

SORT_KEYS = {
    "time": SortKey(("at",)),
    "node": SortKey(("node",)),
    "preemptor": SortKey(("preemptor", "pod")),
    "priority": SortKey(("preemptor", "priority"), largest_first=True),
}


@options.command(short_help="List pods that were evicted to make room, and for which pods.")
@options.namespaces_options
@options.since_option
@sort_option(SORT_KEYS, "the newest first")
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def preemptions(ctx: click.Context, /, since: float, **_given: object) -> None:
    """List preemptions: which pods were evicted to make room, on which node, and for which pod.

    A preemption is listed in the namespace of the pod that needed room and in those of its victims.
    For one evicted pod, the command pod shows which pod took its place.

    \b
    kubectl herodotus preemptions -A
    kubectl herodotus preemptions -n batch --since 7d
    """
    environment = environment_of(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    every, namespace = option_values.all_namespaces(ctx), option_values.namespace(ctx)
    namespace = "" if every else environment.resolve_namespace(namespace, connection)
    output = option_values.output_options(ctx)
    once = partial(_once, namespace, since, ctx.params["sort_key"], connection, output)
    environment.run_or_watch(once, connection, output, namespace)


def _once(
    namespace: str,
    since_s: float,
    sort_key: SortKey | None,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> None:
    """Fetch the preemptions of the last `since_s` seconds and print them; of all namespaces if `namespace` is empty."""
    path = api_paths.preemptions(namespace, since_s=since_s)
    answer = environment.fetch(connection, path, output, "preemptions")
    if not answer["preemptions"] and not is_document(output.format):
        from herodotus_cli.render.formatting import format_duration

        scope = f" in {namespace} namespace; every namespace: -A" if namespace else ""
        print_to_stderr(f"No preemptions in the last {format_duration(since_s)}{scope}.")
        return
    answer = sort_rows(answer, "preemptions", sort_key)
    from herodotus_cli.render import preemptions as preemptions_screen

    environment.print_answer(answer, output, lambda view: preemptions_screen.build_screen(answer, view))
