"""Discovery documents: groups, versions and resources, in the plain and the aggregated form.

Owns: these documents. Does not own: the table of resources (`resources`), verbs, which follow from the routes. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from herodotus_endpoint.resources import GROUP, RESOURCES, VERSION, ServedResource
from herodotus_endpoint.routing import Route, list_verbs
from herodotus_record.model import API_VERSION

Json = dict[str, Any]

_HERE: Final = {"groupVersion": API_VERSION, "version": VERSION}


def build_group_list() -> Json:
    """Return the APIGroupList of `/apis`."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}


def build_group() -> Json:
    """Return the APIGroup of `/apis/GROUP`."""
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group()


def build_resource_list(routes: Sequence[Route]) -> Json:
    """Return the APIResourceList of `/apis/GROUP/VERSION`; the API server uses it to check availability."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [
            {
                "name": kind.plural,
                "singularName": kind.singular,
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": list_verbs(routes, kind),
            }
            | _short_names(kind)
            for kind in RESOURCES
        ],
    }


def build_aggregated_discovery(routes: Sequence[Route]) -> Json:
    """Return the APIGroupDiscoveryList (apidiscovery.k8s.io/v2) of `/apis`, which holds all discovery data."""
    resources = [
        {
            "resource": kind.plural,
            "responseKind": {"group": GROUP, "version": VERSION, "kind": kind.kind},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "singularResource": kind.singular,
            "verbs": list_verbs(routes, kind),
        }
        | _short_names(kind)
        for kind in RESOURCES
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": GROUP, "creationTimestamp": None},
                "versions": [{"version": VERSION, "freshness": "Current", "resources": resources}],
            }
        ],
    }


def _group() -> Json:
    return {"name": GROUP, "versions": [_HERE], "preferredVersion": _HERE}


def _short_names(kind: ServedResource) -> Json:
    return {"shortNames": list(kind.short_names)} if kind.short_names else {}
