"""`kubectl herodotus node NAME`: how often a node was considered, rejected and chosen.

Owns: its options and its request. Does not own: the screen.
"""

from __future__ import annotations

from typing import NamedTuple

import click

from herodotus_cli import completion_values, not_found, object_names, option_values, options, parameter_types
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, environment_of
from herodotus_cli.errors import ServerError
from herodotus_cli.option_values import OutputOptions
from herodotus_client import api_paths


class NodeArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus node`: the node's name, and how many seconds to look back."""

    name: str
    since_s: float


@click.command(short_help="Show how often a node was considered, rejected and chosen.")
@click.argument("name", metavar="NODE", shell_complete=completion_values.nodes)
@click.option(
    "--since",
    type=parameter_types.PositiveDuration(),
    default="24h",
    metavar="DURATION",
    help="How far back, in whole hours [24h].",
)
@options.ignored_namespace_option
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def node(ctx: click.Context, /, name: str, since: float, **_given: object) -> None:
    """Show how often a node was considered, rejected and chosen, and why.

    NODE is NAME or node/NAME. Shows how often the node was feasible and chosen, the pass rate of each filter, its
    scores, what decided its wins and losses, and the last decisions.

    \b
    kubectl herodotus node worker-1
    kubectl herodotus node worker-1 --since 7d
    """
    environment = environment_of(ctx)
    arguments = NodeArguments(object_names.parse_name("node", name), since)
    run(
        arguments,
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )


def run(
    arguments: NodeArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch how often a node was considered, rejected and chosen, and print it. With --watch, repeat it on changes."""
    environment.run_or_watch(lambda: _once(arguments, connection, output, environment), connection, output)


def _once(
    arguments: NodeArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    try:
        answer = environment.fetch(
            connection, api_paths.node_history(arguments.name, since_s=arguments.since_s), output, "node"
        )
    except ServerError as e:
        raise e.with_hints(not_found.node_hints(e)) from None
    from herodotus_cli.render import node as node_screen

    environment.print_answer(answer, output, lambda view: node_screen.build_screen(answer, view))
