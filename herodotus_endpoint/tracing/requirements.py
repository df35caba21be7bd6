"""The check that the packages of the extra `otlp` are installed. Owns: that check. Imports none of them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

MODULES: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")


class TracingUnavailableError(Exception):
    """The error for `--otlp-endpoint` without the packages that it needs. The message is one line."""


def check_installed() -> None:
    """Raise TracingUnavailableError if the packages that export spans are not installed."""
    try:
        missing = [module for module in MODULES if find_spec(module) is None]
    except ModuleNotFoundError:  # of a parent package
        missing = list(MODULES)
    if missing:
        raise TracingUnavailableError(
            "--otlp-endpoint needs the packages of the extra otlp: pip install 'herodotus-servers[otlp]'"
        )
