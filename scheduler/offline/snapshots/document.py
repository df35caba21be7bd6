"""The document `ClusterSnapshot`: every object that scheduling reads, with a digest against damage. Pure.

Owns: the document's form, its validation. Does not own: objects (`scheduler.engine.manifests.cluster`), files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from herodotus_record.model import API_VERSION

Json = dict[str, Any]

KIND: Final = "ClusterSnapshot"
_encoder: Final = msgspec.json.Encoder(order="deterministic")


class SnapshotError(ValueError):
    """A document that is not a complete snapshot, with the reason."""


def snapshot(items: Sequence[Json], *, cluster: str, server: str, taken_at: str, full: bool) -> Json:
    """Return the snapshot document; `full` means that items have all fields, not only those of scheduling."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "cluster": cluster,
            "server": server,
            "takenAt": taken_at,
            "full": full,
            "items": len(items),
            "sha256": _digest(items),
        },
        "items": list(items),
    }


def items_of(document: Mapping[str, Any]) -> list[Any]:
    """Return the validated objects of a snapshot; raise SnapshotError for another version or damage."""
    if document.get("apiVersion") != API_VERSION:
        raise SnapshotError(f"apiVersion: {document.get('apiVersion')!r} is not read here; {API_VERSION} is")
    metadata, items = document.get("metadata"), document.get("items")
    if not isinstance(metadata, Mapping) or not isinstance(items, list):
        raise SnapshotError("metadata and items: required")
    if metadata.get("items") != len(items) or metadata.get("sha256") != _digest(items):
        raise SnapshotError("damaged: the objects are not those that were written (metadata.sha256)")
    return items


def _digest(items: Sequence[Any]) -> str:
    return hashlib.sha256(_encoder.encode(items)).hexdigest()
