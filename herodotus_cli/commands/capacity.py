"""`kubectl herodotus capacity`: how many more pods of one kind fit.

Owns: its options and its question. Does not own: the request (`cluster_review`), the screen.
"""

from __future__ import annotations

import click

from herodotus_cli import cluster_review, completion_values, option_values, options, parameter_types
from herodotus_cli.cluster_review import ReviewOptions
from herodotus_cli.commands.whatif import parse_object
from herodotus_cli.environment import environment_of

MAX_PODS = 100_000


@options.command(short_help="Show how many more pods of a kind fit, and what runs out first.")
@click.argument(
    "words", metavar="[pod NAME | KIND/NAME]", nargs=-1, shell_complete=completion_values.pods_and_workloads
)
@options.manifest_option
@options.namespace_option
@click.option(
    "--limit",
    "--replicas",
    type=parameter_types.WholeNumber(1, MAX_PODS),
    default=10_000,
    metavar="N",
    help="Stop after so many pods [10000]: whether N more fit.",
)
@click.option(
    "--group-size",
    type=parameter_types.WholeNumber(1, MAX_PODS),
    metavar="N",
    help="Count groups of N pods that fit together [minCount of the file's PodGroup].",
)
@options.actions_option(
    "--after", "An action of whatif that is applied first, such as 'add-nodes --like n2'; repeatable."
)
@click.option("--all", "every_row", is_flag=True, help="All nodes.")
@options.scheduler_option
@options.cluster_files_option
@options.output_options
@options.connection_options
@click.pass_context
def capacity(ctx: click.Context, /, words: tuple[str, ...], file: str, **_given: object) -> None:
    """Show how many more pods like this one fit, by node and zone, and what runs out first.

    The pods are placed one after the other by the scheduler's own rules, beside those that are there. Nothing is
    created, and no pod is counted that fits only by preemption. If the file has a PodGroup with minCount, or with
    --group-size, pods fit only in groups of so many. To see how many fit a new node of a type, add one with --after;
    waiting pods take it first.

    \b
    kubectl herodotus capacity -f pod.yaml
    kubectl herodotus capacity deploy/checkout -n shop
    kubectl herodotus capacity deploy/checkout -n shop --replicas 5
    kubectl herodotus capacity job/train -n ml --group-size 16
    kubectl herodotus capacity deploy/web --after 'add-nodes --like worker-1'
    """
    from herodotus_cli import manifests

    if bool(words) == bool(file):
        raise click.UsageError("name one object: -f FILE, pod NAME, or KIND/NAME")
    given, environment = ctx.params, environment_of(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    if words and given["cluster_files"]:
        raise click.UsageError("--cluster-file goes with -f FILE: there is no cluster to ask for the object")
    namespace = environment.resolve_namespace(option_values.namespace(ctx), connection)
    kind, name = parse_object(words) if words else ("", "")
    size = given["group_size"] or 0
    if file:
        obj, min_count = manifests.read_grouped(file)
        size = size or min_count
    else:
        obj = cluster_review.fetch_object(kind, name, namespace, connection, environment)
        kind = str(obj["kind"]).lower()
    question = {"object": obj, "limit": given["limit"], "namespace": namespace}
    question |= {"groupSize": size} if size else {}
    if given["after"]:
        from herodotus_cli.commands.whatif_actions import build_changes  # here, because few questions have changes

        question |= {"changes": build_changes(given["after"], "--after", ctx)}
    spec = {"capacity": question}
    title = ", after ".join((f"capacity for {file or f'{kind}/{name}'}", *given["after"]))
    review = ReviewOptions(title, given["cluster_files"], given["every_row"])
    cluster_review.run(
        spec | {"schedulerName": given["scheduler"]}, review, connection, option_values.output_options(ctx), environment
    )
