"""The one door to Prometheus: instant and range queries, with a time-out.

Owns: the HTTP API's envelope and errors. Does not own: what is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import httpx
import msgspec
import numpy as np
from numpy.typing import NDArray

TIMEOUT_S: Final = 30.0


class PrometheusError(Exception):
    """Prometheus does not answer, or refuses the query, in one line."""


@dataclass(frozen=True)
class Series:
    """Labels, and values in the order of time (of an instant query: one)."""

    labels: Mapping[str, str]
    values: NDArray[np.float64]


class _Result(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] | None = None


class _Data(msgspec.Struct):
    result: list[_Result] = []


class _Envelope(msgspec.Struct):
    status: str = ""
    error: str = ""
    data: _Data = msgspec.field(default_factory=_Data)


class Prometheus:
    """One server, by its base URL such as http://127.0.0.1:9090."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S, transport: httpx.BaseTransport | None = None) -> None:
        """`transport`: instead of the network."""
        self._http = httpx.Client(base_url=url.rstrip("/"), timeout=timeout_s, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def instant(self, query: str) -> list[Series]:
        """The value of each series now. PrometheusError."""
        return self._ask("/api/v1/query", {"query": query})

    def range(self, query: str, start_s: float, end_s: float, step_s: float) -> list[Series]:
        """The values of each series between two times. PrometheusError."""
        return self._ask("/api/v1/query_range", {"query": query, "start": start_s, "end": end_s, "step": step_s})

    def _ask(self, path: str, params: Mapping[str, Any]) -> list[Series]:
        try:
            response = self._http.get(path, params=params)
            answer = msgspec.json.decode(response.content, type=_Envelope)
        except httpx.HTTPError as e:
            raise PrometheusError(
                f"Prometheus does not answer at {self._http.base_url}: {e}"
                " (--prometheus URL, or PROM_IP and PROM_PORT, say where it is)"
            ) from e
        except msgspec.MsgspecError as e:
            raise PrometheusError(
                f"{self._http.base_url}: no answer of Prometheus ({response.status_code}): {e}"
            ) from e
        if answer.status != "success":
            raise PrometheusError(f"{self._http.base_url}: {answer.error or response.status_code}")
        return [Series(r.metric, _numbers(r)) for r in answer.data.result]


def _numbers(result: _Result) -> NDArray[np.float64]:
    pairs = result.values or ([result.value] if result.value else [])
    return np.array([float(text) for _, text in pairs], np.float64)
