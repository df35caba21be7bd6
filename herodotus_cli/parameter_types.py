"""Types of command-line parameters: durations, numbers, the address of the decisions service.

Owns: parsing one value, and the usage error for a wrong one. Does not own: which options have these types (`options`).
"""

from __future__ import annotations

import re
from typing import Any

import click

from herodotus_cli.connection import ServiceAddress
from herodotus_cli.object_names import is_valid_name

_LAST_PORT = 65_535
_PORT_DIGITS = 6  # enough to see that a number is too large
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")


class Duration(click.ParamType[float]):
    """The type of an option that is a duration: `30s`, `5m`, `24h`, `7d`, `1h30m`, or a number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the duration in seconds, or fail with a usage error."""
        text = str(value)
        if text.replace(".", "", 1).isdigit():
            return float(text)
        if not re.fullmatch(rf"(?:{_DURATION.pattern})+", text):
            self.fail(f"{text!r} is not a duration: write 30s, 5m, 24h or 7d", param, ctx)
        return sum(int(number) * _UNITS_S[unit] for number, unit in _DURATION.findall(text))


class WholeNumber(click.IntRange):
    """The type of an option that is a whole number in a range. The usage error for a wrong one names the range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or fail with a usage error."""
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            limits = f"of at least {self.min}" if self.max is None else f"from {self.min} to {self.max}"
            self.fail(f"{value!r} is not a whole number {limits}", param, ctx)


class PositiveDuration(Duration):
    """The type of an option that is a duration longer than zero."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the duration in seconds, or fail with a usage error if it is invalid or 0."""
        seconds = super().convert(value, param, ctx)
        if not seconds:
            self.fail(f"{value!r} must be longer than 0: write 1h, 24h or 7d", param, ctx)
        return seconds


class Endpoint(click.ParamType[str]):
    """The type of an option that is the base URL of the decisions service, http or https."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the URL without trailing slashes, or fail with a usage error."""
        if value and not _is_url(str(value)):
            self.fail(f"{value!r} is not a URL: write http://HOST:PORT or https://HOST:PORT", param, ctx)
        return str(value).rstrip("/")


def _is_url(text: str) -> bool:
    from urllib.parse import urlsplit  # here, because few command lines have a URL

    try:
        url = urlsplit(text)
        port = url.port  # ValueError beyond 65535
    except ValueError:
        return False
    return (
        url.scheme in ("http", "https") and bool(url.hostname) and port != 0 and text.isprintable() and " " not in text
    )


class ServiceName(click.ParamType[ServiceAddress]):
    """The type of an option that names a Kubernetes Service: `NAMESPACE/NAME:PORT`, or `NAMESPACE/http:NAME:PORT`.

    The second form is for a Service without TLS.
    """

    name = "service"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ServiceAddress:
        """Return the parsed address of the Service, or fail with a usage error."""
        if isinstance(value, ServiceAddress):
            return value
        match = re.fullmatch(r"([a-z0-9.-]+)/(?:(https?):)?([a-z0-9.-]+):([a-z0-9-]+)", str(value))
        if not match or not all(map(is_valid_name, match.group(1, 3))):
            self.fail(f"{value!r} is not NAMESPACE/NAME:PORT", param, ctx)
        if match[4].isdecimal() and not 0 < int(match[4][:_PORT_DIGITS]) <= _LAST_PORT:
            self.fail(f"{value!r}: {match[4]} is not a port", param, ctx)
        return ServiceAddress(match[1], match[2] or "https", match[3], match[4])
