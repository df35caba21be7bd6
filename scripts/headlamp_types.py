"""Writes plugins/headlamp/src/answers.ts: the types of the answers that the Headlamp plugin reads, from their schemas.

`make headlamp` runs it before it checks and builds the plugin; the file is not kept in the repository.

Owns: the conversion of JSON Schema to TypeScript. Does not own: the schemas (`herodotus_answers.schema`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from herodotus_answers.schema import build_json_schema

Json = dict[str, Any]
FILE: Final = Path(__file__).parents[1] / "plugins/headlamp/src/answers.ts"
KINDS: Final = ("NodeHistory", "PendingPods", "PodExplanation")
_REFERENCE: Final = re.compile(r'"\$ref": "#/\$defs/(\w+)"')
_HEAD: Final = """\
// Types of answers, from their JSON Schemas (`kubectl herodotus schema`).
// This file is generated (`make headlamp`). A newer service may add fields.
"""
_SIMPLE: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def format_module() -> str:
    """Return the text of the module: the answers that the plugin reads and every type that these name."""
    schemas: Mapping[str, Json] = build_json_schema()["$defs"]
    kinds = list(KINDS)
    for kind in kinds:
        named = dict.fromkeys(_REFERENCE.findall(json.dumps(schemas[kind])))
        kinds += [name for name in named if name not in kinds]
    return _HEAD + "".join(
        f"\n{_comment(schemas[kind], '')}export interface {kind} {_fields(schemas[kind], '')}\n" for kind in kinds
    )


def _type_of(schema: Json, indent: str) -> str:
    """Return the TypeScript type for a JSON schema. Raises KeyError for a schema that this module cannot convert.

    `indent` is the indentation of the line in which the type begins.
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    options = schema.get("anyOf") or schema.get("allOf")
    if options:
        return " | ".join(dict.fromkeys(_type_of(option, indent) for option in options))
    kinds = schema.get("type", "any")
    every = kinds if isinstance(kinds, list) else [kinds]
    return " | ".join(dict.fromkeys(_type_of_kind(kind, schema, indent) for kind in every))


def _type_of_kind(kind: str, schema: Json, indent: str) -> str:
    if kind == "array":
        return f"Array<{_type_of(schema.get('items', {}), indent)}>"
    if kind == "object" and schema.get("properties"):
        return _fields(schema, indent)
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type_of(values, indent) if isinstance(values, dict) else 'any'}>"
    if kind == "string" and schema.get("enum"):
        return " | ".join(json.dumps(value) for value in schema["enum"] if value is not None)
    return "any" if kind == "any" else _SIMPLE[kind]


def _fields(schema: Json, indent: str) -> str:
    inner = f"{indent}  "
    required = schema.get("required", ())
    lines = [
        f"{_comment(field, inner)}{inner}{name}{'' if name in required else '?'}: {_type_of(field, inner)};\n"
        for name, field in schema["properties"].items()
    ]
    return f"{{\n{''.join(lines)}{indent}}}"


def _comment(schema: Json, indent: str) -> str:
    text = " ".join(schema.get("description", "").split())
    return f"{indent}/** {text} */\n" if text else ""


if __name__ == "__main__":
    FILE.write_text(format_module(), "utf-8")
