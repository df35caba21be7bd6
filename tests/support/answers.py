"""Answers as tests read and write them."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints, is_typeddict

from herodotus_answers.cluster_review import ClusterReviewStatus, build_empty_status

Answer = TypeVar("Answer")


def as_json(answer: Mapping[str, object] | None) -> dict[str, Any]:
    """Return an answer as plain JSON, in which a test may read and write every key."""
    assert answer is not None
    return cast("dict[str, Any]", answer)


def fill(kind: type[Answer], /, **given: Any) -> Answer:
    """Return an answer, or a part of one, with these values and empty ones in all other fields of its type."""
    hints = get_type_hints(kind)
    assert given.keys() <= hints.keys(), f"{kind.__name__} has no {sorted(given.keys() - hints.keys())}"
    return cast("Answer", {name: given.get(name, _build_empty(hint)) for name, hint in hints.items()})


def _build_empty(hint: Any) -> Any:
    if NoneType in get_args(hint):
        return None
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    return fill(hint) if is_typeddict(hint) else (get_origin(hint) or hint)()


def a_status(**given: Any) -> ClusterReviewStatus:
    """Return a complete answer to a question about the cluster, with these values."""
    return fill(ClusterReviewStatus, **{**build_empty_status(), **given})
