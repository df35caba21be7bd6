"""`kubectl herodotus podgroup NAME`: how the pods of a PodGroup were placed together, or which of them block it.

Owns: its options and its request. Does not own: the screen.
"""

from __future__ import annotations

from functools import partial

import click

from herodotus_cli import completion_values, not_found, object_names, option_values, options
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, environment_of
from herodotus_cli.errors import ServerError
from herodotus_cli.option_values import OutputOptions
from herodotus_client import api_paths


@click.command(short_help="Show how a group's pods were placed together, or which blocks it.")
@click.argument("podgroup", metavar="NAME", shell_complete=completion_values.pod_groups)
@options.namespace_option
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def podgroup(ctx: click.Context, /, podgroup: str, **_given: object) -> None:
    """Show how the pods of a PodGroup were placed together, or which of them block the group.

    Shows the group's last scheduling cycle: which pods fit, which pod found no node and why, which nodes were full by
    then, and what would have been enough. Pods with equal reasons are one line; -o wide lists every pod.

    \b
    kubectl herodotus podgroup train -n ml
    kubectl herodotus podgroup train -o wide
    """
    environment = environment_of(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    namespace = environment.resolve_namespace(option_values.namespace(ctx), connection)
    run(object_names.parse_pod_group(podgroup), namespace, connection, option_values.output_options(ctx), environment)


def run(
    name: str, namespace: str, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch how a group was placed, and print it. With --watch, repeat it when decisions change."""
    once = partial(_once, name, namespace, connection, output, environment)
    environment.run_or_watch(once, connection, output, namespace)


def _once(
    name: str, namespace: str, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    path = api_paths.pod_group_placement(namespace, name)
    try:
        answer = environment.fetch(connection, path, output, "pod_group")
    except ServerError as e:
        raise e.with_hints(not_found.pod_group_hints(e)) from None
    from herodotus_cli.render import pod_group as screen

    environment.print_answer(answer, output, lambda view: screen.build_screen(answer, view))
