"""Find why a pod waits for a node in objects that it names: claims, classes, volumes, templates, nodes.

Owns: the causes and their remedies. Does not own: reading (`cluster_objects`), types (`live`). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from herodotus_answers.cluster_objects import ClusterObjects
    from herodotus_answers.live import LiveCause

Json = dict[str, Any]


def find_waiting_causes(pod: Json, objects: ClusterObjects) -> list[LiveCause]:
    """Return why a pod without a node cannot get one as long as the objects that it names are as they are."""
    return []
