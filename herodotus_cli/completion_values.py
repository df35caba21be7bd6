"""Values for shell completion, from the decisions service: pods, workloads and nodes with decisions, namespaces.

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
from herodotus_cli.commands import ACTION_NAMES, GOAL_NAMES
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import environment_of
from herodotus_cli.errors import CliError
from herodotus_cli.transport import connect
from herodotus_client import api_paths

Json = dict[str, Any]
TIMEOUT_S = 2.0  # a user who pressed Tab waits no longer
DECISION_LIMIT = 500  # newest decisions whose pods are offered
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
    actions = ACTION_NAMES if ctx.command.name == "whatif" else ()
    return [*(action for action in actions if action.startswith(word)), *objects]


def plan_targets(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word` for what a plan is for: goals such as `drain`, pods, pod groups and workloads."""
    words = ctx.params.get("words")
    if words:
        return (pod_groups if words[0] == "podgroup" else pods)(ctx, parameter, word)
    objects = ["pod", "podgroup", *workloads(ctx, parameter, word), *pods(ctx, parameter, word)]
    return [*(goal for goal in GOAL_NAMES if goal.startswith(word)), *_matching(word, objects)]


def nodes(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the nodes that any recorded decision considered."""
    items = _fetch(ctx, lambda connection, get: get(api_paths.node_histories()).get("items", []))
    prefix = "node/" if word.startswith("node/") else ""
    return _matching(word, (f"{prefix}{item['metadata']['name']}" for item in items))


def namespaces(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the cluster's namespaces, from the API server; none with --cluster."""

    def fetch(connection: ConnectionSettings, _get: Callable[[str], Json]) -> list[Json]:
        if connection.cluster:
            return []
        from herodotus_cli.transport.kubectl import KubectlTransport

        transport = KubectlTransport(connection, environment_of(ctx).environ)
        return list(transport.get_from_api_server(api_paths.namespaces()).get("items", []))

    return _matching(word, (item["metadata"]["name"] for item in _fetch(ctx, fetch)))


def clusters(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Return completions of `word`: the clusters that the user may read, by name, or by ID if they have no name."""
    items = _fetch(ctx, lambda connection, get: get(api_paths.clusters()).get("items", []))
    return _matching(word, (item["displayName"] or item["metadata"]["name"] for item in items))


def _decisions(ctx: click.Context, given: str = "") -> list[Json]:
    """Return the newest decisions in the namespace `given`, or if it is empty in that of -n or of the context."""

    def fetch(connection: ConnectionSettings, get: Callable[[str], Json]) -> list[Json]:
        namespace = environment_of(ctx).resolve_namespace(given or option_values.namespace(ctx), connection)
        return list(get(api_paths.decisions(namespace, limit=DECISION_LIMIT)).get("items", []))

    return _fetch(ctx, fetch)


def _fetch(ctx: click.Context, fetch: Callable[[ConnectionSettings, Callable[[str], Json]], list[Json]]) -> list[Json]:
    """Call `fetch` with the connection settings and the transport's `get`, and return its list, or [] if it fails."""
    environ = environment_of(ctx).environ
    try:
        connection = option_values.connection_settings(ctx, environ)._replace(request_timeout_s=TIMEOUT_S)
        return fetch(connection, connect(connection, environ).get)
    except (CliError, click.ClickException, KeyError, TypeError):
        return []


def _matching(word: str, names: Iterable[str]) -> list[str]:
    """Return the sorted names that start with `word`. Names with unusual characters are left out."""
    return sorted({name for name in names if name.startswith(word) and _NAME.fullmatch(name)})
