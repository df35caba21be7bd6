"""The extras of the servers' distribution, and the check that the packages of one are installed.

Owns: which modules each extra provides, the error if they are missing. Does not own: what uses them. Imports none of
them.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from herodotus_record.installation import describe_extra_installation

MODULES: Final = {  # by extra, as packages/servers/pyproject.toml names it
    "archive": ("duckdb", "pyarrow"),
    "otlp": ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"),
    "parquet": ("pyarrow",),
}


class MissingExtraError(Exception):
    """The error for a flag or command whose packages are not installed. The message is one line."""


def require_extra(extra: str, needed_by: str) -> None:
    """Raise MissingExtraError if the packages of an extra are not installed.

    `needed_by` is the flag or command that needs them, and begins the message.
    """
    if not all(map(_is_installed, MODULES[extra])):
        raise MissingExtraError(
            f"{needed_by} needs the packages of the extra {extra}: {describe_extra_installation(extra)}"
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a parent package
        return False
