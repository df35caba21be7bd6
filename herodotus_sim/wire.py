"""The values that pass between the server and the handlers: SimulatedRequest and SimulatedResponse.

Does not own: parsing or writing HTTP (`server`), what a path means (`routes`).

Invariant: an SimulatedResponse has either a body or a stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

Object = dict[str, Any]
"""A Kubernetes object, decoded from JSON. A stored object is never changed in place."""

JSON = "application/json"


def encode(value: Any) -> bytes:
    """Return the value as compact UTF-8 JSON, as kube-apiserver writes it; characters that UTF-8 lacks are replaced."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def decode(body: bytes) -> Any:
    """Return the value of a JSON text; raise ValueError for invalid JSON, and for NaN and Infinity."""
    return json.loads(body, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


@dataclass
class SimulatedRequest:
    """One HTTP request with its complete body."""

    method: str
    path: str
    raw_query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Header values by name in lower case."""
    body: bytes = b""
    is_client_gone: Callable[[], bool] = lambda: False
    """Returns whether the client has disconnected; idle streams call it."""

    @cached_property
    def query(self) -> dict[str, str]:
        """Return the query parameters by name; if a name occurs several times, its last value counts."""
        return dict(parse_qsl(self.raw_query, keep_blank_values=True)) if self.raw_query else {}

    def flag(self, name: str) -> bool:
        """Return whether the query parameter `name` is true or 1."""
        return self.query.get(name, "").lower() in ("true", "1")


@dataclass
class SimulatedResponse:
    """One HTTP response, which has either a complete body or a stream of chunks."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    stream: Iterator[bytes] | None = None


def json_response(value: Any, status: int = 200) -> SimulatedResponse:
    """Return a response whose body is `value` as JSON."""
    return SimulatedResponse(status=status, body=encode(value))
