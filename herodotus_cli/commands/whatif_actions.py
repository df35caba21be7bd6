"""The actions of `kubectl herodotus whatif`: changes to the cluster, such as `whatif drain NODE`.

Owns: their options, and the changes that they stand for. Does not own: the request (`cluster_review`), the effects of
changes.

Several actions are applied one after the other: `whatif drain n1 --then 'scale deploy/web=5 -n shop'`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

import click

from herodotus_cli import cluster_review, completion_values, object_names, option_values, options, parameter_types
from herodotus_cli.cluster_review import ReviewOptions
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, environment_of
from herodotus_cli.errors import CliError, ServerError

Json = dict[str, Any]

MAX_PODS = 10_000
PODS_PER_WORKLOAD = 20  # decided by `whatif upgrade`: pods of one template differ in their own node only
_COMMON = (
    options.actions_option("--then", "A further action, applied afterwards, such as 'cordon n2'; repeatable."),
    click.option("--all", "every_row", is_flag=True, help="All pods and nodes, however many there are."),
    click.option("--exit-code", is_flag=True, help="Exit with code 1 if a pod finds no node or is blocked."),
    options.cluster_files_option,
)
_INHERITED = ("cluster_files", "namespace", *option_values.CONNECTION_NAMES)
_NODES = click.argument("nodes", metavar="NODE…", nargs=-1, required=True, shell_complete=completion_values.nodes)
_ITEMS = click.argument(
    "words", metavar="NODE… CHANGE…", nargs=-1, required=True, shell_complete=completion_values.nodes
)
_FILE = click.option(
    "-f",
    "--filename",
    "file",
    type=click.Path(),
    metavar="FILE",
    required=True,
    help="A file, YAML or JSON; - is stdin.",
)

Builder = Callable[[click.Context, Environment], list[Json]]


_EXAMPLES = {
    "drain": ("worker-3", "worker-3 --then 'scale deploy/web=5 -n shop'"),
    "cordon": ("worker-3",),
    "uncordon": ("worker-12",),
    "remove": ("worker-3",),
    "add-nodes": ("--like worker-1 --count 3",),
    "taint": ("worker-3 dedicated=gpu:NoSchedule",),
    "label": ("worker-3 disktype=ssd",),
    "scale": ("deploy/web=5 -n shop",),
    "create": ("-f deployment.yaml --replicas 20",),
    "changes": ("-f changes.yaml",),
}


class Action(options.PluginCommand):
    """An action of whatif, with the function that returns its changes from the parsed options."""

    build: Builder


def _action(name: str, parameters: Sequence[Callable[..., Any]], build: Builder) -> Action:
    """Return the click command `whatif NAME`. Its help text is the docstring of `build`, which returns the changes."""

    def callback(**_given: object) -> None:
        _run(click.get_current_context())

    callback = options.namespace_option(options.output_options(options.connection_options(callback)))
    for decorate in reversed([*parameters, *_COMMON]):
        callback = decorate(callback)
    examples = "\n".join(f"    kubectl herodotus whatif {name} {example}" for example in _EXAMPLES[name])
    command = click.command(name, cls=Action, help=f"{build.__doc__}\n\n    \b\n{examples}\n")(callback)
    command.build = build
    return command


def _run(ctx: click.Context) -> None:
    environment = environment_of(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    actions = [ctx, *(_parse_action(text, "--then", ctx) for text in ctx.params["then"])]
    changes = [change for action in actions for change in _build(action, environment)]
    title = ", then ".join(f"{action.command.name} {_describe(action)}".rstrip() for action in actions)
    asked = ReviewOptions(title, ctx.params["cluster_files"], ctx.params["every_row"])
    fits = cluster_review.run({"changes": changes}, asked, connection, option_values.output_options(ctx), environment)
    if ctx.params["exit_code"] and not fits:
        ctx.exit(1)


def build_changes(texts: Sequence[str], option: str, ctx: click.Context) -> list[Json]:
    """Return the changes of the actions that an option of another command names, such as `add-nodes --like n1`."""
    environment = environment_of(ctx)
    return [change for text in texts for change in _build(_parse_action(text, option, ctx), environment)]


def _parse_action(text: str, option: str, ctx: click.Context) -> click.Context:
    """Return the context of an action that an option of the command of `ctx` has as text."""
    try:
        name, *words = shlex.split(text)
    except ValueError:
        raise click.UsageError(f"{option} {text!r}: name an action: {', '.join(ACTIONS)}") from None
    if name not in ACTIONS:
        raise click.UsageError(f"{option} {text!r}: {name!r} is not an action: use one of {', '.join(ACTIONS)}")
    action = ACTIONS[name].make_context(name, words, parent=ctx)
    for common in _INHERITED:  # they say which cluster all actions are about
        action.params[common] = action.params[common] or ctx.params[common]
    return action


def _build(action: click.Context, environment: Environment) -> list[Json]:
    assert isinstance(action.command, Action)
    return action.command.build(action, environment)


def _run_upgrade(ctx: click.Context) -> None:
    given, environment = ctx.params, environment_of(ctx)
    question = {"to": given["to"], "podsPerWorkload": 0 if given["every_pod"] else PODS_PER_WORKLOAD}
    fits = cluster_review.run(
        {"upgrade": question},
        ReviewOptions(f"upgrade to {given['to']}", given["cluster_files"], given["every_row"]),
        option_values.connection_settings(ctx, environment.environ),
        option_values.output_options(ctx),
        environment,
    )
    if given["exit_code"] and not fits:
        ctx.exit(1)


def _describe(action: click.Context) -> str:
    """Return the arguments of an action for the title of the screen."""
    params = action.params
    words = params.get("nodes") or params.get("words") or ()
    if "like" in params:
        return f"{params['count']} like {params['like']}"
    return cluster_review.join_names([str(word) for word in words]) or str(params.get("file") or "")


def _names(words: Sequence[str]) -> list[str]:
    return [object_names.parse_name("node", word) for word in words]


def _drain(ctx: click.Context, _environment: Environment) -> list[Json]:
    """Show what `kubectl drain` would do: which pods would be evicted, where their replacements go, and what blocks.

    Budgets, pods without a controller and pods with local storage are treated as by kubectl. Pods of DaemonSets stay,
    as with --ignore-daemonsets.
    """
    params = ctx.params
    return [
        {
            "kind": "Drain",
            "nodes": _names(params["nodes"]),
            "force": params["force"],
            "deleteEmptyDirData": params["delete_emptydir_data"],
            "disableEviction": params["disable_eviction"],
        }
    ]


def _cordon(ctx: click.Context, _environment: Environment) -> list[Json]:
    """Mark nodes as unschedulable."""
    return [{"kind": "Cordon", "nodes": _names(ctx.params["nodes"])}]


def _uncordon(ctx: click.Context, _environment: Environment) -> list[Json]:
    """Mark nodes as schedulable, and show which pending pods they take."""
    return [{"kind": "Uncordon", "nodes": _names(ctx.params["nodes"])}]


def _remove(ctx: click.Context, _environment: Environment) -> list[Json]:
    """Remove nodes with all their pods, as when machines fail. Controllers replace the pods; no budget is checked."""
    return [{"kind": "RemoveNodes", "nodes": _names(ctx.params["nodes"])}]


def _add_nodes(ctx: click.Context, environment: Environment) -> list[Json]:
    """Add empty copies of a node, and show which pending pods they take, and which still fit nowhere.

    Pods of DaemonSets count on them. Which node groups have a new node that fits one pod: kubectl herodotus nodegroups
    pod NAME.
    """
    given = ctx.params
    if not given["like"]:
        connection = option_values.connection_settings(ctx, environment.environ)
        hints = [] if given["cluster_files"] else cluster_review.list_node_hints("", connection, environment)
        lines = ["add-nodes needs --like NODE, the node to copy", *hints]
        raise click.UsageError("\n  ".join(lines), ctx)
    like = object_names.parse_name("node", given["like"])
    return [{"kind": "AddNodes", "like": like, "count": given["count"], "zone": given["zone"]}]


def _split(words: Sequence[str], marks: str) -> tuple[list[str], list[str]]:
    """Return the nodes among the words, and the changes: words that contain one of `marks` or end with `-`.

    Raises UsageError if nodes or changes are missing.
    """
    changes = [word for word in words if any(mark in word for mark in marks) or word.endswith("-")]
    nodes = [word for word in words if word not in changes]
    if not changes or not nodes:
        raise click.UsageError("name nodes and changes, such as: n1 n2 key=value")
    return _names(nodes), changes


def _taint(ctx: click.Context, _environment: Environment) -> list[Json]:
    """Taint nodes as `kubectl taint` does: KEY=VALUE:EFFECT adds, KEY:EFFECT- or KEY- removes a taint.

    NoExecute evicts the pods that do not tolerate it, at once.
    """
    nodes, taints = _split(ctx.params["words"], ":")
    return [{"kind": "TaintNodes", "nodes": nodes, "taints": taints}]


def _label(ctx: click.Context, _environment: Environment) -> list[Json]:
    """Label nodes as `kubectl label` does: KEY=VALUE sets, KEY- removes a label. Pods that run there stay."""
    nodes, edits = _split(ctx.params["words"], "=")
    pairs = [edit.partition("=") for edit in edits]
    labels = {key if equals else key[:-1]: value if equals else None for key, equals, value in pairs}
    return [{"kind": "LabelNodes", "nodes": nodes, "labels": labels}]


def _scale(ctx: click.Context, environment: Environment) -> list[Json]:
    """Change the number of pods of workloads: deploy/web=5. New pods are placed; the pods that would go are named."""
    connection = option_values.connection_settings(ctx, environment.environ)
    namespace = environment.resolve_namespace(option_values.namespace(ctx), connection)
    return [_scale_one(word, namespace, ctx, connection, environment) for word in ctx.params["words"]]


def _scale_one(
    word: str, namespace: str, ctx: click.Context, connection: ConnectionSettings, environment: Environment
) -> Json:
    workload, equals, number = word.rpartition("=")
    if not equals or not number.isdecimal() or int(number) > MAX_PODS:
        raise click.UsageError(f"{word!r}: write KIND/NAME=N with N from 0 to {MAX_PODS}, such as deploy/web=5")
    kind, name = object_names.parse_workload(workload)
    if kind not in cluster_review.SCALABLE:
        raise click.UsageError(f"a {kind} cannot be scaled")
    obj = None
    if not (ctx.params["cluster_files"] or not connection.reaches_cluster):
        try:
            obj = cluster_review.fetch_object(kind, name, namespace, connection, environment)
        except ServerError as e:
            if e.reason == "NotFound":
                raise
            obj = None  # needed only for a workload without pods
    change: Json = {"kind": "Scale", "workload": f"{cluster_review.SCALABLE[kind]}/{name}", "replicas": int(number)}
    return change | {"namespace": namespace} | ({"object": obj} if obj else {})


def _create(ctx: click.Context, environment: Environment) -> list[Json]:
    """Create the pods and workloads of a file, one after the other; the pods of a PodGroup together, or none."""
    connection = option_values.connection_settings(ctx, environment.environ)
    namespace = environment.resolve_namespace(option_values.namespace(ctx), connection)
    from herodotus_cli import manifests

    return build_creations(manifests.read_all(ctx.params["file"], with_groups=True), namespace, ctx.params["replicas"])


def build_creations(objects: Sequence[Json], namespace: str, replicas: int | None) -> list[Json]:
    """Return changes that create these pods and workloads, with `replicas` pods each (None: as the objects say)."""
    more = {} if replicas is None else {"replicas": replicas}
    return [{"kind": "Create", "object": obj, "namespace": namespace, **more} for obj in objects]


def _changes(ctx: click.Context, _environment: Environment) -> list[Json]:
    """Apply the changes of a file: a list of changes as in a ClusterReview, each with its kind."""
    from herodotus_cli import manifests

    file = ctx.params["file"]
    changes = [change for document in manifests.read_documents(file) for change in _as_list(document)]
    if not changes or not all(isinstance(change, dict) for change in changes):
        raise CliError(f"error: {file}: expected a list of changes, each with its kind", ["such as: - kind: Drain"])
    return changes


def _as_list(document: Any) -> list[Any]:
    return document if isinstance(document, list) else [document]


_FORCE = click.option("--force", is_flag=True, help="Delete pods without a controller too.")
_EMPTY_DIR = click.option("--delete-emptydir-data", is_flag=True, help="Delete pods with local storage (emptyDir) too.")
_NO_EVICTION = click.option("--disable-eviction", is_flag=True, help="Delete instead of evicting: no budget is asked.")
_LIKE = click.option(
    "--like", metavar="NODE", default="", help="The node to copy; required.", shell_complete=completion_values.nodes
)
_COUNT = click.option(
    "--count", type=parameter_types.WholeNumber(1, MAX_PODS), default=1, metavar="N", help="How many [1]."
)
_ZONE = click.option(
    "--zone",
    default="",
    metavar="ZONE",
    shell_complete=completion_values.zones,
    help="Their zone [that of the copied node].",
)
_REPLICAS = click.option(
    "--replicas",
    type=parameter_types.WholeNumber(0, MAX_PODS),
    metavar="N",
    help="Pods of each [the object's replicas].",
)
_WORKLOADS = click.argument(
    "words", metavar="KIND/NAME=N…", nargs=-1, required=True, shell_complete=completion_values.scaled_workloads
)


@options.command(name="upgrade")
@click.option(
    "--to",
    metavar="VERSION",
    required=True,
    shell_complete=completion_values.versions,
    help="The version of Kubernetes, such as v1.36.",
)
@click.option(
    "--all-pods", "every_pod", is_flag=True, help=f"Every pod, not only {PODS_PER_WORKLOAD} of each workload."
)
@click.option("--all", "every_row", is_flag=True, help="All differences, however many there are.")
@click.option("--exit-code", is_flag=True, help="Exit with code 1 if a pod no longer fits, or not on its node.")
@options.cluster_files_option
@options.ignored_namespace_option
@options.output_options
@options.connection_options
@click.pass_context
def upgrade(ctx: click.Context, /, **_given: object) -> None:
    """Show which decisions would be others under the rules of another version of Kubernetes, and by which rule.

    Each pod is decided alone, as if it had no node, by the present rules and by those of the other version. Pods that
    run stay where they are during an upgrade; the answer says what would change when they are created anew.

    \b
    kubectl herodotus whatif upgrade --to v1.36
    kubectl herodotus whatif upgrade --to v1.36 --local
    """
    _run_upgrade(ctx)


@options.command(name="deschedule")
@click.option(
    "--policy",
    type=click.Path(),
    metavar="FILE",
    required=True,
    help="The descheduler's policy, YAML or JSON; - is stdin.",
)
@click.option(
    "--pod",
    "pods",
    multiple=True,
    metavar="[NAMESPACE/]NAME",
    shell_complete=completion_values.pods,
    help="Would it evict this pod, and why not? Repeatable.",
)
@cluster_review.time_limit_option
@click.option("--all", "every_row", is_flag=True, help="All evictions, however many there are.")
@click.option(
    "--exit-code", is_flag=True, help="Exit with code 1 if an evicted pod comes back to its node or stays Pending."
)
@options.namespace_option
@options.cluster_files_option
@options.output_options
@options.connection_options
@click.pass_context
def deschedule(ctx: click.Context, /, **_given: object) -> None:
    """Show which pods the descheduler of kubernetes-sigs would evict now, by which rule, and where they would land.

    The rules are those of its plugins for node utilization, duplicates, topology spread, taints and affinity, with its
    evictor, its limits and the cluster's disruption budgets. The scheduler then decides the successors on a copy of its
    state: a pod that comes back to its node was evicted for nothing. Nothing is evicted.

    The descheduler takes equal pods in a random order. 20 runs with other orders say how sure each eviction is.

    \b
    kubectl herodotus whatif deschedule --policy policy.yaml
    kubectl herodotus whatif deschedule --policy policy.yaml --pod shop/web-1
    """
    from herodotus_cli import manifests

    given, environment = ctx.params, environment_of(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    documents = manifests.read_documents(given["policy"])
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise CliError(f"error: {given['policy']}: expected one DeschedulerPolicy")
    pods = [object_names.parse_pod(text) for text in given["pods"]]
    namespace = environment.resolve_namespace(option_values.namespace(ctx), connection) if pods else ""
    question = {
        "policy": documents[0],
        "pods": [f"{pod.namespace or namespace}/{pod.name}" for pod in pods],
        "timeLimitSeconds": float(given["time_limit"]),
    }
    fits = cluster_review.run(
        {"deschedule": question},
        ReviewOptions(f"deschedule by {given['policy']}", given["cluster_files"], given["every_row"]),
        connection,
        option_values.output_options(ctx),
        environment,
    )
    if given["exit_code"] and not fits:
        ctx.exit(1)


ACTIONS: dict[str, Action] = {
    "drain": _action("drain", (_NODES, _FORCE, _EMPTY_DIR, _NO_EVICTION), _drain),
    "cordon": _action("cordon", (_NODES,), _cordon),
    "uncordon": _action("uncordon", (_NODES,), _uncordon),
    "remove": _action("remove", (_NODES,), _remove),
    "add-nodes": _action("add-nodes", (_LIKE, _COUNT, _ZONE), _add_nodes),
    "taint": _action("taint", (_ITEMS,), _taint),
    "label": _action("label", (_ITEMS,), _label),
    "scale": _action("scale", (_WORKLOADS,), _scale),
    "create": _action("create", (_FILE, _REPLICAS), _create),
    "changes": _action("changes", (_FILE,), _changes),
}
# Questions about the cluster that are no changes, and cannot be combined with them by --then.
QUESTIONS: dict[str, click.Command] = {"upgrade": upgrade, "deschedule": deschedule}
