"""The error of an invalid configuration."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.engine.objects.problems import Problem, aggregate


class ConfigError(ValueError):
    """An invalid configuration. The message is one line that names the field, or the file and line, and the reason."""

    @classmethod
    def raise_any(cls, problems: Iterable[Problem]) -> None:
        """Raise one ConfigError that lists all problems as kube-scheduler prints them.

        Do nothing if there are no problems.
        """
        found = list(problems)
        if found:
            raise cls(aggregate(found))
