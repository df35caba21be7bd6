"""Pods without a recorded attempt, such as those that wait for scheduling gates: only the API server knows them.

Owns: reading such pods from the API server's objects, and the answer about a gated one. Does not own: fetching them
(`transport.api_server_queries`), the pending-pods document (`herodotus_record.pending`), screens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herodotus_record.model import API_VERSION
from herodotus_record.pending import UntriedPod, add_untried_pods

Json = dict[str, Any]


def add_to_pending_pods(document: Json, pods: Sequence[Json]) -> Json:
    """Return the pending-pods document with pods added that it lacks. `pods` are Pod objects from the API server."""
    return add_untried_pods(document, [_read_pod(pod) for pod in pods if not pod["metadata"].get("deletionTimestamp")])


def build_answer(pod: Json) -> Json:
    """Return the GatedPod document about a pod that waits for its scheduling gates, from its Pod object."""
    gated = _read_pod(pod)
    gates = ", ".join(gated.gates)
    return {
        "apiVersion": API_VERSION,
        "kind": "GatedPod",
        "metadata": {"name": gated.pod, "namespace": gated.namespace, "uid": gated.uid},
        "createdAt": gated.created_at,
        "owner": gated.owner,
        "schedulerName": gated.profile,
        "schedulingGates": list(gated.gates),
        "headline": f"Waits for its scheduling gates ({gates}): no scheduler tries it before they are removed.",
    }


def _read_pod(pod: Json) -> UntriedPod:
    metadata, spec = pod["metadata"], pod["spec"]
    owner = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), None)
    return UntriedPod(
        namespace=metadata["namespace"],
        pod=metadata["name"],
        uid=metadata["uid"],
        owner=f"{owner['kind']}/{owner['name']}" if owner else None,
        profile=spec.get("schedulerName") or "default-scheduler",
        created_at=metadata["creationTimestamp"],
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
    )
