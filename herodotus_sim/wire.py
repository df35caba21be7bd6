"""Owns: the values that pass between the socket and the handlers: Request and Response.

Does not own: parsing or writing HTTP (`server`), what a path means (`routes`).
Invariant: a Response has either a body or a stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

Object = dict[str, Any]
"""A Kubernetes object, decoded from JSON. Once stored it is never changed in place."""

JSON = "application/json"


def encode(value: Any) -> bytes:
    """JSON as kube-apiserver writes it: compact, UTF-8, what is no text replaced."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def decode(body: bytes) -> Any:
    """Read JSON. Raises ValueError, also for NaN and Infinity, which are not JSON."""
    return json.loads(body, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


@dataclass
class Request:
    """One HTTP request, its body read in full."""

    method: str
    path: str
    raw_query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: bytes = b""
    client_gone: Callable[[], bool] = lambda: False
    """Whether the caller has hung up; asked by streams that have nothing to send."""

    @cached_property
    def query(self) -> dict[str, str]:
        """The parameters, the last one of a name winning."""
        return dict(parse_qsl(self.raw_query, keep_blank_values=True)) if self.raw_query else {}

    def flag(self, name: str) -> bool:
        """Whether a boolean parameter is set."""
        return self.query.get(name, "").lower() in ("true", "1")


@dataclass
class Response:
    """One HTTP answer: a body, or a stream of chunks sent as they come."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    stream: Iterator[bytes] | None = None


def json_response(value: Any, status: int = 200) -> Response:
    """The answer that carries `value`."""
    return Response(status=status, body=encode(value))
