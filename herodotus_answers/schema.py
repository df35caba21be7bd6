"""Derive the schemas of all answers from their types: OpenAPI for the service, JSON Schema for readers of `-o json`.

A kind is a TypedDict with a field `kind`. The spec and status of a Decision follow from the declared fields of the
record instead (`herodotus_record.fields`).

Owns: finding the kinds, the derivation of both forms, and the shape of fields of the record whose document differs from
the model. Does not own: types and meanings, which the module of each answer and `herodotus_record.model` declare. Pure.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import herodotus_answers
from herodotus_answers import decision, pruned
from herodotus_answers.declare import NotRequired
from herodotus_answers.node_groups import RecordedNodeGroups
from herodotus_record.fields import INLINE, FieldDeclaration, list_declarations
from herodotus_record.model import (
    API_GROUP,
    VERSION_OF_API,
    Column,
    Decision,
    Evaluation,
    FilterColumn,
    InputColumn,
    Inputs,
    Outcome,
    Reason,
    Summary,
    Verdict,
)

Json = dict[str, Any]
# of the engine and the service, whose libraries the plugin lacks
_WITHOUT_KINDS: Final = ("herodotus_answers.cluster_questions",)
ID: Final = f"https://{API_GROUP}/schemas/{VERSION_OF_API}"
# Kubernetes names schemas by the reversed group.
NAME: Final = f"{'.'.join(reversed(API_GROUP.split('.')))}.{VERSION_OF_API}"
_REFERENCE: Final = f"#/components/schemas/{NAME}."
_SCALARS: Final[Mapping[Any, Json]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    str: {"type": "string"},
}


def name_kind(kind: type) -> str:
    """Return the kind of a document's type, or "" for the type of a part of a document."""
    declared = get_type_hints(kind).get("kind") if is_typeddict(kind) else None
    return str(get_args(declared)[0]) if get_origin(declared) is Literal else ""


@cache
def list_types() -> Mapping[str, type]:
    """Return the type of each kind of document, from the modules of the package."""
    modules = [
        import_module(name)
        for _, name, _ in walk_packages(herodotus_answers.__path__, f"{herodotus_answers.__name__}.")
        if name not in _WITHOUT_KINDS
    ]
    declared = [
        kind
        for module in modules
        for kind in vars(module).values()
        if is_typeddict(kind) and kind.__module__ == module.__name__
    ]
    return {name: kind for kind in declared if (name := name_kind(kind))}


def refer_to(kind: str) -> Json:
    """Return a JSON `$ref` object that points to the schema of this kind."""
    return {"$ref": f"{_REFERENCE}{kind}"}


@cache
def build_schemas() -> Mapping[str, Json]:
    """Return the OpenAPI 3.0 schema of every kind of document."""
    found = {name: _describe_object(kind) for name, kind in list_types().items()}
    found["Decision"]["properties"] |= _derive_decision()
    return found


