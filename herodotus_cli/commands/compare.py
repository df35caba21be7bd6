"""`kubectl herodotus compare pod A B` and `compare pod A --nodes X Y`: two pods, or two nodes for one pod.

Owns: its options and its request. Does not own: the screen.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import click

from herodotus_cli import completion_values, not_found, object_names, option_values, options, parameter_types
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, Json, environment_of
from herodotus_cli.object_names import ObjectName
from herodotus_cli.option_values import OutputOptions
from herodotus_client import api_paths

_KIND = ("pod", "pods", "po")


class CompareArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus compare`: two pods, or one pod and two nodes.

    A pod without a namespace is in `namespace`, or if that is empty in that of the kubeconfig's current context.
    `attempt` is None for the last attempt.
    """

    namespace: str
    pods: tuple[ObjectName, ...]
    nodes: tuple[str, ...]
    attempt: int | None


@options.command(short_help="Compare two pods, or two nodes for one pod.")
@click.argument("names", metavar="pod A [B]", nargs=-1, shell_complete=completion_values.pods)
@options.namespace_option
@click.option(
    "--nodes",
    nargs=2,
    metavar="X Y",
    shell_complete=completion_values.nodes,
    help="Two nodes for one pod, instead of two pods.",
)
@click.option(
    "--attempt",
    type=parameter_types.WholeNumber(min=1),
    metavar="N",
    help="With --nodes: the pod's Nth attempt [last].",
)
@options.output_options
@options.connection_options
@click.pass_context
def compare(ctx: click.Context, /, names: tuple[str, ...], **_given: object) -> None:
    """Compare two pods, or two nodes for one pod.

    A is NAME, pod/NAME or NAMESPACE/NAME. Two pods: where each went, what differs in their specs and verdicts, how the
    cluster changed between the two decisions, and the results of the best nodes for both. Two nodes: the verdict of
    each filter, and the points of each plugin.

    \b
    kubectl herodotus compare pod checkout-7d9f-x2k checkout-7d9f-9pp
    kubectl herodotus compare pod shop/checkout-7d9f-x2k test/checkout-55b8-4kq
    kubectl herodotus compare pod checkout-7d9f-x2k --nodes worker-1 worker-3
    """
    option, given = option_values.namespace(ctx), names[1:] if names[:1] and names[0] in _KIND else names
    pods = tuple(object_names.parse_pod(name, option) for name in given)
    nodes = tuple(object_names.parse_name("node", name) for name in ctx.params["nodes"] or ())
    if len(pods) != (1 if nodes else 2):
        raise click.UsageError("compare two pods (A B), or one pod on two nodes (A --nodes X Y)")
    if len({*pods, *nodes}) < len(pods) + len(nodes):
        raise click.UsageError("compare two different ones")
    if ctx.params["attempt"] and not nodes:
        raise click.UsageError("--attempt needs --nodes: of two pods, the last attempts are compared")
    environment = environment_of(ctx)
    arguments = CompareArguments(option_values.namespace(ctx), pods, nodes, ctx.params["attempt"])
    run(
        arguments,
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )


def run(
    arguments: CompareArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch the comparison of two pods, or of two nodes for one pod, and print it."""
    first, *others = (
        pod._replace(namespace=environment.resolve_namespace(pod.namespace or arguments.namespace, connection))
        for pod in arguments.pods
    )
    if arguments.nodes:
        path = api_paths.node_comparison(first.namespace, first.name, *arguments.nodes, attempt=arguments.attempt)
    else:
        elsewhere = others[0].namespace if others[0].namespace != first.namespace else ""
        path = api_paths.pod_comparison(first.namespace, first.name, others[0].name, elsewhere)
    ask = partial(environment.fetch, connection, path, output, "comparison")
    answer = not_found.fetch_pod_answer(ask, not_found.PodRequest(first.name, first.namespace, connection, environment))
    if others:
        answer = _add_spec_values(answer, connection, environment)
    from herodotus_cli.render import comparison

    screen = comparison.build_nodes_screen if arguments.nodes else comparison.build_pods_screen
    environment.print_answer(answer, output, lambda view: screen(answer, view))


def _add_spec_values(answer: Json, connection: ConnectionSettings, environment: Environment) -> Json:
    """Return the comparison of two pods with the fields that differ, as the API server has them now.

    A record holds only a digest of most fields. If one of the pods no longer exists, the answer is returned unchanged.
    """
    if answer["sameQuestion"]:
        return answer
    from herodotus_answers.live.pods.spec_differences import add_spec_differences
    from herodotus_cli.transport import open_objects

    objects = open_objects(connection, environment.environ)
    found = {pod["uid"]: objects.get("Pod", pod["name"], pod["namespace"]).object for pod in answer["pods"]}
    pods = [each for uid, each in found.items() if each is not None and each["metadata"].get("uid") == uid]
    return add_spec_differences(answer, pods) if len(pods) == len(answer["pods"]) else answer
