"""Look up workloads by name: of which kind one is, and which names the user may have meant.

Owns: the lookup and its errors. Does not own: parsing names (`object_names`), what the API server returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herodotus_cli.errors import CliError, ServerError

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects

_MAX_NAMES = 5  # similar names or other namespaces in a hint


def find_kind(name: str, namespace: str, objects: ClusterObjects, *, or_pod: bool = False) -> str:
    """Return the kind of the workload with a name; with `or_pod`, that of a pod first.

    Raises CliError if there is none, or more than one workload.
    """
    from herodotus_answers.live.workload_objects import KINDS, SHORT, find_kinds

    if or_pod and objects.get("Pod", name, namespace).object is not None:
        return "pod"
    kinds = find_kinds(name, namespace, objects)
    if len(kinds) == 1:
        return kinds[0].lower()
    if kinds:
        names = ", ".join(f"{SHORT[kind]}/{name}" for kind in kinds)
        raise CliError(f"error: several workloads of namespace {namespace} are named {name}: write one of {names}")
    unread = [kind for kind in KINDS if kind in objects.unread]
    if unread:
        why = f"its kind cannot be looked up: {', '.join(unread)} cannot be read"
        raise click.UsageError(f"{name!r} is not a workload: write KIND/NAME, such as deploy/{name} ({why})")
    what = "pod or workload" if or_pod else "workload"
    error = ServerError("NotFound", f'no {what} "{name}" found in namespace "{namespace}"')
    raise error.with_hints(list_name_hints("", name, namespace, objects))


def list_name_hints(kind: str, name: str, namespace: str, objects: ClusterObjects) -> list[str]:
    """Return hints with the names of workloads that the user may have meant. Without `kind`, of every kind."""
    from difflib import get_close_matches

    from herodotus_answers.live.workload_objects import KINDS, SHORT, find_kinds, list_names

    others = [f"{SHORT[each]}/{name}" for each in find_kinds(name, namespace, objects)]
    if kind and others:
        return [f"of another kind: {', '.join(others)}"]
    hints = []
    by_name: dict[str, list[str]] = {}
    for each in (kind,) if kind else KINDS[:5]:
        for _, found in list_names(each, namespace, objects):
            by_name.setdefault(found, []).append(f"{SHORT[each]}/{found}")
    close = get_close_matches(name, by_name, n=_MAX_NAMES, cutoff=0.5)
    if close:
        hints.append(f"similar: {', '.join(full for each in close for full in by_name[each])}")
    places = [
        f"{where} ({SHORT[each]}/{found})"
        for each in ((kind,) if kind else KINDS[:5])
        for where, found in list_names(each, "", objects)
        if found == name and where != namespace
    ]
    if places:
        hints.append(f"in other namespaces: {', '.join(sorted(places)[:_MAX_NAMES])}")
    return hints
