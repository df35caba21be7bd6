"""`kubectl herodotus plan`: the fewest changes after which pods fit, nodes are empty, or a workload is spread.

Owns: its options and its question. Does not own: the request (`cluster_review`), the screen (`render.plan`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from herodotus_answers.plans import KINDS, MAX_CHANGES
from herodotus_cli import cluster_review, completion_values, object_names, option_values, options, parameter_types
from herodotus_cli.cluster_review import SCALABLE, ReviewOptions
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import SCREEN_FORMATS, Environment, environment_of
from herodotus_cli.option_values import OutputOptions

Json = dict[str, Any]
_WATCHED_FORMATS = ("json", "yaml")
_POD_KINDS = ("pod", "pods", "po")
_GROUP_KINDS = ("podgroup", "podgroups", "pg")
_WATCH = click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="After the answer, follow a plan while you carry it out; exit code 1 if the cluster leaves it.",
)
_FOLLOW = click.option(
    "--follow",
    metavar="KIND[/N]",
    shell_complete=completion_values.plan_kinds,
    default="",
    help="With --watch: the plan of this kind (the N-th, as by --all) [the first that can be followed].",
)
_EXIT_CODE = click.option("--exit-code", is_flag=True, help="Exit with code 1 if no plan is found.")


@click.command(
    cls=options.CommandWithGoals,
    short_help="Find the fewest changes after which a pod fits.",
)
@click.argument(
    "words",
    metavar="[pod NAME… | podgroup NAME | KIND/NAME]",
    nargs=-1,
    shell_complete=completion_values.plan_targets,
)
@options.manifest_option
@options.namespace_option
@click.option(
    "--kinds",
    metavar="KIND,…",
    default="",
    shell_complete=completion_values.plan_kinds,
    help=f"Kinds of changes that are allowed [{','.join(KINDS)}].",
)
@click.option(
    "--max-steps",
    type=parameter_types.WholeNumber(1, MAX_CHANGES),
    default=5,
    metavar="K",
    help="Changes of a plan, at most; steps that only force where pods land do not count [5].",
)
@cluster_review.time_limit_option
@click.option(
    "--replicas",
    type=parameter_types.WholeNumber(1, 100),
    metavar="N",
    help="Number of pods to create from FILE [its replicas].",
)
@click.option("--all", "every_row", is_flag=True, help="All plans of each kind.")
@_WATCH
@_FOLLOW
@_EXIT_CODE
@options.scheduler_option
@options.cluster_files_option
@options.output_options
@options.connection_options
@click.pass_context
def plan(ctx: click.Context, /, words: tuple[str, ...], file: str, **_given: object) -> None:
    """Find the fewest changes that let pending or not yet created pods fit.

    A change moves a pod (it is deleted, and its controller recreates it elsewhere), scales a lower-priority workload
    down, uncordons or adds a node, lowers a request, or is a fix that `pod NAME` names. Each plan is proven on a copy
    of the cluster: by simulating every scheduling order and every tie-break between equally good nodes, or by counting
    the nodes that fit. Where a tie-break would spoil a plan, cordons prevent it. Nothing is changed: you run the
    commands.

    With --watch, the plan is followed while you carry it out: each step gets a line when the API server shows that it
    is over. The command ends with exit code 1 as soon as the cluster leaves the plan.

    A running pod whose resize is deferred keeps its node: other pods move until its new requests fit there.

    Other goals; each has its own --help:

    \b
    plan drain NODE…, plan consolidate, plan spread KIND/NAME

    \b
    kubectl herodotus plan pod payments-0 -n shop
    kubectl herodotus plan deploy/checkout -n shop --kinds move
    kubectl herodotus plan podgroup train -n ml --max-steps 3
    kubectl herodotus plan pod payments-0 -n shop --watch
    kubectl herodotus plan -f job.yaml --time-limit 60
    """
    if bool(words) == bool(file):
        raise click.UsageError("name what is to fit: pod NAME, podgroup NAME, KIND/NAME, or -f FILE")
    given, environment = ctx.params, environment_of(ctx)
    if given["replicas"] and not file:
        raise click.UsageError("--replicas goes with -f FILE")
    connection = option_values.connection_settings(ctx, environment.environ)
    namespace = environment.resolve_namespace(option_values.namespace(ctx), connection)
    question: Json = {"namespace": namespace, "kinds": _parse_kinds(given["kinds"]), "maxChanges": given["max_steps"]}
    if file:
        from herodotus_cli import manifests

        obj, _ = manifests.read_grouped(file)
        question |= {"object": obj} | ({"replicas": given["replicas"]} if given["replicas"] else {})
    else:
        question |= _parse_targets(words, namespace)
    _ask(ctx, question, f"plan {file or ' '.join(words)}", given["scheduler"])


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
    if kind not in SCALABLE:
        raise click.UsageError(f"plans are made for pods, pod groups, {', '.join(SCALABLE)}: not for a {kind}")
    return {"workload": f"{SCALABLE[kind]}/{name}"}


_FORCE = click.option("--force", is_flag=True, help="Delete pods without a controller too.")
_EMPTY_DIR = click.option("--delete-emptydir-data", is_flag=True, help="Delete pods with local storage (emptyDir) too.")
_EVERY_ROW = click.option("--all", "every_row", is_flag=True, help="All rows, however many there are.")


def _ask(ctx: click.Context, question: Json, title: str, scheduler: str = "") -> None:
    """Ask for a plan and print it; with --watch, follow it.

    Exit with code 1 if there is none and --exit-code is given, or if the cluster leaves the plan that is followed.
    """
    given, environment = ctx.params, environment_of(ctx)
    if given.get("follow") and not given["watch"]:
        raise click.UsageError("--follow goes with --watch")
    spec: Json = {"plan": question | {"timeLimitSeconds": float(given["time_limit"])}}
    spec |= {"schedulerName": scheduler} if scheduler else {}
    options_ = ReviewOptions(title, given["cluster_files"], given["every_row"])
    connection = option_values.connection_settings(ctx, environment.environ)
    output = option_values.output_options(ctx)
    if given.get("watch"):
        _require_watchable(question, options_, connection, output)
        if not _follow(spec, options_, connection, output, environment, given.get("follow", "")):
            ctx.exit(1)
        return
    if not cluster_review.run(spec, options_, connection, output, environment) and given["exit_code"]:
        ctx.exit(1)


def _require_watchable(
    question: Json, asked: ReviewOptions, connection: ConnectionSettings, output: OutputOptions
) -> None:
    """Raise UsageError if the options exclude following a plan."""
    if asked.cluster_files or not connection.reaches_cluster:
        raise click.UsageError("--watch needs the API server: leave out --cluster-file, --endpoint and --cluster")
    if "object" in question:
        raise click.UsageError("--watch follows plans for pods that exist: create them first, and leave out -f")
    if output.format not in (*SCREEN_FORMATS, *_WATCHED_FORMATS):
        raise click.UsageError(f"--watch prints lines or {' or '.join(_WATCHED_FORMATS)}, not {output.format}")


def _follow(
    spec: Json,
    asked: ReviewOptions,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
    chosen: str,
) -> bool:
    """Print the answer, follow the chosen plan, and return whether it was carried out or none is needed."""
    from herodotus_cli.plan_watch import PlanWatcher, choose_plan  # here, because few commands watch

    answer = cluster_review.fetch_answer(spec, asked, connection, environment)
    if output.format in SCREEN_FORMATS:
        cluster_review.print_answer(answer, asked, output, environment)
    else:
        environment.out.write(environment.format_document(answer, output, of_stream=True))
    environment.out.flush()
    review = answer["status"]["plan"]
    plan = choose_plan(review, chosen)
    if plan is None:
        return True
    return PlanWatcher(connection, output, environment).follow(review, plan, spec["plan"].get("pods") or ())


@plan.add_goal
@options.command(name="drain")
@click.argument("nodes", metavar="NODE…", nargs=-1, required=True, shell_complete=completion_values.nodes)
@click.option("--rolling", is_flag=True, help="Each node takes pods again before the next is drained.")
@_FORCE
@_EMPTY_DIR
@cluster_review.time_limit_option
@_EVERY_ROW
@_WATCH
@_EXIT_CODE
@options.cluster_files_option
@options.ignored_namespace_option
@options.output_options
@options.connection_options
@click.pass_context
def plan_drain(ctx: click.Context, /, nodes: tuple[str, ...], **_given: object) -> None:
    """Find an order in which nodes can be drained, such that every budget holds and no pod stays Pending.

    Each order is simulated 20 times on a copy of the cluster, with random scheduling orders and tie-breaks between
    equally good nodes. The nodes are cordoned first, so that no pod moves twice. With --rolling, each node is
    uncordoned after its drain, as in an upgrade.

    \b
    kubectl herodotus plan drain worker-3 worker-4 worker-5
    kubectl herodotus plan drain worker-3 worker-4 --rolling --delete-emptydir-data --watch
    """
    given = ctx.params
    names = [object_names.parse_name("node", node) for node in nodes]
    question: Json = {"drain": names, "rolling": given["rolling"], "force": given["force"]}
    question["deleteEmptyDirData"] = given["delete_emptydir_data"]
    _ask(ctx, question, f"plan drain {cluster_review.join_names(names)}")


@plan.add_goal
@options.command(name="consolidate")
@click.option(
    "--nodes",
    type=parameter_types.WholeNumber(1, 10_000),
    metavar="N",
    help="Nodes to empty, at most [as many as possible].",
)
@_FORCE
@click.option("--keep-emptydir-data", is_flag=True, help="Pods with local storage (emptyDir) keep their node.")
@cluster_review.time_limit_option
@_EVERY_ROW
@_WATCH
@_EXIT_CODE
@options.cluster_files_option
@options.ignored_namespace_option
@options.output_options
@options.connection_options
@click.pass_context
def plan_consolidate(ctx: click.Context, /, **_given: object) -> None:
    """Find the largest set of nodes that can be emptied, and how many could be at most.

    `kubectl herodotus consolidate` tries one node after the other, once. This tries many sets, with all their nodes
    cordoned, until --time-limit or the proven maximum, which follows from the sums of requests and free amounts.

    \b
    kubectl herodotus plan consolidate
    kubectl herodotus plan consolidate --nodes 3 --time-limit 60
    """
    given = ctx.params
    question: Json = {"consolidate": True, "nodes": given["nodes"] or 0, "force": given["force"]}
    question["deleteEmptyDirData"] = not given["keep_emptydir_data"]
    _ask(ctx, question, "plan consolidate")


@plan.add_goal
@options.command(name="spread")
@click.argument("workload", metavar="KIND/NAME", shell_complete=completion_values.workloads)
@options.namespace_option
@click.option(
    "--max-steps", type=parameter_types.WholeNumber(1, MAX_CHANGES), default=5, metavar="K", help="Moves, at most [5]."
)
@cluster_review.time_limit_option
@_EVERY_ROW
@_WATCH
@_FOLLOW
@_EXIT_CODE
@options.cluster_files_option
@options.output_options
@options.connection_options
@click.pass_context
def plan_spread(ctx: click.Context, /, workload: str, **_given: object) -> None:
    """Find the fewest moves of a workload's pods that restore its topology spread constraints.

    After a drain, a rollout or the return of a zone, pods stay where they are. Constraints with ScheduleAnyway count
    too. Each plan holds for every tie-break, or has the cordons that force it.

    \b
    kubectl herodotus plan spread deploy/checkout -n shop
    """
    given, environment = ctx.params, environment_of(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    namespace = environment.resolve_namespace(option_values.namespace(ctx), connection)
    kind, name = object_names.parse_workload(workload)
    if kind not in SCALABLE:
        raise click.UsageError(f"plans are made for {', '.join(SCALABLE)}: not for a {kind}")
    question: Json = {"spread": f"{SCALABLE[kind]}/{name}", "namespace": namespace, "maxChanges": given["max_steps"]}
    _ask(ctx, question, f"plan spread {workload}")
