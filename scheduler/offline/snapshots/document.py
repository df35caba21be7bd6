"""The document `ClusterSnapshot`: every object that scheduling reads, with a digest against damage. Pure functions."""

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
    """A document is not a complete and undamaged snapshot. The message says why."""


def snapshot(items: Sequence[Json], *, cluster: str, server: str, taken_at: str, full: bool) -> Json:
    """Return the ClusterSnapshot document with these objects and their digest.

    `full` says that the objects have all their fields, and not only those that scheduling reads.
    """
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
    """Return the objects of a ClusterSnapshot document.

    Raise SnapshotError if the document's version is unknown or its objects do not match its digest.
    """
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
