"""In which form a client wants an answer: JSON as it is, a Table, or metadata alone.

Owns: reading the Accept header, and turning objects into the other two forms. Does not own: a kind's columns
(`columns`).

Invariant: the first form of the header that we have is given; where there is none, 406.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from flask import request

from herodotus_endpoint.errors import ApiError

Json = dict[str, Any]

META: Final = "meta.k8s.io"
JSON, TABLE, METADATA, METADATA_LIST = "", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
DISCOVERY: Final = "APIGroupDiscoveryList"
INCLUDE: Final = ("Metadata", "None", "Object")  # which object goes with a row; the first is the default
_JSON_TYPES: Final = ("application/json", "application/*", "*/*")


@dataclass(frozen=True)
class Column:
    """A column of a table. `wide`: shown with `-o wide` alone. `cell`: from the object, and now in seconds."""

    name: str
    cell: Callable[[Json, float], object]
    description: str
    wide: bool = False
    type: str = "string"
    format: str = ""


def wanted(*forms: str) -> str:
    """The form of `forms` that the client would have, besides plain JSON; 406 where it takes none."""
    for clause in request.headers.get("Accept", "*/*").split(","):
        media, _, rest = clause.strip().partition(";")
        parameters = dict(p.strip().partition("=")[::2] for p in rest.split(";") if "=" in p)
        if media.strip() not in _JSON_TYPES or parameters.get("q") in ("0", "0.0"):
            continue
        form = parameters.get("as", "")
        if not form:
            return JSON
        version = (parameters.get("g"), parameters.get("v"))
        if form in forms and version in ((META, "v1"), ("apidiscovery.k8s.io", "v2")):
            return form
    raise ApiError(406, "only application/json is served here", reason="NotAcceptable")


def table(columns: Sequence[Column], objects: Sequence[Json], metadata: Json, now_s: float, include: str) -> Json:
    """Objects as a `Table`: a row has one cell for each column."""
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
        "rows": [{"cells": [c.cell(o, now_s) for c in columns], "object": _object(o, include)} for o in objects],
    }


def included() -> str:
    """The parameter `includeObject`; 400 where it is none of those."""
    include = request.args.get("includeObject") or INCLUDE[0]
    if include not in INCLUDE:
        raise ApiError(400, f"includeObject must be one of {', '.join(INCLUDE)}")
    return include


def partial(obj: Json) -> Json:
    """An object's metadata alone."""
    return {"kind": METADATA, "apiVersion": f"{META}/v1", "metadata": obj["metadata"]}


def partial_list(objects: Sequence[Json], metadata: Json) -> Json:
    """A list of metadata."""
    items = [partial(o) for o in objects]
    return {"kind": METADATA_LIST, "apiVersion": f"{META}/v1", "metadata": metadata, "items": items}


def age(timestamp: str | None, now_s: float) -> str:
    """How long ago, in kubectl's words; `<unknown>` where it is not said."""
    if not timestamp:
        return "<unknown>"
    seconds = max(0, int(now_s - datetime.fromisoformat(timestamp).timestamp()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _with_rest(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _with_rest(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _with_rest(days, "d", hours % 24, "h") if days < 8 else f"{days}d"


def _with_rest(whole: int, unit: str, rest: int, smaller: str) -> str:
    return f"{whole}{unit}{rest}{smaller}" if rest else f"{whole}{unit}"


def _object(obj: Json, include: str) -> Json | None:
    return {"Metadata": partial(obj), "Object": obj, "None": None}[include]
