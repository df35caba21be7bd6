"""Owns: the values that pass between the socket and the handlers: Request and Response.

Does not own: parsing or writing HTTP (`server`), what a path means (`routes`).
Invariant: a Response has either a body or a stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

Object = dict[str, Any]
"""A Kubernetes object, decoded from JSON. Once stored it is never changed in place."""

JSON = "application/json"


def encode(value: Any) -> bytes:
    """JSON as kube-apiserver writes it: compact, UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


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
    _query: dict[str, str] | None = None

    @property
    def query(self) -> dict[str, str]:
        """The parameters, the last one of a name winning."""
        if self._query is None:
            self._query = dict(parse_qsl(self.raw_query, keep_blank_values=True)) if self.raw_query else {}
        return self._query

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
