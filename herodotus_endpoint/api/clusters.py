"""The route `GET clusters`: the clusters whose records the service has, as far as their reader may read them.

Owns: the route and its documents. Does not own: rights to a cluster (`access.guard`), SQL (`store`).
"""

from __future__ import annotations

from collections.abc import Mapping

from flask import Blueprint, Response

from herodotus_answers.service import Cluster, ClusterList
from herodotus_endpoint.access import guard
from herodotus_endpoint.errors import json_response
from herodotus_endpoint.parameters import CLUSTER
from herodotus_endpoint.resources import CLUSTER as RESOURCE
from herodotus_endpoint.resources import PREFIX
from herodotus_endpoint.routing import READ_ERRORS, RequiredRight, Route, build_blueprint, declare
from herodotus_endpoint.store import ClusterStatus, Store
from herodotus_record.model import API_VERSION
from herodotus_record.units import format_timestamp


def blueprint(store: Store, known_clusters: guard.KnownClusters) -> Blueprint:
    """Return the Flask blueprint of the route that lists clusters."""

    @declare(
        Route(
            "GET",
            f"{PREFIX}/{RESOURCE.plural}",
            "listClusters",
            "Clusters whose records the service has.",
            right=RequiredRight("list", RESOURCE),
            document="ClusterList",
            parameters=(CLUSTER,),
            errors=READ_ERRORS,
        )
    )
    def clusters() -> Response:
        """Return the list of clusters that the reader may read, sorted by ID, or only the one of `cluster`."""
        statuses = {status.cluster: status for status in store.replica_reader.list_clusters(guard.named_cluster())}
        # the first name of each, in alphabetical order
        names = {cluster: name for name, cluster in sorted(known_clusters.names.items(), reverse=True)}
        items = [_build_cluster(statuses[id], names, known_clusters.own) for id in guard.keep_readable([*statuses])]
        document: ClusterList = {
            "apiVersion": API_VERSION,
            "kind": "ClusterList",
            "metadata": {},
            "items": items,
        }
        return json_response(document)

    return build_blueprint("clusters", (clusters,))


def _build_cluster(status: ClusterStatus, names: Mapping[str, str], own: str) -> Cluster:
    return {
        "apiVersion": API_VERSION,
        "kind": "Cluster",
        "metadata": {"name": status.cluster},
        "displayName": names.get(status.cluster),
        "own": status.cluster == own,
        "lastSeenAt": format_timestamp(status.last_us),
        "schedulers": list(status.profiles),
        "incarnations": status.incarnations,
        "missing": status.missing,
        "explainedByGaps": status.explained,
    }
