"""`kubectl herodotus pending`: the pending pods, grouped by dominant reason.

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
from herodotus_cli.transport import api_paths
from herodotus_cli.transport.api_server_queries import UnassignedPodsQuery


@click.command(short_help="List pending pods by reason, and when each is tried again.")
@options.namespaces_options
@options.selector_option
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def pending(ctx: click.Context, /, **_given: object) -> None:
    """List pending pods by reason, and when each is tried again.

    The reason is that of most nodes in the pod's last attempt. Pods that were not tried again in time are marked as
    overdue: the scheduler is not running. The API server adds pods that wait for scheduling gates, and deleted pods are
    left out. With --endpoint the API server is not contacted, so deleted pods are listed as overdue.

    \b
    kubectl herodotus pending -A
    kubectl herodotus pending -n shop -l app=checkout
    kubectl herodotus pending -n shop -o name
    """
    environment = environment_of(ctx)
    every, namespace = option_values.all_namespaces(ctx), option_values.namespace(ctx)
    labels = ctx.params["selector"]
    run(
        namespace,
        every,
        labels,
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )


def run(
    given_namespace: str,
    every: bool,
    labels: str,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> None:
    """Fetch the pending pods and print them, or print a sentence on stderr if there are none.

    With --watch, repeat it when decisions change. `every` means all namespaces; `labels` is a label selector.
    """
    namespace = "" if every else environment.resolve_namespace(given_namespace, connection)
    once = partial(_once, namespace, labels, connection, output, environment)
    environment.run_or_watch(once, connection, output, namespace, api_paths.DecisionSelector(labels=labels))


def _once(
    namespace: str, labels: str, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    with (
        _unassigned_pods(namespace, labels, connection, environment) as query,
        # which pods exist does not depend on labels, which may have changed since a decision
        _unassigned_pods(namespace, "", connection, environment) if labels else query as every,
    ):
        answer = environment.fetch(connection, api_paths.pending_pods(namespace, labels=labels), output, "pending")
        gated, unassigned = query.gated(), every.uids() if answer.get("pods") else None
    if unassigned is not None:
        from herodotus_record.pending import remove_deleted_pods

        answer = remove_deleted_pods(answer, unassigned)
    if gated:
        from herodotus_cli import gated_pods  # here, because few clusters have such pods

        answer = gated_pods.add_to_pending_pods(answer, gated)
    if not answer.get("pods") and not is_document(output.format):
        where = f" in {namespace} namespace; every namespace: -A" if namespace else ""
        print_to_stderr(f"No pending pods{where}.")
        return
    from herodotus_cli.render import pending as pending_screen

    environment.print_answer(answer, output, lambda view: pending_screen.build_screen(answer, view))


def _unassigned_pods(
    namespace: str, labels: str, connection: ConnectionSettings, environment: Environment
) -> UnassignedPodsQuery:
    """Start a request to the API server for the pods without a node.

    With --endpoint kubectl is not used; then return a query without a result.
    """
    if connection.endpoint:
        return UnassignedPodsQuery()
    from herodotus_cli.transport.kubectl import KubectlTransport

    return KubectlTransport(connection, environment.environ, environment.prefetched).unassigned_pods(namespace, labels)
