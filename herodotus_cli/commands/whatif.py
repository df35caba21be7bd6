"""`kubectl herodotus whatif`: where hypothetical pods would go.

Owns: its options and its request. Does not own: reading files (`manifests`), the screen, evaluation without a cluster
(`local_evaluation`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from herodotus_cli import cluster_review, completion_values, object_names, option_values, options, parameter_types
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, Json, environment_of
from herodotus_cli.errors import CliError
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.progress import note_after_delay
from herodotus_cli.transport import connect
from herodotus_client import api_paths

MAX_PODS = 100  # the service's limit
_POD_KINDS = ("pod", "pods", "po")


class WhatIfArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus whatif`: either `file`, or `kind` and `name`, say which pods to place.

    `obj` is the only object in the file, unless the question is about files: then it is not read here. `cluster_files`
    holds paths of files with the objects to use instead of a running cluster. `every_node` is --all.
    """

    file: str
    obj: Json | None
    kind: str
    name: str
    namespace: str
    replicas: int | None
    node: str
    every_node: bool
    scheduler: str
    cluster_files: tuple[str, ...]


def _load_actions() -> Mapping[str, click.Command]:
    from herodotus_cli.commands.whatif_actions import ACTIONS, QUESTIONS  # here, because a question may have no word

    return {**ACTIONS, **QUESTIONS}


@click.command(
    cls=options.CommandWithGoals,
    load_goals=_load_actions,
    short_help="Simulate new pods, drain, cordon, taint, add-nodes, scale.",
)
@click.argument(
    "words", metavar="[pod NAME | KIND/NAME]", nargs=-1, shell_complete=completion_values.pods_and_workloads
)
@options.manifest_option
@options.namespace_option
@click.option(
    "--replicas",
    type=parameter_types.WholeNumber(1, MAX_PODS),
    metavar="N",
    help="Number of pods, placed one after the other [the object's replicas].",
)
@click.option(
    "--node",
    metavar="NODE",
    default="",
    shell_complete=completion_values.nodes,
    help="Why or why not this node, for the first pod.",
)
@options.actions_option(
    "--then",
    "With -f or KIND/NAME: an action of the cluster, applied afterwards, such as 'drain n2'; repeatable.",
)
@click.option("--all", "every_node", is_flag=True, help="All pods, and all nodes with every filter's verdict.")
@click.option("--exit-code", is_flag=True, help="Exit with code 1 if a pod does not fit.")
@options.scheduler_option
@options.cluster_files_option
@options.output_options
@options.connection_options
@click.pass_context
def whatif(ctx: click.Context, /, words: tuple[str, ...], file: str, **_given: object) -> None:
    """Show where hypothetical pods would go, and what stops the next one.

    The scheduler decides them on a copy of its present state: filters, scores, and the pods that preemption would
    evict. Nothing is created, evicted or recorded. An existing pod is evaluated as if it did not exist. The pods of a
    workload are evaluated in addition to those that exist. The pods of a PodGroup in the file are placed together, or
    none of them.

    What actions on the cluster would do, which --then adds to new pods and to other actions; each has its own --help:

    \b
    whatif drain NODE…, cordon, uncordon, remove, add-nodes --like NODE,
    taint, label, scale KIND/NAME=N, create -f FILE, changes -f FILE

    What others would do; each has its own --help:

    \b
    whatif upgrade --to VERSION, deschedule --policy FILE

    \b
    kubectl herodotus whatif -f pod.yaml
    kubectl herodotus whatif -f deployment.yaml --replicas 20
    kubectl herodotus whatif pod payments-0 -n shop --node worker-3
    kubectl herodotus whatif deploy/checkout --replicas 5 --then 'drain worker-3'
    kubectl herodotus whatif -f pod.yaml --cluster-file cluster.yaml
    kubectl herodotus whatif drain worker-3 --then 'scale deploy/web=5 -n shop'
    """
    if bool(words) == bool(file):
        raise click.UsageError("name one object: -f FILE, pod NAME, or KIND/NAME")
    if ctx.params["cluster_files"] and not file:
        raise click.UsageError("--cluster-file goes with -f FILE: there is no cluster to ask for the object")
    from herodotus_cli import manifests

    kind, name = parse_object(words) if words else ("", "")
    then = ctx.params["then"]
    objects = manifests.read_all(file, with_groups=True) if file and (then or not ctx.params["cluster_files"]) else []
    if len(objects) > 1 or then:
        _create(ctx, kind, name, objects)
        return
    arguments = WhatIfArguments(
        file=file,
        obj=objects[0] if objects else None,
        kind=kind,
        name=name,
        namespace=option_values.namespace(ctx),
        replicas=ctx.params["replicas"],
        node=object_names.parse_name("node", ctx.params["node"]) if ctx.params["node"] else "",
        every_node=ctx.params["every_node"],
        scheduler=ctx.params["scheduler"],
        cluster_files=ctx.params["cluster_files"],
    )
    environment = environment_of(ctx)
    fits = run(
        arguments,
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )
    if ctx.params["exit_code"] and not fits:
        ctx.exit(1)


