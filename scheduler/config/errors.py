"""What is wrong with a configuration, in the API machinery's form: `PATH: Invalid value: VALUE: DETAIL`."""

from __future__ import annotations

import json


class ConfigError(ValueError):
    """One line that names the field, or the file and line, and what is wrong."""

    @classmethod
    def all_of(cls, problems: list[str]) -> ConfigError:
        """Several problems as one error, aggregated as kube-scheduler prints them."""
        return cls(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def invalid(path: str, value: object, detail: str) -> str:
    """A value that is out of range or malformed."""
    if detail.startswith("supported values:"):
        return f"{path}: Unsupported value: {json.dumps(value)}: {detail}"
    if isinstance(value, str | int | float | bool):
        return f"{path}: Invalid value: {json.dumps(value)}: {detail}"
    return f"{path}: Invalid value: {detail}"


def required(path: str) -> str:
    """A value that is missing."""
    return f"{path}: Required value"


def duplicate(path: str, value: str) -> str:
    """A value that may occur once only."""
    return f"{path}: Duplicate value: {json.dumps(value)}"
