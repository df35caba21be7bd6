"""`kubectl herodotus workload deploy/NAME`: where a workload's pods were placed, and what decided it.

Owns: its options and its request. Does not own: the screen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from herodotus_answers.live_objects import add_live
from herodotus_cli import completion_values, not_found, object_names, option_values, options
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import SCREEN_FORMATS, Environment, Json, environment_of
from herodotus_cli.errors import CliError, NoHistoryError, ServerError
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
    answer: Json | None = None
    failure: CliError | None = None
    try:
        answer = environment.fetch(connection, path, output, "workload")
    except ServerError as e:
        failure = e.with_hints(not_found.workload_hints(e))
    except NoHistoryError as e:
        failure = e
    live = _read_live(answer or {}, arguments, namespace, connection, environment) if output.format != "name" else None
    if answer is None:
        answer = _build_state(live, arguments, namespace)
    elif live is not None:
        answer = add_live(answer, live)
    if answer is None:
        assert failure is not None
        raise failure from None
    waiting = _explain_first(answer, namespace, connection, output, environment)
    from herodotus_cli.render import workload as workload_screen

    shown = answer
    environment.print_answer(shown, output, lambda view: workload_screen.build_screen(shown, view, waiting))


def _build_state(live: LiveWorkload | None, arguments: WorkloadArguments, namespace: str) -> Json | None:
    """Return the document about a workload without recorded decisions, or None if it could not be read."""
    if live is None or "state" not in live:
        return None
    from herodotus_answers.live_objects import build_workload_state
    from herodotus_answers.workload_state import KINDS

    return dict(build_workload_state(KINDS[arguments.kind], arguments.name, namespace, live))


def _explain_first(
    answer: Json, namespace: str, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> Json | None:
    """Return the explanation of the first pod without a node, for the screen; None if there is none."""
    pods = (answer.get("live") or {}).get("pods") or ()
    name = next((pod["pod"] for pod in pods if pod["node"] is None and pod["status"] == "Pending"), "")
    if not name or output.format not in SCREEN_FORMATS:
        return None
    try:
        explanation: Json = environment.fetch(connection, api_paths.pod_explanation(namespace, name), output)
    except CliError:
        return None
    return explanation


def _read_live(
    answer: Json,
    arguments: WorkloadArguments,
    namespace: str,
    connection: ConnectionSettings,
    environment: Environment,
) -> LiveWorkload | None:
    """Return the state of the workload, its pods, and the pods by present zone; None if nothing can be read.

    With --endpoint or --cluster nothing is, because kubectl reads its own cluster.
    """
    if not connection.reaches_cluster:
        return None
    from herodotus_answers.live_objects import build_live_workload
    from herodotus_answers.workload_state import KINDS, find_workload_state, list_pods
    from herodotus_cli.transport import open_objects
    from herodotus_cli.transport.kubectl import KubectlTransport

    nodes = answer.get("nodes", ())[:_MAX_ZONE_NODES]
    kind, objects = KINDS[arguments.kind], open_objects(connection, environment.environ)
    with KubectlTransport(connection, environment.environ).node_zones([node["node"] for node in nodes]) as query:
        state = find_workload_state(kind, arguments.name, namespace, objects)
        workload = objects.get(kind, arguments.name, namespace).object
        pods = list_pods(workload, objects) if workload is not None else []
        zone_of = query.zones()
    return build_live_workload(environment.now(), nodes, zone_of, state, pods)
