"""`kubectl herodotus workload KIND/NAME`: the state of a workload, where its pods are, and what decided it.

Owns: its options and its requests, also those to the API server for what no record holds. Does not own: the screen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from herodotus_cli import completion_values, not_found, object_names, option_values, options
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, Json, environment_of
from herodotus_cli.errors import CliError, ServerError, print_to_stderr
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.workload_lookup import find_kind, list_name_hints
from herodotus_client import api_paths

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import LiveWorkload
    from herodotus_answers.live.workload_objects import Workload

_MAX_ZONE_NODES = 200  # nodes whose zones are fetched; each adds up to 30 kB to the response


class WorkloadArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus workload`.

    If `namespace` is empty, that of the kubeconfig's current context is used; if `kind` is empty, it is looked up.
    `since_s` says how many seconds to look back; `labels` is a label selector.
    """

    kind: str
    name: str
    namespace: str
    since_s: float
    labels: str


@options.command(short_help="Explain a workload: a rollout that waits, where its pods are, why.")
@click.argument("workload", metavar="[KIND/]NAME", shell_complete=completion_values.workloads)
@options.namespace_option
@options.selector_option
@options.since_option
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def workload(ctx: click.Context, /, workload: str, since: float, **_given: object) -> None:
    """Show the state of a workload, where its pods are, and what decided it.

    KIND/NAME is deploy/NAME, sts/NAME, rs/NAME, ds/NAME, job/NAME or cj/NAME; NAMESPACE/KIND/NAME is accepted too, and
    NAME alone if one workload has it. Shows how many pods exist and run, why the others do not (also why they were
    never created), and how the pods spread over nodes and zones (by present node labels). With records, shows how often
    each plugin decided; records tell where pods went, not which are still running.

    \b
    kubectl herodotus workload deploy/checkout -n shop
    kubectl herodotus workload sts/payments --since 7d
    """
    environment = environment_of(ctx)
    named = object_names.parse_workload_name(workload)
    namespace = object_names.choose_namespace(option_values.namespace(ctx), named)
    run(
        WorkloadArguments(named.kind, named.name, namespace, since, ctx.params["selector"]),
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )


