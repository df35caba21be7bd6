"""`kubectl herodotus node [NAME]`: how often a node was considered, rejected and chosen; without NAME all nodes.

Owns: its options and its requests. Does not own: the screen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from herodotus_cli import completion_values, not_found, object_names, option_values, options, parameter_types
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, Json, environment_of
from herodotus_cli.errors import CliError, ServerError, print_to_stderr
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.output_formats import is_document
from herodotus_cli.sorting import SortKey, sort_option, sort_rows
from herodotus_client import api_paths

if TYPE_CHECKING:
    from herodotus_answers.node_list import NodeSummary, NodeSummaryList

SORT_KEYS = {
    "name": SortKey(("metadata", "name")),
    "requests": SortKey(("share",), largest_first=True),
    "pods": SortKey(("pods",), largest_first=True),
    "zone": SortKey(("zone",)),
}


class NodeArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus node`: the node's name, and how many seconds to look back."""

    name: str
    since_s: float


@options.command(short_help="List nodes with requests and taints; why one gets pods.")
@click.argument("name", metavar="[NODE]", required=False, shell_complete=completion_values.nodes)
@click.option(
    "--since",
    type=parameter_types.PositiveDuration(),
    default="24h",
    metavar="DURATION",
    help="How far back, in whole hours [24h].",
)
@sort_option(SORT_KEYS, "name", "Without NODE: ")
@options.ignored_namespace_option
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def node(ctx: click.Context, /, name: str | None, since: float, **_given: object) -> None:
    """List the nodes, or show how often one was considered, rejected and chosen, and why.

    Without NODE, lists the nodes with what their pods request, taints and cordons, as the API server has them now.
    NODE is NAME or node/NAME. Shows how often the node was feasible and chosen, the pass rate of each filter, its
    scores, what decided its wins and losses, and the last decisions.

    \b
    kubectl herodotus node
    kubectl herodotus node --sort-by requests
    kubectl herodotus node worker-1
    kubectl herodotus node worker-1 --since 7d
    """
    environment = environment_of(ctx)
    if not name:
        output = option_values.output_options(ctx)
        connection = option_values.connection_settings(ctx, environment.environ)
        once = partial(_list_once, ctx.params["sort_key"], connection, output)
        environment.run_or_watch(once, connection, output)
        return
    if ctx.params["sort_key"]:
        raise click.UsageError("--sort-by is for the list of nodes: leave out NODE")
    arguments = NodeArguments(object_names.parse_name("node", name), since)
    run(
        arguments,
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )


def _list_once(
    key: SortKey | None, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Print all nodes. Raises CliError if they cannot be read."""
    from herodotus_cli.render import lists

    answer = sort_rows(read_nodes(connection, environment), "items", key)
    if not answer["items"] and not is_document(output.format):
        print_to_stderr("The cluster has no nodes.")
        return
    environment.print_answer({**answer}, output, lambda view: lists.build_nodes(answer, view))


def read_nodes(connection: ConnectionSettings, environment: Environment) -> NodeSummaryList:
    """Return all nodes as the API server has them now. Raises CliError if they cannot be read."""
    if not connection.reaches_cluster:
        raise CliError(
            "error: the list of nodes is read from the API server, which --endpoint and --cluster leave out",
            ["ask for one node: kubectl herodotus node NAME"],
        )
    from herodotus_answers.node_list import build_node_list
    from herodotus_cli.transport.kubectl import KubectlTransport

    transport = KubectlTransport(connection, environment.environ)
    nodes = transport.get_from_api_server("/api/v1/nodes")["items"]
    try:
        pods: list[Json] | None = transport.get_from_api_server("/api/v1/pods")["items"]
    except CliError:
        pods = None
        print_to_stderr("note: pods of all namespaces cannot be read, so requests are not known")
    return build_node_list(nodes, pods)


def run(
    arguments: NodeArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch how often a node was considered, rejected and chosen, and print it. With --watch, repeat it on changes."""
    environment.run_or_watch(partial(_once, arguments, connection, output), connection, output)


def _once(
    arguments: NodeArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    try:
        answer = environment.fetch(
            connection, api_paths.node_history(arguments.name, since_s=arguments.since_s), output, "node"
        )
        present = _read_present(arguments.name, connection, environment)
    except ServerError as e:
        present = _read_present(arguments.name, connection, environment) if e.reason == "NotFound" else None
        if present is None:
            raise e.with_hints(not_found.node_hints(e)) from None
        answer = _build_unconsidered(arguments, environment)
    if present:
        answer["present"] = present
    from herodotus_cli.render import node as node_screen

    environment.print_answer(answer, output, lambda view: node_screen.build_screen(answer, view))


def _build_unconsidered(arguments: NodeArguments, environment: Environment) -> Json:
    """Return the answer about a node that exists and that no recorded decision considered."""
    from herodotus_answers.node import HistoryWindow, build_unconsidered_node

    now_us = int(environment.now().timestamp() * 1e6)
    over = HistoryWindow(now_us - int(arguments.since_s * 1e6), now_us, 3_600_000_000)
    return {**build_unconsidered_node(arguments.name, over)}


def _read_present(name: str, connection: ConnectionSettings, environment: Environment) -> NodeSummary | None:
    """Return the node as the API server has it now, with what events say of it; None if it cannot be read."""
    from herodotus_answers.node_list import build_node_list, list_node_events
    from herodotus_cli.transport import open_objects

    objects = open_objects(connection, environment.environ)
    node = objects.get("Node", name).object
    if node is None:
        return None
    pods = objects.list_objects("Pod", fields=f"spec.nodeName={name}")
    present = build_node_list([node], pods.items if pods.is_complete and not pods.missing else None)["items"][0]
    # Without a UID, because the kubelet uses the node's name as UID.
    if events := list_node_events(objects.list_events({"kind": "Node", "metadata": {"name": name}})):
        present["events"] = events
    return present
