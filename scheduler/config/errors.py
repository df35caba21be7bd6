"""The error of an invalid configuration."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.engine.objects.problems import Problem, aggregate


class ConfigError(ValueError):
    """A one-line error that names the field, or the file and line, and the reason."""

    @classmethod
    def raise_any(cls, problems: Iterable[Problem]) -> None:
        """Raise the problems as one error, aggregated as kube-scheduler prints them, if there are any."""
        found = list(problems)
        if found:
            raise cls(aggregate(found))
