"""`kubectl herodotus plan`: the fewest changes after which pods fit.

Owns: its options and its question. Does not own: the request (`cluster_review`), the screen (`render.plan`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from herodotus_answers.plans import KINDS, MAX_CHANGES
from herodotus_cli import cluster_review, completion_values, object_names, option_values, options, parameter_types
from herodotus_cli.cluster_review import ReviewOptions
from herodotus_cli.environment import environment_of

Json = dict[str, Any]
MAX_TIME_S = 240
_WORKLOADS = {
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "replicaset": "ReplicaSet",
    "replicationcontroller": "ReplicationController",
    "job": "Job",
}
_POD_KINDS = ("pod", "pods", "po")
_GROUP_KINDS = ("podgroup", "podgroups", "pg")


@options.command(short_help="Find the fewest moves, evictions or nodes after which a pod fits.")
@click.argument(
    "words",
    metavar="[pod NAME… | podgroup NAME | KIND/NAME]",
    nargs=-1,
    shell_complete=completion_values.pods_and_workloads,
)
@click.option("-f", "--filename", "file", metavar="FILE", default="", help="A manifest, YAML or JSON; - is stdin.")
@options.namespace_option
@click.option(
    "--kinds", metavar="KIND,…", default="", help=f"Kinds of changes that are allowed [{','.join(KINDS)}]."
)
@click.option(
    "--max-steps",
    type=parameter_types.WholeNumber(1, MAX_CHANGES),
    default=5,
    metavar="K",
    help="Changes of a plan, at most; steps that only force where pods land do not count [5].",
)
@click.option(
    "--time-limit",
    type=parameter_types.WholeNumber(1, MAX_TIME_S),
    default=20,
    metavar="S",
    help="Seconds that the search may take [20].",
)
@click.option(
    "--replicas", type=parameter_types.WholeNumber(1, 100), metavar="N", help="Pods of FILE [the object's replicas]."
)
@click.option("--all", "every_row", is_flag=True, help="All plans of each kind.")
@click.option("--exit-code", is_flag=True, help="Exit with code 1 if no plan is found.")
@click.option("--scheduler", metavar="NAME", default="", help="Decide as if the object named this scheduler.")
@options.cluster_files_option
@options.output_options
@options.connection_options
@click.pass_context
def plan(ctx: click.Context, /, words: tuple[str, ...], file: str, **_given: object) -> None:
    """Find the fewest changes after which pods fit that wait for a node, or that do not exist yet.

    A change moves a pod (it is deleted, and its controller makes it anew elsewhere), gives up a less important one (its
    workload is scaled down), uncordons or adds a node, or lowers a request. Each plan was carried out on a copy of the
    cluster, for every order in which pods are scheduled and every draw among equally good nodes. Where a draw would
    spoil it, the plan has a step that forces it. Nothing is changed: the commands are yours to run.

    \b
    kubectl herodotus plan pod payments-0 -n shop
    kubectl herodotus plan deploy/checkout -n shop --kinds move
    kubectl herodotus plan podgroup train -n ml --max-steps 3
    kubectl herodotus plan -f job.yaml --time-limit 60
    """
    if bool(words) == bool(file):
        raise click.UsageError("name what is to fit: pod NAME, podgroup NAME, KIND/NAME, or -f FILE")
    given, environment = ctx.params, environment_of(ctx)
    if given["replicas"] and not file:
        raise click.UsageError("--replicas goes with -f FILE")
    connection = option_values.connection_settings(ctx, environment.environ)
    namespace = environment.resolve_namespace(option_values.namespace(ctx), connection)
    question: Json = {"namespace": namespace, "kinds": _parse_kinds(given["kinds"])}
    question |= {"maxChanges": given["max_steps"], "timeLimitSeconds": float(given["time_limit"])}
    if file:
        from herodotus_cli import manifests

        obj, _ = manifests.read_grouped(file)
        question |= {"object": obj} | ({"replicas": given["replicas"]} if given["replicas"] else {})
    else:
        question |= _parse_targets(words, namespace)
    spec = {"plan": question} | ({"schedulerName": given["scheduler"]} if given["scheduler"] else {})
    review = ReviewOptions(f"plan for {file or ' '.join(words)}", given["cluster_files"], given["every_row"])
    found = cluster_review.run(spec, review, connection, option_values.output_options(ctx), environment)
    if given["exit_code"] and not found:
        ctx.exit(1)


def _parse_kinds(text: str) -> list[str]:
    kinds = [kind.strip() for kind in text.split(",") if kind.strip()]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise click.UsageError(f"--kinds: {unknown[0]!r} is not a kind of change: use {', '.join(KINDS)}")
    return kinds


def _parse_targets(words: Sequence[str], namespace: str) -> Json:
    """Return the fields of the question that name what is to fit. Raises UsageError if the words name nothing."""
    kind, slash, name = words[0].partition("/")
    if kind in _GROUP_KINDS:
        names = [name] if slash else list(words[1:])
        if len(names) != 1:
            raise click.UsageError("name one pod group: podgroup NAME")
        return {"podGroup": object_names.parse_pod_group(names[0])}
    if kind in _POD_KINDS or not (slash or len(words) == 2):
        names = [name, *words[1:]] if slash else list(words[1:]) if kind in _POD_KINDS else list(words)
        if not names:
            raise click.UsageError(f"name the pod: {kind} NAME")
        return {"pods": [f"{namespace}/{object_names.parse_name('pod', each)}" for each in names]}
    kind, name = object_names.parse_workload("/".join(words))
    if kind not in _WORKLOADS:
        raise click.UsageError(f"plans are made for pods, pod groups, {', '.join(_WORKLOADS)}: not for a {kind}")
    return {"workload": f"{_WORKLOADS[kind]}/{name}"}
