"""The words that our OpenAPI schemas are made of. Pure."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def obj(description: str, **fields: Json) -> Json:
    """An object; it may have more fields than these."""
    return {"type": "object", "description": description, "properties": fields}


def mapping(description: str, of: Json) -> Json:
    """An object whose keys are names."""
    return {"type": "object", "description": description, "additionalProperties": of}


def array(description: str, of: Json) -> Json:
    """A list."""
    return {"type": "array", "description": description, "items": of}


def string(description: str, nullable: bool = False, **more: Any) -> Json:
    """A text; `nullable`: or null where there is none."""
    return {"type": "string", "description": description} | ({"nullable": True} if nullable else {}) | more


def integer(description: str, nullable: bool = False) -> Json:
    """A whole number."""
    return {"type": "integer", "format": "int64", "description": description} | ({"nullable": True} if nullable else {})


def number(description: str, nullable: bool = False) -> Json:
    """A number."""
    return {"type": "number", "description": description} | ({"nullable": True} if nullable else {})


def boolean(description: str) -> Json:
    """True or false."""
    return {"type": "boolean", "description": description}


def nullable(schema: Json) -> Json:
    """The same, or null."""
    return schema | {"nullable": True}


def anything(description: str) -> Json:
    """An object that the reader takes as it is."""
    return {"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": True}
