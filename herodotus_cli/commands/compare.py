"""`kubectl herodotus compare`: two pods, two nodes for one pod (--nodes), or two attempts at one pod (--attempts).

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
    """The parsed arguments of `kubectl herodotus compare`: two pods, or one pod and two nodes or two attempts.

    A pod without a namespace is in `namespace`, or if that is empty in that of the kubeconfig's current context.
    `attempt` is None for the last attempt, and `attempts` for the last ones of two pods.
    """

    namespace: str
    pods: tuple[ObjectName, ...]
    nodes: tuple[str, ...]
    attempt: int | None
    attempts: tuple[int, int] | None = None


@options.command(short_help="Compare two pods, or two nodes or attempts of one pod.")
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
@click.option(
    "--attempts",
    nargs=2,
    type=parameter_types.WholeNumber(min=1),
    metavar="M N",
    help="Two attempts at one pod, by the numbers that pod NAME --attempts lists.",
)
@options.output_options
@options.connection_options
@click.pass_context
def compare(ctx: click.Context, /, names: tuple[str, ...], **_given: object) -> None:
    """Compare two pods, or two nodes or two attempts of one pod.

    A is NAME, pod/NAME or NAMESPACE/NAME. Two pods: where each went, what differs in their specs and verdicts, how the
    cluster changed between the two decisions, and the results of the best nodes for both. Two nodes: the verdict of
    each filter, and the points of each plugin. Two attempts: what two pods have, for one pod.

    \b
    kubectl herodotus compare pod checkout-7d9f-x2k checkout-7d9f-9pp
    kubectl herodotus compare pod shop/checkout-7d9f-x2k test/checkout-55b8-4kq
    kubectl herodotus compare pod checkout-7d9f-x2k --nodes worker-1 worker-3
    kubectl herodotus compare pod payments-0 --attempts 1 2
    """
    option, given = option_values.namespace(ctx), names[1:] if names[:1] and names[0] in _KIND else names
    pods = tuple(object_names.parse_pod(name, option) for name in given)
    nodes = tuple(object_names.parse_name("node", name) for name in ctx.params["nodes"] or ())
    attempts = ctx.params["attempts"]
    if nodes and attempts:
        raise click.UsageError("--nodes and --attempts exclude each other: --attempt N chooses the attempt")
    if len(pods) != (1 if nodes or attempts else 2):
        forms = "two pods (A B), one pod on two nodes (A --nodes X Y), or two attempts at one pod (A --attempts M N)"
        raise click.UsageError(f"compare {forms}")
    if len({*pods, *nodes}) < len(pods) + len(nodes) or (attempts and attempts[0] == attempts[1]):
        raise click.UsageError("compare two different ones")
    if ctx.params["attempt"] and not nodes:
        raise click.UsageError("--attempt needs --nodes; two attempts at one pod: --attempts M N")
    environment = environment_of(ctx)
    arguments = CompareArguments(option_values.namespace(ctx), pods, nodes, ctx.params["attempt"], attempts)
    run(
        arguments,
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )


def run(
    arguments: CompareArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch the comparison of two pods, or of two nodes or attempts of one pod, and print it."""
    first, *others = (
        pod._replace(namespace=environment.resolve_namespace(pod.namespace or arguments.namespace, connection))
        for pod in arguments.pods
    )
    if arguments.nodes:
        path = api_paths.node_comparison(first.namespace, first.name, *arguments.nodes, attempt=arguments.attempt)
    elif arguments.attempts:
        path = api_paths.pod_comparison(first.namespace, first.name, first.name, attempts=arguments.attempts)
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
