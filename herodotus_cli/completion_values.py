"""Values for shell completion: pods, workloads, nodes and schedulers with decisions, namespaces, contexts, versions.

Where no decisions service answers, the names are those of the API server's objects. Nothing is evaluated.

Owns: the candidates for a partly typed word. Does not own: parsing the command line (click), the format in which the
shell gets candidates (`completion`).

Invariant: a failure yields no candidates and prints nothing; a lookup takes at most TIMEOUT_S.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import click

from herodotus_cli import option_values
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import environment_of
from herodotus_cli.errors import CliError
from herodotus_cli.transport import connect
from herodotus_client import api_paths

Json = dict[str, Any]
TIMEOUT_S = 2.0  # a user who pressed Tab waits no longer
DECISION_LIMIT = 500  # newest decisions whose pods are offered
_NODES = api_paths.cluster_list("v1/nodes")
_ZONE = "topology.kubernetes.io/zone"
_NAME = re.compile(r"[A-Za-z0-9._:/-]+")
_SHORT_KINDS = {"StatefulSet": "sts", "DaemonSet": "ds", "ReplicaSet": "rs", "Job": "job"}


def actions(_ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the actions of whatif that change the cluster."""
    from herodotus_cli.commands.whatif_actions import ACTIONS  # here, because most words are others

    return [name for name in ACTIONS if name.startswith(word)]


