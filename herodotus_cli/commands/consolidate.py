"""`kubectl herodotus consolidate`: which nodes could be emptied.

Owns: its options and its question. Does not own: the request (`cluster_review`), the screen.
"""

from __future__ import annotations

import click

from herodotus_cli import cluster_review, completion_values, object_names, option_values, options
from herodotus_cli.cluster_review import ReviewOptions
from herodotus_cli.environment import environment_of


@options.command(short_help="Show which nodes could be emptied, and what keeps the others.")
@click.argument("nodes", metavar="[NODE…]", nargs=-1, shell_complete=completion_values.nodes)
@click.option("--force", is_flag=True, help="Pods without a controller do not keep a node: they are deleted.")
@click.option("--keep-emptydir-data", is_flag=True, help="Pods with local storage (emptyDir) keep their node.")
@click.option("--blockers", is_flag=True, help="Everything that keeps an autoscaler from removing each node.")
@click.option("--all", "every_row", is_flag=True, help="All nodes, however many there are.")
@options.cluster_files_option
@options.ignored_namespace_option
@options.output_options
@options.connection_options
@click.pass_context
def consolidate(ctx: click.Context, /, nodes: tuple[str, ...], **_given: object) -> None:
    """Show which nodes could be emptied one after the other, where their pods would go, and what keeps the others.

    The nodes with the fewest requests are tried first. Their pods are evicted as by `kubectl drain` and must all find
    another node without preemption; what moved for one node counts for the next. Nothing is evicted.

    With --blockers each node is examined alone, and every reason is named for which cluster-autoscaler or Karpenter
    keeps it: annotations, pods without a controller, local storage, budgets, sizes, and pods that fit nowhere else.

    \b
    kubectl herodotus consolidate
    kubectl herodotus consolidate worker-3 worker-4
    kubectl herodotus consolidate worker-3 --blockers
    """
    given, environment = ctx.params, environment_of(ctx)
    names = [object_names.parse_name("node", node) for node in nodes]
    question = {"force": given["force"], "deleteEmptyDirData": not given["keep_emptydir_data"]}
    title = f"consolidate {cluster_review.join_names(names)}".rstrip()
    chosen: dict[str, object] = {"nodes": names} if names else {}
    if given["blockers"] and (given["force"] or given["keep_emptydir_data"]):
        raise click.UsageError("--blockers lists every reason: leave out --force and --keep-emptydir-data")
    cluster_review.run(
        {"scaleDown": chosen} if given["blockers"] else {"consolidate": question | chosen},
        ReviewOptions(title, given["cluster_files"], given["every_row"]),
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )
