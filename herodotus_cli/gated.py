"""Pods that wait for their scheduling gates, told among those that the record knows.

Owns: what is taken of the API server's pods. Does not own: asking for them (`transport.live`), the document
(`herodotus_record.pending`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herodotus_record.pending import Gated, with_gated

Json = dict[str, Any]


def told_in(document: Json, pods: Sequence[Json]) -> Json:
    """A PendingPods with these pods of the API server."""
    return with_gated(document, [_gated(pod) for pod in pods])


def _gated(pod: Json) -> Gated:
    metadata, spec = pod["metadata"], pod["spec"]
    owner = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), None)
    return Gated(
        namespace=metadata["namespace"],
        pod=metadata["name"],
        uid=metadata["uid"],
        owner=f"{owner['kind']}/{owner['name']}" if owner else None,
        profile=spec.get("schedulerName", ""),
        created_at=metadata["creationTimestamp"],
        gates=tuple(gate["name"] for gate in spec["schedulingGates"]),
    )
