"""`kubectl herodotus watch`: new decisions, one per line.

Owns: its options and the lines. Does not own: the stream (`decision_watch`).
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timezone
from typing import NamedTuple

import click

from herodotus_cli import completion_values, decision_watch, object_names, option_values, options, parameter_types
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import SCREEN_FORMATS, Environment, Json, environment_of
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.transport import connect
from herodotus_client import api_paths


class WatchArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus watch`.

    With `every`, all namespaces count. If `namespace` is empty, that of the kubeconfig's current context is used.
    `last` is the number of past decisions to begin with; with `binding`, decisions that are being bound are shown too.
    """

    namespace: str
    every: bool
    node: str
    last: int
    binding: bool
    labels: str


@options.command(short_help="Print new decisions as they are made.")
@options.namespaces_options
@click.option(
    "--node",
    default="",
    metavar="NODE",
    shell_complete=completion_values.nodes,
    help="Only pods placed on this node.",
)
@click.option(
    "--last",
    type=parameter_types.WholeNumber(0, 500),
    default=10,
    metavar="N",
    help="Begin with the last N decisions [10].",
)
@options.selector_option
@click.option("--binding", is_flag=True, help="Also decisions in binding; each is printed again with its result.")
@options.output_options
@options.connection_options
@click.pass_context
def watch(ctx: click.Context, /, **_given: object) -> None:
    """Print new decisions, one per line, until interrupted.

    \b
    kubectl herodotus watch -A
    kubectl herodotus watch -n shop --node worker-3 -o json
    """
    environment, chosen = environment_of(ctx), ctx.params
    node = object_names.parse_name("node", chosen["node"]) if chosen["node"] else ""
    every = option_values.all_namespaces(ctx)
    arguments = WatchArguments(
        option_values.namespace(ctx), every, node, chosen["last"], chosen["binding"], chosen["selector"]
    )
    run(
        arguments,
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )


def run(
    arguments: WatchArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Print the last decisions and then each new one, one per line, until interrupted."""
    namespace = "" if arguments.every else environment.resolve_namespace(arguments.namespace, connection)
    selector = api_paths.DecisionSelector(f"status.node={arguments.node}" if arguments.node else "", arguments.labels)
    transport = connect(connection, environment.environ)
    from herodotus_cli.render.watch import WatchFormatter

    lines = WatchFormatter(
        terminal=environment.width() if environment.draws_on_terminal(output) else None,
        color=environment.uses_color(output),
    )
    header = lines.header() if output.format in SCREEN_FORMATS and output.headers else ""
    stream = decision_watch.watch_decisions(transport, namespace, selector, arguments.last, binding=arguments.binding)
    with closing(stream) as found:  # closing it ends kubectl
        for decision in found:
            environment.out.write(header + _written(decision, output, lines, environment))
            header = ""
            environment.out.flush()


def _written(decision: Json, output: OutputOptions, lines: object, environment: Environment) -> str:
    from herodotus_cli.render.watch import WatchFormatter

    assert isinstance(lines, WatchFormatter)
    if output.format not in SCREEN_FORMATS:
        return environment.format_document(decision, output, of_stream=True)
    return lines.line(decision, datetime.now(timezone.utc).astimezone().tzinfo)
