"""The errors of an expression: it does not compile, or its evaluation fails."""

from __future__ import annotations


class CelError(Exception):
    """An expression that the API server refuses. The text is the detail of the API server's validation error."""


class CelRuntimeError(Exception):
    """An evaluation that fails. The text is what kube-scheduler reports after "CEL runtime error:"."""


class EvaluationPanicError(Exception):
    """A failure that kube-scheduler's library reports as a panic: no operator ignores it, as it does other errors."""


def no_such_overload(function: str = "", *types: str) -> CelRuntimeError:
    """Return the error of a call whose arguments have types that the function does not accept."""
    if not function:
        return CelRuntimeError("no such overload")
    return CelRuntimeError(f"no such overload: {function}" + (f"({', '.join(types)})" if types else ""))
