"""Representations of an answer: plain JSON, a Table, or metadata only.

Owns: parsing of the Accept header, conversion of objects into the other two representations. Does not own: the columns
of a kind (`objects`).

Invariant: the supported representation that the header prefers is used; without one the answer is 406.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from flask import request
from werkzeug.http import parse_accept_header, parse_options_header

from herodotus_endpoint.errors import StatusError

Json = dict[str, Any]
Object = Mapping[str, Any]

META: Final = "meta.k8s.io"
JSON, TABLE, METADATA, METADATA_LIST = "", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
DISCOVERY: Final = "APIGroupDiscoveryList"
_JSON_TYPES: Final = ("application/json", "application/*", "*/*")


@dataclass(frozen=True)
class TableColumn:
    """A column of a Table that kubectl prints: its definition, and the function that computes a cell.

    `cell` takes the object and the current time in seconds since 1970. `wide` columns are printed only with `-o wide`.
    """

    name: str
    cell: Callable[[Object, float], object]
    description: str
    wide: bool = False
    type: str = "string"
    format: str = ""


def negotiate(*forms: str) -> str:
    """Return the form that the Accept header prefers of those served: one of `forms`, or "" for plain JSON.

    Of equal quality (`q`), the first one counts, and wildcards count last, as in the API server. Raises StatusError 406
    if the header has neither.
    """
    clauses = [
        (q, parse_options_header(text)) for text, q in parse_accept_header(request.headers.get("Accept") or "*/*")
    ]
    for quality, (media, parameters) in sorted(clauses, key=lambda c: (-c[0], "*" in c[1][0])):
        if media not in _JSON_TYPES or not quality:
            continue
        form = parameters.get("as", "")
        if not form:
            return JSON
        version = (parameters.get("g"), parameters.get("v"))
        if form in forms and version in ((META, "v1"), ("apidiscovery.k8s.io", "v2")):
            return form
    raise StatusError(406, "only application/json is served here", reason="NotAcceptable")


def build_table(
    columns: Sequence[TableColumn], objects: Sequence[Object], metadata: Json, now_s: float, include: str
) -> Json:
    """Return the objects as a `meta.k8s.io/v1` Table document with one row per object.

    `include` says what a row contains of its object: Metadata, None or Object. `now_s` is the current time in seconds
    since 1970.
    """
    return {
        "kind": "Table",
        "apiVersion": f"{META}/v1",
        "metadata": metadata,
        "columnDefinitions": [
            {
                "name": c.name,
                "type": c.type,
                "format": c.format,
                "description": c.description,
                "priority": int(c.wide),
            }
            for c in columns
        ],
        "rows": [{"cells": [c.cell(o, now_s) for c in columns], "object": _select_object(o, include)} for o in objects],
    }


def build_metadata_only(obj: Object) -> Json:
    """Return the metadata of an object as PartialObjectMetadata."""
    return {"kind": METADATA, "apiVersion": f"{META}/v1", "metadata": obj["metadata"]}


def build_metadata_list(objects: Sequence[Object], metadata: Json) -> Json:
    """Return the metadata of objects as PartialObjectMetadataList."""
    items = [build_metadata_only(o) for o in objects]
    return {"kind": METADATA_LIST, "apiVersion": f"{META}/v1", "metadata": metadata, "items": items}


def format_age(timestamp: str | None, now_s: float) -> str:
    """Return the age of a timestamp in kubectl's format; `<unknown>` without a timestamp."""
    if not timestamp:
        return "<unknown>"
    seconds = max(0, int(now_s - datetime.fromisoformat(timestamp).timestamp()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _format_two_units(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _format_two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _format_two_units(days, "d", hours % 24, "h") if days < 8 else f"{days}d"


def _format_two_units(whole: int, unit: str, rest: int, smaller: str) -> str:
    return f"{whole}{unit}{rest}{smaller}" if rest else f"{whole}{unit}"


def _select_object(obj: Object, include: str) -> Object | None:
    return {"Metadata": build_metadata_only(obj), "Object": obj, "None": None}[include]
