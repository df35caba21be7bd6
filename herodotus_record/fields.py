"""Declare the fields of a record: where each is in the document, what it means and what its value discloses.

Fields of answers, which are TypedDicts, declare what they disclose in their annotation instead:
`Annotated[TYPE, MEANING, Discloses.NODES]` (`herodotus_answers.declare`).

Owns: the form of a declaration, and what each field of a record or answer discloses. Does not own: the declarations
(`model`), masking (`disclosure`), the schema (`herodotus_answers.schema`) and the reference page that are derived from
them. Imports only the standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    NamedTuple,
    TypeVar,
    get_args,
    get_type_hints,
    is_typeddict,
)

from herodotus_record.discloses import Discloses

Part = TypeVar("Part")
INLINE: Final = "."  # path of a part whose fields are fields of the document that contains it


class FieldDeclaration(NamedTuple):
    """What readers of the code and of documents need to know about one field of a record.

    `path` is relative to the document of the part that has the field, such as `spec.times` for a decision; it is "" if
    the document does not contain the field, and INLINE if the part's own fields take its place. `meaning` is a
    sentence, and `unit` completes it. `may_be_unknown` is whether the path may be in `Decision.unknown`.
    `null_if_empty` is whether the document has null in place of an empty text.
    """

    discloses: Discloses
    path: str
    meaning: str
    unit: str
    may_be_unknown: bool
    null_if_empty: bool

    @property
    def description(self) -> str:
        """Return the meaning with the unit, as schemas and the reference page print it."""
        return f"{self.meaning[:-1]}, in {self.unit}." if self.unit else self.meaning


def declare(
    discloses: Discloses,
    path: str = "",
    meaning: str = "",
    *,
    unit: str = "",
    unknown: bool = False,
    null_if_empty: bool = False,
    default: Any = MISSING,
    default_factory: Any = MISSING,
) -> Any:
    """Return a dataclass field with a declaration; the arguments are those of `FieldDeclaration` and of `field`."""
    declaration = FieldDeclaration(discloses, path, meaning, unit, unknown, null_if_empty)
    options = {"default": default, "default_factory": default_factory}
    return field(metadata={"declaration": declaration}, **{name: v for name, v in options.items() if v is not MISSING})


if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Part], Part]:
        """Return a decorator that changes nothing, because `typing.dataclass_transform` exists only since Python 3.11.

        Only type checkers use the arguments.
        """
        return lambda function: function


@dataclass_transform(frozen_default=True, field_specifiers=(declare,))
def record_part(kind: type[Part]) -> type[Part]:
    """Make the class a frozen dataclass whose fields are declared with `declare`."""
    return dataclass(frozen=True)(kind)


def list_declarations(kind: type) -> Mapping[str, FieldDeclaration]:
    """Return the declarations of a dataclass's fields by field name; fields without a declaration are omitted."""
    return {f.name: f.metadata["declaration"] for f in fields(kind) if "declaration" in f.metadata}


class Disclosure(NamedTuple):
    """What a field discloses, and the type of the parts that its value holds, None if it holds none."""

    rule: Discloses
    part: type | None


@cache
def list_disclosures(kind: type) -> dict[str, Disclosure]:
    """Return, by field name, what the fields of a record's dataclass or of an answer's TypedDict disclose.

    Fields without a declaration are omitted.
    """
    types = get_type_hints(kind)
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        rules = {name: rule for name, hint in hints.items() if (rule := _find_rule(hint)) is not None}
    else:
        rules = {name: declared.discloses for name, declared in list_declarations(kind).items()}
    return {name: Disclosure(rule, find_part(types[name])) for name, rule in rules.items()}


def _find_rule(hint: Any) -> Discloses | None:
    """Return the Discloses value in the annotation of a TypedDict's field, also inside NotRequired, or None."""
    arguments = get_args(hint)
    if len(arguments) == 1:
        return _find_rule(arguments[0])
    return next((argument for argument in arguments if isinstance(argument, Discloses)), None)


def find_part(annotation: Any) -> type | None:
    """Return the first dataclass or TypedDict in a field's type, such as `Reason` in `tuple[Reason, ...]`, or None."""
    if isinstance(annotation, type) and (is_dataclass(annotation) or is_typeddict(annotation)):
        return annotation
    return next(filter(None, map(find_part, get_args(annotation))), None)


def list_unknown_paths(kind: type, prefix: str = "") -> Iterator[str]:
    """Yield the document path of each field of a part, or of a part inside it, that is declared as possibly unknown.

    `kind` is the dataclass of the part, and `prefix` the start of each path. As in `Decision.unknown`, a list's name is
    followed directly by the names of its entries' fields.
    """
    types = get_type_hints(kind)
    for name, declared in list_declarations(kind).items():
        if not declared.path:
            continue
        path = prefix if declared.path == INLINE else f"{prefix}{declared.path}"
        if declared.may_be_unknown:
            yield path
        part = find_part(types[name])
        if part is not None:
            yield from list_unknown_paths(part, path if declared.path == INLINE else f"{path}.")