def _create(ctx: click.Context, kind: str, name: str, objects: Sequence[Json]) -> None:
    """Ask where the pods of objects would go, one object after the other and then the actions, and print the answer.

    `objects` are those of the file; without a file, the object is read that `kind` and `name` say. Raises UsageError
    for options that go with one object only, and for actions after a pod that exists. Exits with code 1 if --exit-code
    is given and not all pods fit.
    """
    from herodotus_cli.commands.whatif_actions import build_changes, build_creations

    then = ctx.params["then"]
    for option in ("node", "every_node", "scheduler"):
        if ctx.params[option]:
            reason = "without --then" if then else "with one object: put it into a file of its own"
            raise click.UsageError(f"--node, --all and --scheduler go {reason}")
    environment = environment_of(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    namespace = environment.resolve_namespace(option_values.namespace(ctx), connection)
    if not objects:
        kind = kind or cluster_review.find_object_kind(name, namespace, connection, environment)
        if kind == "pod":
            raise click.UsageError(
                "--then follows new pods: -f FILE or KIND/NAME. An action tells itself where the pods that exist go:\n"
                f"  kubectl herodotus whatif {then[0]}"
            )
        objects = [cluster_review.fetch_object(kind, name, namespace, connection, environment)]
    what = f"{kind}/{name}" if name else f"-f {ctx.params['file']}"
    title = ", then ".join((f"create {what}", *then))
    asked = cluster_review.ReviewOptions(title, ctx.params["cluster_files"], every_row=False)
    spec = {
        "changes": [
            *build_creations(objects, namespace, ctx.params["replicas"]),
            *build_changes(then, "--then", ctx),
        ]
    }
    fits = cluster_review.run(spec, asked, connection, option_values.output_options(ctx), environment)
    if ctx.params["exit_code"] and not fits:
        ctx.exit(1)


def run(
    arguments: WhatIfArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> bool:
    """Find out where the hypothetical pods would go, from the scheduler or from files, and print it.

    Return whether all of them fit.
    """
    answer = (
        _evaluate_files(arguments, connection, environment)
        if arguments.cluster_files
        else _review(arguments, connection, environment)
    )
    from herodotus_cli.render import whatif as whatif_screen

    def build_screen(view: Any) -> Sequence[Any]:
        return whatif_screen.build_screen(answer, view, every_node=arguments.every_node, one_node=bool(arguments.node))

    environment.print_answer(answer, output, build_screen)
    return not answer["status"]["stopped"]


def parse_object(words: Sequence[str]) -> tuple[str, str]:
    """Return (kind, NAME) for `pod NAME`, `pod/NAME`, `deploy/NAME`, `deploy NAME` or `NAME`.

    The kind is in full, such as `deployment`, and empty for `NAME`. Raises UsageError for other words.
    """
    if len(words) > 2:
        raise click.UsageError(f"{' '.join(words)[:60]!r} names several objects: give one")
    text = "/".join(words)
    if text in _POD_KINDS:
        raise click.UsageError(f"name the pod: {text} NAME")
    if "/" not in text:
        return "", object_names.require_valid_name("pod", text)
    if text.partition("/")[0] in _POD_KINDS:
        return "pod", object_names.parse_name("pod", text)
    kind, name = object_names.parse_workload(text)
    if kind not in cluster_review.RESOURCES:
        raise click.UsageError(f"{name} is a {kind}. {cluster_review.PINNED}")
    return kind, name


def _review(arguments: WhatIfArguments, connection: ConnectionSettings, environment: Environment) -> Json:
    obj = arguments.obj
    written = str((obj.get("metadata") or {}).get("namespace") or "") if obj else ""
    namespace = environment.resolve_namespace(arguments.namespace or written, connection)
    if written and written != namespace:
        message = f'the namespace from the provided object "{written}" does not match the namespace "{namespace}"'
        raise CliError(f"error: {message}. You must pass '--namespace={written}' to perform this operation.")
    if obj is None:
        obj = cluster_review.fetch_object(arguments.kind, arguments.name, namespace, connection, environment)
    spec: Json = {"object": obj, "node": arguments.node, "allNodes": arguments.every_node}
    spec |= {"schedulerName": arguments.scheduler} | ({"replicas": arguments.replicas} if arguments.replicas else {})
    body = {"apiVersion": "herodotus.dev/v1alpha1", "kind": "PlacementReview", "spec": spec}
    transport, path = connect(connection, environment.environ), api_paths.placement_reviews(namespace)
    with note_after_delay(cluster_review.WAITING):
        return cluster_review.post_question(transport, path, body)


def _evaluate_files(arguments: WhatIfArguments, connection: ConnectionSettings, environment: Environment) -> Json:
    from herodotus_cli import local_evaluation

    command = ["--cluster", *arguments.cluster_files, "--pod", arguments.file]
    named = {"--replicas": arguments.replicas, "--node": arguments.node, "--namespace": arguments.namespace}
    named["--scheduler"] = arguments.scheduler
    command += [word for name, value in named.items() if value for word in (name, str(value))]
    command += ["--all-nodes"] * arguments.every_node
    sys.stdout.flush()
    return local_evaluation.evaluate(command, environment.environ, connection.request_timeout_s)
