"""Pods that wait for their scheduling gates, told among those that the record knows, and one of them alone.

Owns: what is taken of the API server's pods, the answer about one. Does not own: asking for them (`transport.live`),
the document of many (`herodotus_record.pending`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herodotus_cli.render.blocks import Block, Line, Sides, View
from herodotus_cli.render.words import ago
from herodotus_record.model import API_VERSION
from herodotus_record.pending import GatedPod, add_gated_pods

Json = dict[str, Any]


def told_in(document: Json, pods: Sequence[Json]) -> Json:
    """A PendingPods with these pods of the API server."""
    return add_gated_pods(document, [_gated(pod) for pod in pods])


def document(pod: Json) -> Json:
    """Return the answer about one pod of the API server that waits for its scheduling gates."""
    gated = _gated(pod)
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


def screen(answer: Json, view: View) -> list[Block]:
    """Return the blocks of such an answer."""
    meta = answer["metadata"]
    name = "  ".join(part for part in (meta["name"], f"namespace {meta['namespace']}", answer["owner"]) if part)
    created = f"created {ago(answer['createdAt'], view)}, never tried"
    return [Sides(name, created), Line(answer["headline"], "strong")]


def _gated(pod: Json) -> GatedPod:
    metadata, spec = pod["metadata"], pod["spec"]
    owner = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), None)
    return GatedPod(
        namespace=metadata["namespace"],
        pod=metadata["name"],
        uid=metadata["uid"],
        owner=f"{owner['kind']}/{owner['name']}" if owner else None,
        profile=spec.get("schedulerName", ""),
        created_at=metadata["creationTimestamp"],
        gates=tuple(gate["name"] for gate in spec["schedulingGates"]),
    )
