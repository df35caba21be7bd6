"""Constructors of OpenAPI schemas. Pure."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def obj(description: str, **fields: Json) -> Json:
    """Return the OpenAPI schema of an object with these fields; further fields are allowed."""
    return {"type": "object", "description": description, "properties": fields}


def mapping(description: str, values: Json) -> Json:
    """Return the OpenAPI schema of an object with arbitrary keys, whose values match the schema `values`."""
    return {"type": "object", "description": description, "additionalProperties": values}


def array(description: str, values: Json) -> Json:
    """Return the OpenAPI schema of an array whose elements match the schema `values`."""
    return {"type": "array", "description": description, "items": values}


def string(description: str, nullable: bool = False, **more: Any) -> Json:
    """Return the OpenAPI schema of a string; `more` holds further schema keywords, such as `enum`."""
    return {"type": "string", "description": description} | ({"nullable": True} if nullable else {}) | more


def integer(description: str, nullable: bool = False) -> Json:
    """Return the OpenAPI schema of a 64-bit integer."""
    return {"type": "integer", "format": "int64", "description": description} | ({"nullable": True} if nullable else {})


def number(description: str, nullable: bool = False) -> Json:
    """Return the OpenAPI schema of a number."""
    return {"type": "number", "description": description} | ({"nullable": True} if nullable else {})


def boolean(description: str) -> Json:
    """Return the OpenAPI schema of a boolean."""
    return {"type": "boolean", "description": description}


def nullable(schema: Json) -> Json:
    """Return a copy of an OpenAPI schema that also allows null."""
    return schema | {"nullable": True}


def anything(description: str) -> Json:
    """Return the OpenAPI schema of an object whose fields are not specified."""
    return {"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": True}