@cache
def build_json_schema() -> Json:
    """Return the JSON Schema document (2020-12) of all answers: under `$defs` one schema for each kind."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "$defs": {kind: _convert(schema) for kind, schema in sorted(build_schemas().items())},
    }


def _convert(value: Any) -> Any:
    """Return an OpenAPI schema as JSON Schema: null as a type, references to `$defs`, no extensions of Kubernetes."""
    if isinstance(value, list):
        return [_convert(item) for item in value]
    if not isinstance(value, dict):
        return value
    schema = {key: _convert(part) for key, part in value.items() if not key.startswith("x-") and key != "nullable"}
    if "$ref" in schema:
        schema["$ref"] = f"#/$defs/{value['$ref'].removeprefix(_REFERENCE)}"
    if value.get("nullable") is not True:
        return schema
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    if isinstance(schema.get("type"), str):
        return schema | {"type": [schema["type"], "null"]}
    meaning = {"description": schema.pop("description")} if "description" in schema else {}
    return {"anyOf": [schema, {"type": "null"}], **meaning} if schema else meaning


def _derive(annotation: Any) -> Json:
    """Return the OpenAPI schema of values with this type annotation."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return {"x-kubernetes-preserve-unknown-fields": True}
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if origin is Annotated:
        meaning = [text for text in arguments[1:] if isinstance(text, str)]
        return _describe(_derive(arguments[0]), meaning[0]) if meaning else _derive(arguments[0])
    if origin is NotRequired:
        return _derive(arguments[0])
    if origin is Literal:
        return {"type": "string", "enum": [value for value in arguments if value is not None]}
    if origin in (Union, UnionType):
        options = [option for option in arguments if option is not NoneType]
        schema = _derive(options[0]) if len(options) == 1 else {"anyOf": [_derive(option) for option in options]}
        return _allow_null(schema) if NoneType in arguments else schema
    if origin in (list, tuple):
        return {"type": "array", "items": _derive(arguments[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _derive(arguments[1])}
    if annotation is Column:
        return {"type": "object", "additionalProperties": _SCALARS[int]}
    if is_typeddict(annotation):
        kind = name_kind(annotation)
        return refer_to(kind) if kind else _describe_object(annotation)
    if is_dataclass(annotation):
        return {"type": "object", "properties": _list_properties(annotation)}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _SCALARS[str]
    raise TypeError(f"no schema for values of type {annotation}")


def _describe(schema: Json, meaning: str) -> Json:
    return {"allOf": [schema], "description": meaning} if "$ref" in schema else {**schema, "description": meaning}


def _allow_null(schema: Json) -> Json:
    return {"allOf": [schema], "nullable": True} if "$ref" in schema else {**schema, "nullable": True}


def _describe_object(kind: type) -> Json:
    """Return the schema of a TypedDict: its fields, which of them every document has, and its docstring."""
    hints = get_type_hints(kind, include_extras=True)
    meaning = " ".join(inspect.cleandoc(kind.__doc__ or "").split())
    schema: Json = {"type": "object", "description": meaning, "properties": {n: _derive(h) for n, h in hints.items()}}
    lacking = getattr(kind, "__optional_keys__", ())
    required = [name for name, hint in hints.items() if name not in lacking and not _may_lack(hint)]
    return schema | ({"required": required} if required else {})


def _may_lack(hint: Any) -> bool:
    return get_origin(hint) is NotRequired or (get_origin(hint) is Annotated and NotRequired in get_args(hint))


# --- the document of a record ---------------------------------------------------------------------------------------

_TEXTS: Final[Json] = {"type": "array", "items": _SCALARS[str]}


def _obj(meaning: str, properties: Json) -> Json:
    return {"type": "object", "description": meaning, "properties": properties}


def _list_words(values: list[str]) -> str:
    return f"{', '.join(values[:-1])} or {values[-1]}"


def _label(value: Enum) -> str:
    """Return the value of an enumeration as documents spell it."""
    return str(getattr(value, "label", value.value))


def _derive_field(kind: Any, name: str, declared: FieldDeclaration, annotation: Any) -> Json:
    """Return the schema of one field of a part: its type, its description and whether it may be null.

    The document has times, whose names end with `_us` in the model, as text. The description of an enumeration lists
    its values.
    """
    optional = NoneType in get_args(annotation)
    bare = next((a for a in get_args(annotation) if a is not NoneType), annotation) if optional else annotation
    if (kind, name) in _SHAPES:
        schema = _SHAPES[kind, name]()
    else:
        schema = _SCALARS[str] if name.endswith("_us") else _derive(bare)
    description = declared.description
    words = _ENUMERATIONS.get((kind, name)) or ([_label(v) for v in bare] if isinstance(bare, type(Enum)) else [])
    if words:
        description = f"{description[:-1]}: {_list_words(words)}."
    schema = {**schema, "description": description}
    return _allow_null(schema) if optional or declared.may_be_unknown or declared.null_if_empty else schema


def _list_properties(kind: Any) -> Json:
    """Return the schemas of the fields of a part's document by name, including those that only the document has."""
    types = get_type_hints(kind)
    properties: Json = {}
    for name, declared in list_declarations(kind).items():
        if declared.path == INLINE:
            properties |= _list_properties(types[name])
        elif declared.path:
            *parents, last = declared.path.split(".")
            holder = properties
            for parent in parents:
                holder = holder.setdefault(parent, _obj(_GROUPS.get(parent, ""), {}))["properties"]
            holder[last] = _derive_field(kind, name, declared, types[name])
    if kind in _DOCUMENT_ONLY:
        hints = get_type_hints(_DOCUMENT_ONLY[kind], include_extras=True)
        properties |= {name: _derive(hint) for name, hint in hints.items()}
    return properties


def _derive_decision() -> Json:
    """Return the schemas of the spec and the status of a Decision."""
    found = _list_properties(Decision)
    added = {
        "spec": _describe_object(decision.AddedSpec)["properties"],
        "status": _describe_object(decision.AddedStatus)["properties"] | {"outcomes": _describe_outcomes()},
    }
    return {
        part: _obj(found[part]["description"], found[part]["properties"] | properties)
        for part, properties in added.items()
    }


def _describe_outcomes() -> Json:
    return {
        "type": "array",
        "description": "Results of the phases after the decision.",
        "items": _derive(Outcome),
    }


def _describe_verdict_counts() -> Json:
    """Return the schema of a filter's verdicts on all nodes, as a pruned record counts them."""
    counts = _describe_object(decision.VerdictCounts)["properties"]
    verdict = _obj("Verdict and the number of nodes with it.", _list_properties(Verdict) | counts)
    verdicts = {"type": "array", "items": verdict, "description": "Verdicts of the filter."}
    return _obj("Verdicts of one filter.", {"plugin": _list_properties(FilterColumn)["plugin"], "verdicts": verdicts})


_GROUPS: Final = {
    "spec": "What the scheduling attempt read and computed. Lists omit the fields with an entry per node.",
    "status": "Outcome of the attempt.",
    "snapshot": "Snapshot of the cluster on which the attempt decided.",
}
# Types with the fields that only the document of a part has.
_DOCUMENT_ONLY: Final[dict[type, type]] = {
    Reason: decision.AddedToReason,
    FilterColumn: decision.AddedToFilter,
    Summary: pruned.Pruned,
}
# Fields whose document has another shape than the model. Functions, because some shapes contain derived ones.
_SHAPES: Final[dict[tuple[type, str], Callable[[], Json]]] = {
    (FilterColumn, "ids"): lambda: {"type": "object", "additionalProperties": _derive(Verdict)},
    (InputColumn, "values"): lambda: {"type": "object", "additionalProperties": _allow_null(_SCALARS[float])},
    (Inputs, "measured"): lambda: {"type": "object", "additionalProperties": _allow_null(_SCALARS[str])},
    (Inputs, "stale"): lambda: _TEXTS,
    (Summary, "verdicts"): lambda: {"type": "array", "items": _describe_verdict_counts()},
    (Decision, "chosen"): lambda: _SCALARS[str],
    (Decision, "evaluation"): lambda: {"type": "object", "additionalProperties": _SCALARS[str]},
    (Decision, "notes"): lambda: _TEXTS,
    (Outcome, "node_groups"): lambda: _derive(RecordedNodeGroups),
}
# The values of fields that are columns in the model.
_ENUMERATIONS: Final = {(Decision, "evaluation"): [e.label for e in Evaluation if e != Evaluation.ABSENT]}
