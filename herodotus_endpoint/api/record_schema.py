"""Derive the OpenAPI schema of a decision from its declared fields, which `kubectl explain` and docs/record.md print.

Owns: the shape of fields whose document differs from the model, and fields that only the document has. Does not own:
the path and the meaning of the model's fields (`herodotus_record.model`), the document (`herodotus_answers.decision`);
tests check it against the schema. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from herodotus_endpoint.api.schema_types import Json, array, boolean, integer, mapping, nullable, obj, string
from herodotus_record.fields import INLINE, FieldDeclaration, list_declarations
from herodotus_record.model import (
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

_SCALARS: Final[Mapping[Any, Json]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    str: {"type": "string"},
}
_TEXTS: Final[Json] = {"type": "array", "items": _SCALARS[str]}


def _list_words(values: list[str]) -> str:
    return f"{', '.join(values[:-1])} or {values[-1]}"


def _label(value: Enum) -> str:
    """Return the value of an enumeration as documents spell it."""
    return str(getattr(value, "label", value.value))


def _derive_type(annotation: Any) -> Json:
    """Return the schema, without a description, of values with this type annotation."""
    arguments = get_args(annotation)
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if get_origin(annotation) in (Union, UnionType):
        return nullable(_derive_type(next(kind for kind in arguments if kind is not type(None))))
    if get_origin(annotation) is tuple:
        return {"type": "array", "items": _derive_type(arguments[0])}
    if get_origin(annotation) is Mapping:
        return {"type": "object", "additionalProperties": _derive_type(arguments[1])}
    if annotation is Column:
        return {"type": "object", "additionalProperties": _SCALARS[int]}
    if is_dataclass(annotation):
        return {"type": "object", "properties": _list_properties(annotation)}
    if issubclass(annotation, Enum):
        return _SCALARS[str]
    raise TypeError(f"no schema for values of type {annotation}: add the field to _SHAPES")


def _derive_field(kind: Any, name: str, declared: FieldDeclaration, annotation: Any) -> Json:
    """Return the schema of one field of a part: its type, its description and whether it may be null.

    The document has times, whose names end with `_us` in the model, as text. The description of an enumeration lists
    its values.
    """
    optional = type(None) in get_args(annotation)
    bare = next((a for a in get_args(annotation) if a is not type(None)), annotation) if optional else annotation
    if (kind, name) in _SHAPES:
        schema = _SHAPES[kind, name]()
    else:
        schema = _SCALARS[str] if name.endswith("_us") else _derive_type(bare)
    description = declared.description
    words = _ENUMERATIONS.get((kind, name)) or ([_label(v) for v in bare] if isinstance(bare, type(Enum)) else [])
    if words:
        description = f"{description[:-1]}: {_list_words(words)}."
    schema = {**schema, "description": description}
    return nullable(schema) if optional or declared.may_be_unknown or declared.null_if_empty else schema


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
                holder = holder.setdefault(parent, obj(_GROUPS.get(parent, "")))["properties"]
            holder[last] = _derive_field(kind, name, declared, types[name])
    return properties | _DOCUMENT_ONLY.get(kind, {})


_GROUPS: Final = {
    "spec": "What the scheduling attempt read and computed. Lists omit the fields with an entry per node.",
    "status": "Outcome of the attempt.",
    "snapshot": "Snapshot of the cluster on which the attempt decided.",
}
_DOCUMENT_ONLY: Final[dict[type, Json]] = {
    Reason: {"sentence": string("kube-scheduler's sentence for the reason.")},
    FilterColumn: {
        "notRun": array(
            "Nodes on which the filter did not run because an earlier filter had rejected them.", _SCALARS[str]
        )
    },
    Summary: {
        "keptNodes": integer("Number of nodes whose entries are kept."),
        "text": string("Sentence that says when the record was pruned and what is kept."),
    },
}


def _describe_verdict_counts() -> Json:
    """Return the schema of a filter's verdicts on all nodes, as a pruned record counts them."""
    counts = {
        "nodes": integer("Number of nodes with the verdict."),
        "first": integer("Number of these nodes that no earlier filter had rejected."),
    }
    verdict = obj("Verdict and the number of nodes with it.", **_list_properties(Verdict), **counts)
    plugin = _list_properties(FilterColumn)["plugin"]
    return obj("Verdicts of one filter.", plugin=plugin, verdicts=array("Verdicts of the filter.", verdict))


# Fields whose document has another shape than the model. Functions, because some shapes contain derived ones.
_SHAPES: Final[dict[tuple[type, str], Callable[[], Json]]] = {
    (FilterColumn, "ids"): lambda: {"type": "object", "additionalProperties": _derive_type(Verdict)},
    (InputColumn, "values"): lambda: {"type": "object", "additionalProperties": nullable(_SCALARS[float])},
    (Inputs, "measured"): lambda: {"type": "object", "additionalProperties": nullable(_SCALARS[str])},
    (Inputs, "stale"): lambda: _TEXTS,
    (Summary, "verdicts"): lambda: {"type": "array", "items": _describe_verdict_counts()},
    (Decision, "chosen"): lambda: _SCALARS[str],
    (Decision, "evaluation"): lambda: {"type": "object", "additionalProperties": _SCALARS[str]},
    (Decision, "notes"): lambda: _TEXTS,
    (Outcome, "node_groups"): lambda: {"type": "object"},
}
# The values of fields that are columns in the model.
_ENUMERATIONS: Final = {(Decision, "evaluation"): [e.label for e in Evaluation if e != Evaluation.ABSENT]}

ORIGINS: Final = obj(
    "Origin of each part if a log record and a reconstruction of one attempt are merged; otherwise absent.",
    records=mapping("ID of each merged record, by source.", _SCALARS[str]),
    parts=array(
        "Parts with values from the log.",
        obj(
            "One part.",
            part=string("Path of the part."),
            text=string("Description of the part."),
            **{"from": array("Sources of the part: logged, or both if each provides values.", _SCALARS[str])},
            overruled=integer("Number of values in which the reconstruction differs from the log."),
        ),
    ),
    rest=string("Source of all other parts."),
    evaluation=string("Headline of the reconstruction alone."),
)
ARCHIVE: Final[Json] = obj(
    "Where the decision comes from, if it is in the archive and not in the database any more.",
    day=string("UTC day in which the service stored it."),
)
_DECISION: Final = _list_properties(Decision)
PRUNED: Final[Json] = _DECISION["spec"]["properties"]["pruned"]
SPEC: Final[Json] = obj(
    _DECISION["spec"]["description"],
    **_DECISION["spec"]["properties"],
    ties=array("Nodes that shared the best total; empty if one node alone had it.", _SCALARS[str]),
    origins=ORIGINS,
    archive=ARCHIVE,
)
STATUS: Final[Json] = obj(
    _DECISION["status"]["description"],
    state=string("State of the attempt: Bound, Binding, DryRun, Failed, Unschedulable or Error."),
    **_DECISION["status"]["properties"],
    lost=boolean("Whether the result was not recorded because the scheduler was restarted."),
    outcomes=array("Results of the phases after the decision.", _derive_type(Outcome)),
)
