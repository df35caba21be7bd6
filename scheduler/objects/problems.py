"""What is wrong with a field, as the API machinery says it: `PATH: Invalid value: VALUE: DETAIL`.

Owns: the kinds of problems and how each is written. Does not own: any rule. A value is shown as JSON.
Source: k8s.io/apimachinery/pkg/util/validation/field (Error) and util/errors (aggregate) v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import msgspec


class Kind(Enum):
    """What kind of problem; the value is the API machinery's word for it."""

    INVALID = "Invalid value"
    REQUIRED = "Required value"
    FORBIDDEN = "Forbidden"
    DUPLICATE = "Duplicate value"
    NOT_SUPPORTED = "Unsupported value"


_WITHOUT_VALUE = frozenset({Kind.REQUIRED, Kind.FORBIDDEN})


@dataclass(frozen=True)
class Problem:
    """A field's path, what is wrong, the value it has and why that will not do."""

    kind: Kind
    path: str
    value: object = ""
    detail: str = ""

    def below(self, parent: str) -> Problem:
        """The same problem of a field whose path was relative to `parent`."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return replace(self, path=f"{parent}{joint}{self.path}")

    def __str__(self) -> str:
        said = [self.path, self.kind.value]
        if self.kind not in _WITHOUT_VALUE:
            said.append(msgspec.json.encode(self.value).decode())
        return ": ".join([*said, self.detail] if self.detail else said)


def invalid(path: str, value: object, detail: str) -> Problem:
    """Malformed, or out of range."""
    return Problem(Kind.INVALID, path, value, detail)


def required(path: str, detail: str = "") -> Problem:
    """Missing."""
    return Problem(Kind.REQUIRED, path, detail=detail)


def forbidden(path: str, detail: str) -> Problem:
    """Well formed, and not allowed here."""
    return Problem(Kind.FORBIDDEN, path, detail=detail)


def duplicate(path: str, value: object) -> Problem:
    """May occur once only."""
    return Problem(Kind.DUPLICATE, path, value)


def not_supported(path: str, value: object, supported: Sequence[str]) -> Problem:
    """None of the values that the field may have."""
    listed = ", ".join(f'"{each}"' for each in supported)
    return Problem(Kind.NOT_SUPPORTED, path, value, f"supported values: {listed}")


def aggregate(problems: Iterable[Problem]) -> str:
    """Several as one line, each once: `[FIRST, SECOND]`; one alone without brackets."""
    said = list(dict.fromkeys(str(problem) for problem in problems))
    return said[0] if len(said) == 1 else f"[{', '.join(said)}]"
