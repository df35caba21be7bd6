"""`kubectl herodotus workload deploy/NAME`: where a workload's pods were placed, and what decided it.

Owns: its options and its request. Does not own: the screen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from herodotus_cli import completion_values, not_found, object_names, option_values, options
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, Json, environment_of
from herodotus_cli.errors import ServerError
from herodotus_cli.option_values import OutputOptions
from herodotus_client import api_paths

if TYPE_CHECKING:
    from herodotus_answers.live import LiveWorkload

_MAX_ZONE_NODES = 200  # nodes whose zones are fetched; each adds up to 30 kB to the response


class WorkloadArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus workload`.

    If `namespace` is empty, that of the kubeconfig's current context is used. `since_s` says how many seconds to look
    back; `labels` is a label selector.
    """

    kind: str
    name: str
    namespace: str
    since_s: float
    labels: str


@click.command(short_help="Show where a workload's pods were placed, and what decided it.")
@click.argument("workload", metavar="KIND/NAME", shell_complete=completion_values.workloads)
@options.namespace_option
@options.selector_option
@options.since_option
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def workload(ctx: click.Context, /, workload: str, since: float, **_given: object) -> None:
    """Show where a workload's pods were placed, and what decided it.

    KIND/NAME is deploy/NAME, sts/NAME, rs/NAME, ds/NAME, job/NAME or cj/NAME. Shows how the pods spread over nodes and
    zones (by present node labels), how often each plugin decided, and pending pods. Records tell where pods went, not
    which are still running.

    \b
    kubectl herodotus workload deploy/checkout -n shop
    kubectl herodotus workload sts/payments --since 7d
    """
    environment = environment_of(ctx)
    arguments = WorkloadArguments(
        *object_names.parse_workload(workload), option_values.namespace(ctx), since, ctx.params["selector"]
    )
    run(
        arguments,
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )


def run(
    arguments: WorkloadArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch where a workload's pods were placed, and print it. With --watch, repeat it when decisions change."""
    namespace = environment.resolve_namespace(arguments.namespace, connection)
    once = partial(_once, arguments, namespace, connection, output, environment)
    environment.run_or_watch(once, connection, output, namespace, api_paths.DecisionSelector(labels=arguments.labels))


def _once(
    arguments: WorkloadArguments,
    namespace: str,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> None:
    path = api_paths.workload_placement(
        namespace, arguments.kind, arguments.name, since_s=arguments.since_s, labels=arguments.labels
    )
    try:
        answer = environment.fetch(connection, path, output, "workload")
    except ServerError as e:
        raise e.with_hints(not_found.workload_hints(e)) from None
    if output.format != "name":
        from herodotus_answers.live_objects import add_live

        answer = add_live(answer, _read_live(answer, connection, environment))
    from herodotus_cli.render import workload as workload_screen

    environment.print_answer(answer, output, lambda view: workload_screen.build_screen(answer, view))


def _read_live(answer: Json, connection: ConnectionSettings, environment: Environment) -> LiveWorkload | None:
    """Return the pods by present zone, or None if no zone is known.

    With --endpoint or --cluster no zone is known, because kubectl reads the nodes of its own cluster.
    """
    from herodotus_answers.live_objects import build_live_workload

    nodes = answer.get("nodes", ())[:_MAX_ZONE_NODES]
    if not connection.reaches_cluster or not nodes:
        return None
    from herodotus_cli.transport.kubectl import KubectlTransport

    with KubectlTransport(connection, environment.environ).node_zones([node["node"] for node in nodes]) as query:
        zone_of = query.zones()
    return build_live_workload(environment.now(), nodes, zone_of)
