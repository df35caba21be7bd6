"""`kubectl herodotus clusters`: the clusters whose records the decisions service has.

Owns: its options and its request. Does not own: the screen, which clusters the user may read (the decisions service).
"""

from __future__ import annotations

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
    "name": SortKey(("displayName",)),
    "id": SortKey(("metadata", "name")),
    "age": SortKey(("lastSeenAt",), largest_first=True),
    "missing": SortKey(("missing",), largest_first=True),
}


@options.command(short_help="List the clusters whose records the service has.")
@sort_option(SORT_KEYS, "by ID")
@options.ignored_namespace_option
@options.output_options
@options.connection_options
@click.pass_context
def clusters(ctx: click.Context, /, **_given: object) -> None:
    """List the clusters whose records the decisions service has and you may read.

    A cluster's ID is the UID of its namespace kube-system; its name is that of its sender's certificate. Every command
    takes either one with --cluster. AGE is that of the latest record; MISSING counts records that never arrived.

    \b
    kubectl herodotus clusters
    kubectl herodotus pod checkout-7d9f-x2k -n shop --cluster cluster-b
    """
    environment = environment_of(ctx)
    connection, output = option_values.connection_settings(ctx, environment.environ), option_values.output_options(ctx)
    run(ctx.params["sort_key"], connection, output, environment)


def run(
    sort_key: SortKey | None, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch the clusters and print them, or print a sentence on stderr if there are none."""
    answer = environment.fetch(connection, api_paths.clusters(), output, "lists")
    if not answer["items"] and not is_document(output.format):
        print_to_stderr("No clusters with records that you may read.")
        return
    answer = sort_rows(answer, "items", sort_key)
    from herodotus_cli.render import lists

    environment.print_answer(answer, output, lambda view: lists.build_clusters(answer, view))
