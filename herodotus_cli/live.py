"""Names for completion, asked of the decisions service: pods and workloads with decisions, nodes with a history.

Owns: which names there are for a word that is being typed. Does not own: the words' grammar (click), how the shell is
told (`completion`).

Invariant: whatever goes wrong, there are no names and no words on the terminal; it is over within PATIENCE_S.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from herodotus_cli.errors import CliError
from herodotus_cli.transport import questions

if TYPE_CHECKING:
    import click

    from herodotus_cli.connection import Connection

Json = dict[str, Any]
PATIENCE_S = 2.0  # of someone who has pressed the tabulator
LISTED = 500  # newest decisions whose pods are offered
_NAME = re.compile(r"[A-Za-z0-9._:/-]+")
_SHORT = {"StatefulSet": "sts", "DaemonSet": "ds", "ReplicaSet": "rs", "Job": "job"}


def pods(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Pods of the namespace, those that were decided last."""
    if ctx.command.name == "compare" and not ctx.params.get("names") and "pod".startswith(word):
        return ["pod"]
    prefix = next((p for p in ("pod/", "pods/", "po/") if word.startswith(p)), "")
    return _starting(word, (f"{prefix}{d['spec']['pod']['name']}" for d in _decisions(ctx)))


def workloads(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """What the pods of the namespace belong to; of a ReplicaSet the Deployment too that it looks like."""
    found = []
    for d in _decisions(ctx):
        owner = d["spec"]["pod"].get("owner")
        if owner and owner["kind"] == "ReplicaSet" and "-" in owner["name"]:
            found.append(f"deploy/{owner['name'].rpartition('-')[0]}")
        if owner:
            found.append(f"{_SHORT.get(owner['kind'], owner['kind'].lower())}/{owner['name']}")
    return _starting(word, found)


def asked_about(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """What `whatif` may be asked about: the word `pod`, pods after it, workloads."""
    if ctx.params.get("words"):
        return pods(ctx, parameter, word)
    return _starting(word, ["pod", *workloads(ctx, parameter, word), *pods(ctx, parameter, word)])


def nodes(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """Nodes that decisions considered."""
    found = _asked(ctx, lambda connection, ask: ask(questions.nodes()).get("items", []))
    prefix = "node/" if word.startswith("node/") else ""
    return _starting(word, (f"{prefix}{item['metadata']['name']}" for item in found))


def namespaces(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    """The cluster's namespaces, of the API server."""

    def ask_cluster(connection: Connection, _ask: Callable[[str], Json]) -> list[Json]:
        from herodotus_cli.context import given
        from herodotus_cli.transport.kubectl import KubectlTransport

        transport = KubectlTransport(connection, given(ctx).around.environ)
        return list(transport.get_of_cluster(questions.namespaces()).get("items", []))

    return _starting(word, (item["metadata"]["name"] for item in _asked(ctx, ask_cluster)))


def _decisions(ctx: click.Context) -> list[Json]:
    from herodotus_cli import options
    from herodotus_cli.context import given

    def ask(connection: Connection, get: Callable[[str], Json]) -> list[Json]:
        namespace = given(ctx).around.namespace(options.namespace(ctx), connection)
        return list(get(questions.decisions(namespace, limit=LISTED)).get("items", []))

    return _asked(ctx, ask)


def _asked(ctx: click.Context, ask: Callable[[Connection, Callable[[str], Json]], list[Json]]) -> list[Json]:
    """What a question answers; nothing where it fails."""
    import click

    from herodotus_cli import options
    from herodotus_cli.context import given
    from herodotus_cli.transport import connect

    environ = given(ctx).around.environ
    try:
        connection = options.connection(ctx, environ)
        connection.request_timeout_s = PATIENCE_S
        return ask(connection, connect(connection, environ).get)
    except (CliError, click.ClickException, KeyError, TypeError):
        return []


def _starting(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that continue the word. A shell prints them, so nothing but names is passed on."""
    return sorted({name for name in names if name.startswith(word) and _NAME.fullmatch(name)})
