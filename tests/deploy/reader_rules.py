"""Builds the rules of the readers' roles in the chart from the declared routes of the service.

Owns: which role has which right, and the form of the template. Does not own: to whom a role is given (the chart), which
right a route requires (its declaration).
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final

from herodotus_endpoint.resources import GROUP, RESOURCES
from herodotus_endpoint.routing import Access, RequiredRight, Route
from scripts.manifests import CHART
from tests.endpoint.service import declared_routes

FILE: Final = Path(CHART) / "templates" / "endpoint" / "_reader_rules.tpl"
HEADER: Final = """{{- /* The rules of the readers' roles. They follow from the declared routes of the service:
HERODOTUS_REGENERATE=1 python -m pytest tests/deploy/test_aggregated_api.py writes them anew. */ -}}
"""
ROLES: Final = ("view", "whatif", "cluster-reviewer", "nodes", "version")
VERBS: Final = ("get", "list", "watch", "create")
_RESOURCES: Final = {resource.plural: resource for resource in RESOURCES}


def find_rights(route: Route) -> set[tuple[str, str]]:
    """Return the plural resources and verbs that a reader of a route needs.

    The API server, which passes the request on, checks one right, and the service, which answers it, may check others.
    """
    required = route.right.alternatives() if isinstance(route.right, RequiredRight) else ()
    checked = {(right.resource.plural, right.verb) for right in required}
    return checked | ({route.api_request[::-1]} if route.api_request else set())


def find_role(route: Route, plural: str, verb: str) -> str:
    """Return the role with a right that the route needs.

    Everybody has the role `version`; `whatif` is for users who may create pods, `cluster-reviewer` for those who ask
    about the whole cluster, `view` for those who may view pods of a namespace, and `nodes` for those who may see all
    nodes.
    """
    if route.right is Access.DISCLOSES_NOTHING:
        return "version"
    namespaced = _RESOURCES[plural].namespaced
    if verb == "create":
        return "whatif" if namespaced else "cluster-reviewer"
    return "view" if namespaced else "nodes"


def text() -> str:
    """Return the template with the rules of each role, by verbs and in the order of discovery."""
    verbs: dict[str, dict[str, set[str]]] = {role: defaultdict(set) for role in ROLES}
    for route in declared_routes():
        for plural, verb in find_rights(route):
            verbs[find_role(route, plural, verb)][plural].add(verb)
    return HEADER + "".join(
        f'{{{{- define "herodotus.readers.{role}" -}}}}\n{_format_rules(rights)}{{{{- end }}}}\n'
        for role, rights in verbs.items()
    )


def _format_rules(rights: dict[str, set[str]]) -> str:
    resources = defaultdict(list)
    for plural in [*(plural for plural in _RESOURCES if plural in rights), *sorted(rights.keys() - _RESOURCES.keys())]:
        resources[", ".join(verb for verb in VERBS if verb in rights[plural])].append(plural)
    return "".join(
        f"- apiGroups: [{GROUP}]\n  resources: [{', '.join(plurals)}]\n  verbs: [{listed}]\n"
        for listed, plurals in resources.items()
    )
