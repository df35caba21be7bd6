"""`kubectl herodotus nodegroups`: which node groups there are, and which of them would take a pod.

Owns: its options and its question. Does not own: the request (`cluster_review`), the screen (`render.node_groups`).
"""

from __future__ import annotations

import click

from herodotus_cli import cluster_review, completion_values, node_groups, option_values, options
from herodotus_cli.cluster_review import ReviewOptions
from herodotus_cli.commands.whatif import parse_object
from herodotus_cli.environment import environment_of
from herodotus_cli.sorting import SortKey, sort_option, sort_rows

SORT_KEYS = {
    "name": SortKey(("name",)),
    "nodes": SortKey(("nodes",), largest_first=True),
    "size": SortKey(("size",), largest_first=True),
    "max-size": SortKey(("maxSize",), largest_first=True),
    "source": SortKey(("source",)),
}


@options.command(short_help="Show the node groups, and which of them would take a pod.")
@click.argument(
    "words", metavar="[pod NAME | KIND/NAME]", nargs=-1, shell_complete=completion_values.pods_and_workloads
)
@options.manifest_option
@options.namespace_option
@sort_option(SORT_KEYS, "by name", "The groups: ")
@click.option("--pending", is_flag=True, help="How many new nodes all pending pods need in each group: an estimate.")
@node_groups.node_group_options
@options.scheduler_option
@click.option("--all", "every_row", is_flag=True, help="All rows of every table.")
@options.cluster_files_option
@options.output_options
@options.connection_options
@click.pass_context
def nodegroups(ctx: click.Context, /, words: tuple[str, ...], file: str, **_given: object) -> None:
    """Show the node groups of the cluster: nodes, sizes, limits, and what is known of the shape of a new node.

    Groups come from pool labels of nodes, Cluster API's MachineDeployments and MachineSets, Karpenter's NodePools, and
    --node-groups-file. With a pod, the scheduler's filters run on a new, empty node of each group, per zone. No node is
    created, and no verdict says that an autoscaler will add one. `consolidate --blockers` shows what keeps a node.

    \b
    kubectl herodotus nodegroups
    kubectl herodotus nodegroups --pending
    kubectl herodotus nodegroups pod payments-0 -n shop
    kubectl herodotus nodegroups -f deployment.yaml --node-groups-file groups.yaml
    """
    from herodotus_cli import manifests

    if words and file:
        raise click.UsageError("name one object: -f FILE, pod NAME, or KIND/NAME")
    given, environment = ctx.params, environment_of(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    kind, name = parse_object(words) if words else ("", "")
    asked: dict[str, object] = {"estimate": True} if given["pending"] else {}
    pods: list[str] = []
    title = "node groups"
    if words or file:
        namespace = environment.resolve_namespace(option_values.namespace(ctx), connection)
        if words and not kind:
            in_file = given["cluster_files"]
            kind = "pod" if in_file else cluster_review.find_object_kind(name, namespace, connection, environment)
        title = f"node groups for {file or f'{kind}/{name}'}"
        if kind == "pod":
            pods = [f"{namespace}/{name}"]
        elif words and given["cluster_files"]:
            raise click.UsageError(
                "--cluster-file goes with -f FILE or pod NAME: there is no cluster to ask for the object"
            )
        else:
            obj = (
                manifests.read(file)
                if file
                else cluster_review.fetch_object(kind, name, namespace, connection, environment)
            )
            asked |= {"object": obj, "namespace": namespace}
    question = {"nodeGroups": node_groups.build_question(given, pods, **asked), "schedulerName": given["scheduler"]}
    review = ReviewOptions(title, given["cluster_files"], given["every_row"])
    answer = cluster_review.fetch_answer(question, review, connection, environment)
    status = answer["status"]
    status["nodeGroups"] = sort_rows(status["nodeGroups"], "groups", given["sort_key"])
    cluster_review.print_answer(answer, review, option_values.output_options(ctx), environment)
