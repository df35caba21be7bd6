"""Discovery: which groups, versions and resources there are, in both forms that clients ask for.

Owns: those documents. Does not own: the table they follow from (`resources`). Pure.
"""

from __future__ import annotations

from typing import Any, Final

from herodotus_endpoint.kubeapi.resources import GROUP, KINDS, VERSION, Kind
from herodotus_record.model import API_VERSION

Json = dict[str, Any]

_HERE: Final = {"groupVersion": API_VERSION, "version": VERSION}


def groups() -> Json:
    """`/apis`: an APIGroupList."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}


def group() -> Json:
    """`/apis/GROUP`: an APIGroup."""
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group()


def resources() -> Json:
    """`/apis/GROUP/VERSION`: an APIResourceList. The API server asks for it to learn whether we are there."""
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
                "verbs": list(kind.verbs),
            }
            | _short_names(kind)
            for kind in KINDS
        ],
    }


def aggregated() -> Json:
    """`/apis` as APIGroupDiscoveryList of apidiscovery.k8s.io/v2: all of it in one answer."""
    found = [
        {
            "resource": kind.plural,
            "responseKind": {"group": GROUP, "version": VERSION, "kind": kind.kind},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "singularResource": kind.singular,
            "verbs": list(kind.verbs),
        }
        | _short_names(kind)
        for kind in KINDS
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": GROUP, "creationTimestamp": None},
                "versions": [{"version": VERSION, "freshness": "Current", "resources": found}],
            }
        ],
    }


def _group() -> Json:
    return {"name": GROUP, "versions": [_HERE], "preferredVersion": _HERE}


def _short_names(kind: Kind) -> Json:
    return {"shortNames": list(kind.short_names)} if kind.short_names else {}