def run(
    arguments: WorkloadArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch the state of a workload and its placements, and print them. With --watch, repeat it on new decisions."""
    namespace = environment.resolve_namespace(arguments.namespace, connection)
    once = partial(_once, arguments, namespace, connection, output)
    environment.run_or_watch(once, connection, output, namespace, api_paths.DecisionSelector(labels=arguments.labels))


def _once(
    arguments: WorkloadArguments,
    namespace: str,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> None:
    from herodotus_answers.live.workload_objects import KINDS, Workload
    from herodotus_cli.transport import open_objects

    objects = open_objects(connection, environment.environ)
    kind = arguments.kind or find_kind(arguments.name, namespace, objects)
    path = api_paths.workload_placement(
        namespace, kind, arguments.name, since_s=arguments.since_s, labels=arguments.labels
    )
    name_of_kind = next(each for each in KINDS if each.lower() == kind)
    present = Workload(name_of_kind, arguments.name, namespace, objects, environment.now())
    answer = _fetch(path, present, connection, output, environment)
    if output.format != "name":
        from herodotus_answers.live.objects import add_live

        answer = add_live(answer, _read_live(answer, present, connection, output, environment))
    from herodotus_cli.render import workload as workload_screen

    environment.print_answer(answer, output, lambda view: workload_screen.build_screen(answer, view))


# --- the answer -----------------------------------------------------------------------------------------------------


def _fetch(
    path: str, present: Workload, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> Json:
    """Return the WorkloadPlacement document: of records, of local mode, or else of the objects that exist now.

    Raises CliError if none of them has anything of the workload.
    """
    try:
        answer: Json = environment.fetch(connection, path, output, "workload")
        return answer
    except CliError as e:
        from herodotus_cli.transport import has_read_locally

        has_no_record = isinstance(e, ServerError) and e.reason == "NotFound"
        if not (has_no_record or has_read_locally(connection)):
            raise
        if _is_known(present):
            if not has_no_record:
                print_to_stderr(f"note: not evaluated: {e.message.removeprefix('error: ')}")
            return _build_from_objects(present, environment)
        if present.is_absent:
            raise _not_found(present, e) from None
        if isinstance(e, ServerError):
            raise e.with_hints(not_found.workload_hints(e)) from None
        raise


def _not_found(present: Workload, error: CliError) -> ServerError:
    """Return the error about a workload that does not exist. `error` is that of the decisions service or local mode."""
    from herodotus_answers.live.workloads.deletions import describe_last_event

    hints = list_name_hints(present.kind, present.name, present.namespace, present.objects)
    if last := describe_last_event(present.kind, present.name, present.namespace, present.objects, present.now):
        hints = [last, *hints]
    if not hints and isinstance(error, ServerError):
        hints = not_found.similar_name_hints(error)
    missing = ServerError("NotFound", f'{present.kind} "{present.name}" not found in namespace "{present.namespace}"')
    return missing.with_hints(hints)


def _is_known(present: Workload) -> bool:
    """Return whether the API server has the workload, or pods or events of it."""
    from herodotus_answers.live.workload_objects import MAKERS

    if present.is_read:
        return True
    if present.is_absent:
        return bool(present.active)
    makers = present.makers if present.kind in MAKERS else []
    return bool(present.pods or makers or present.objects.list_events(present.object))


def _build_from_objects(present: Workload, environment: Environment) -> Json:
    """Return the document about the pods that exist now, without decisions."""
    from datetime import datetime

    from herodotus_answers.workload import Placement, WorkloadName, build_present_placement

    name = WorkloadName(present.namespace, present.label)

    def parse(timestamp: str) -> int:
        return round(datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp() * 1e6)

    placements = [
        Placement.from_present_pod(
            present.namespace,
            pod["metadata"]["name"],
            present.label,
            pod["spec"].get("nodeName") or None,
            parse(pod["metadata"]["creationTimestamp"]),
        )
        for pod in present.active
    ]
    nodes = present.objects.list_objects("Node")
    total = len(nodes.items) if nodes.is_complete and placements else 0
    at_us = round(environment.now().timestamp() * 1e6)
    return dict(build_present_placement(name, placements, total, "kube-apiserver", at_us))


def _read_live(
    answer: Json,
    present: Workload,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> LiveWorkload | None:
    """Return the state of the workload and its pods by present zone, or None if neither is known."""
    from herodotus_answers.live.objects import build_live_workload
    from herodotus_answers.live.workloads.situation import Situation
    from herodotus_answers.live.workloads.workload_state import add_state

    zone_of = _read_zones(answer, connection, environment)
    live = build_live_workload(environment.now(), answer.get("nodes", ()), zone_of)
    if not connection.reaches_cluster or not (present.is_absent or _is_known(present)):
        return live if zone_of else None

    def explain(pod: str) -> Json | None:
        try:
            explanation: Json = environment.fetch(connection, api_paths.pod_explanation(present.namespace, pod), output)
            return explanation
        except CliError:
            return None

    live = add_state(live, Situation(present, explain))
    from herodotus_answers.workload import describe_other_nodes, find_pod_of_only_node

    only = find_pod_of_only_node(answer)
    other_nodes = describe_other_nodes(explain(only) or {}) if only and "source" not in answer else ""
    return {**live, "otherNodes": other_nodes} if other_nodes else live


def _read_zones(answer: Json, connection: ConnectionSettings, environment: Environment) -> dict[str, str]:
    """Return the zone by node, or {} if no zone is known.

    With --endpoint or --cluster no zone is known, because kubectl reads the nodes of its own cluster.
    """
    nodes = answer.get("nodes", ())[:_MAX_ZONE_NODES]
    if not connection.reaches_cluster or not nodes:
        return {}
    from herodotus_cli.transport.kubectl import KubectlTransport

    with KubectlTransport(connection, environment.environ).node_zones([node["node"] for node in nodes]) as query:
        return dict(query.zones())