def pods(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the pods in the namespace that have the newest decisions.

    If `word` begins with `NAMESPACE/`, so do the completions, which are pods of that namespace.
    """
    if ctx.command.name == "compare" and not ctx.params.get("names") and "pod".startswith(word):
        return ["pod"]
    prefix = next((p for p in ("pod/", "pods/", "po/") if word.startswith(p)), "")
    namespace = word.partition("/")[0] if "/" in word and not prefix else ""
    prefix = f"{namespace}/" if namespace else prefix
    return _matching(word, (f"{prefix}{d['spec']['pod']['name']}" for d in _decisions(ctx, namespace)))


def pod_groups(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the pod groups of recently decided pods."""
    names = (d["spec"]["pod"].get("podGroup") for d in _decisions(ctx))
    return _matching(word, dict.fromkeys(name for name in names if name))


def workloads(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the workloads that own recently decided pods, as KIND/NAME.

    For a ReplicaSet, the Deployment that its name suggests is offered too.
    """
    candidates = []
    for d in _decisions(ctx):
        owner = d["spec"]["pod"].get("owner")
        if owner and owner["kind"] == "ReplicaSet" and "-" in owner["name"]:
            candidates.append(f"deploy/{owner['name'].rpartition('-')[0]}")
        if owner:
            candidates.append(f"{_SHORT_KINDS.get(owner['kind'], owner['kind'].lower())}/{owner['name']}")
    return _matching(word, candidates)


def pods_and_workloads(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word` for an object: `pod`, names of pods, and workloads as KIND/NAME.

    For `whatif` actions, such as `drain`, come first. After the word `pod`, only pods are offered.
    """
    if ctx.params.get("words"):
        return pods(ctx, parameter, word)
    objects = _matching(word, ["pod", *workloads(ctx, parameter, word), *pods(ctx, parameter, word)])
    return [*_goals(ctx, word), *objects]


def plan_targets(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word` for what a plan is for: goals such as `drain`, pods, pod groups and workloads."""
    words = ctx.params.get("words")
    if words:
        return (pod_groups if words[0] == "podgroup" else pods)(ctx, parameter, word)
    objects = ["pod", "podgroup", *workloads(ctx, parameter, word), *pods(ctx, parameter, word)]
    return [*_goals(ctx, word), *_matching(word, objects)]


def _goals(ctx: click.Context, word: str) -> list[str]:
    """Return completions of `word` among the commands that take the place of this one, such as `drain` of `whatif`."""
    from herodotus_cli.options import CommandWithGoals  # here, because that module imports this one

    goals = ctx.command.list_goals() if isinstance(ctx.command, CommandWithGoals) else ()
    return [goal for goal in goals if goal.startswith(word)]


def nodes(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the nodes that any recorded decision considered."""
    prefix = "node/" if word.startswith("node/") else ""
    items = _list_items(ctx, lambda _connection: (api_paths.node_histories(), _NODES))
    return _matching(word, (f"{prefix}{item['metadata']['name']}" for item in items))


def zones(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the zones of the cluster's nodes."""
    return _matching(word, (zone for labels in _list_node_labels(ctx) for zone in (labels.get(_ZONE),) if zone))


def label_keys(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the keys of the labels of the cluster's nodes."""
    return _matching(word, (key for labels in _list_node_labels(ctx) for key in labels))


def _list_node_labels(ctx: click.Context) -> list[Json]:
    items = _list_items(ctx, lambda _connection: ("", _NODES))
    return [item["metadata"].get("labels") or {} for item in items]


def namespaces(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the cluster's namespaces, from the API server; none with --cluster."""
    items = _list_items(ctx, lambda _connection: ("", api_paths.namespaces()))
    return _matching(word, (item["metadata"]["name"] for item in items))


def scaled_workloads(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: workloads as `KIND/NAME=`, after which the number of replicas follows."""
    return [f"{name}=" for name in workloads(ctx, parameter, word)]


def schedulers(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the schedulers (profiles) of recent decisions."""
    return _matching(word, (d["spec"].get("scheduler", {}).get("profile", "") for d in _decisions(ctx)))


def contexts(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the contexts of the kubeconfig."""
    from herodotus_cli.kubeconfig import list_contexts  # here, because few words are contexts

    try:
        return _matching(word, list_contexts(environment_of(ctx).environ, ctx.params.get("kubeconfig") or ""))
    except CliError:
        return []


def versions(_ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the minor versions of Kubernetes whose rules are known, the newest last."""
    from herodotus_record.kubernetes_version import LATEST_PATCHES  # here, because few words are versions

    return [name for name in (f"v1.{minor}" for minor in LATEST_PATCHES) if name.startswith(word)]


def plan_kinds(_ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`, a list with commas: the kinds of changes of a plan that it lacks."""
    from herodotus_answers.plans import KINDS  # here, because few words are kinds

    before, comma, last = word.rpartition(",")
    return [f"{before}{comma}{kind}" for kind in KINDS if kind.startswith(last) and kind not in before.split(",")]


def clusters(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the clusters that the user may read, by name, or by ID if they have no name."""
    items = _list_items(ctx, lambda _connection: (api_paths.clusters(), ""))
    return _matching(word, (item["displayName"] or item["metadata"]["name"] for item in items))


def _decisions(ctx: click.Context, given: str = "") -> list[Json]:
    """Return the newest decisions in the namespace `given`, or if it is empty in that of -n or of the context.

    Of a pod of the API server, the result has what is known without a decision.
    """

    def find_paths(connection: ConnectionSettings) -> tuple[str, str]:
        namespace = environment_of(ctx).resolve_namespace(given or option_values.namespace(ctx), connection)
        return api_paths.decisions(namespace, limit=DECISION_LIMIT), api_paths.cluster_pods(namespace)

    return [item if "pod" in item["spec"] else _describe_pod(item) for item in _list_items(ctx, find_paths)]


def _describe_pod(pod: Json) -> Json:
    """Return the part of a decision's document that the pod's object has."""
    from herodotus_answers.live.objects import find_controller, read_scheduler  # here, because a service knows more

    meta, spec = pod["metadata"], pod["spec"]
    group = (spec.get("schedulingGroup") or {}).get("podGroupName")
    about = {"name": meta["name"], "owner": find_controller(pod), "podGroup": group}
    return {"spec": {"pod": about, "scheduler": {"profile": read_scheduler(pod)}}}


def _list_items(ctx: click.Context, find_paths: Callable[[ConnectionSettings], tuple[str, str]]) -> list[Json]:
    """Return the items of a list of the decisions service, or where it has none, of one of the API server.

    `find_paths` returns the paths of both lists, "" for a list that does not exist. A list that fails has no items.
    """
    from herodotus_cli.transport.kubectl import KubectlTransport  # here, because few words need it

    environ = environment_of(ctx).environ
    try:
        connection = option_values.connection_settings(ctx, environ)._replace(request_timeout_s=TIMEOUT_S)
        of_service, of_objects = find_paths(connection)
    except (CliError, click.ClickException):
        return []
    if of_service and not connection.local:
        transport = connect(connection, environ)
        get = transport.get_from_service if isinstance(transport, KubectlTransport) else transport.get
        if items := _get_items(get, of_service):
            return items
    if of_objects and connection.reaches_cluster:
        return _get_items(KubectlTransport(connection, environ).get_from_api_server, of_objects)
    return []


def _get_items(get: Callable[[str], Json], path: str) -> list[Json]:
    try:
        return list(get(path).get("items", []))
    except CliError:
        return []


def _matching(word: str, names: Iterable[str]) -> list[str]:
    """Return the sorted names that start with `word`. Names with unusual characters are left out."""
    return sorted({name for name in names if name.startswith(word) and _NAME.fullmatch(name)})
