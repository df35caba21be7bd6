"""A client for Prometheus: instant and range queries with a timeout. All requests to Prometheus go through it.

Owns: the envelope and the errors of the HTTP API. Does not own: the queries.
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
    """Prometheus does not answer or rejects the query; the message is one line."""


@dataclass(frozen=True)
class MetricSeries:
    """A time series in a Prometheus response: its labels, and its values in order of time.

    An instant query gives one value.
    """

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
    """A client for the Prometheus server at a base URL such as http://127.0.0.1:9090. Use it as a context manager."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S, transport: httpx.BaseTransport | None = None) -> None:
        """Create a client; `transport` replaces the network in tests."""
        self._http = httpx.Client(base_url=url.rstrip("/"), timeout=timeout_s, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def query(self, expression: str) -> list[MetricSeries]:
        """Run an instant query and return the matching series with one value each. Raises PrometheusError."""
        return self._get("/api/v1/query", {"query": expression})

    def query_range(self, expression: str, start_s: float, end_s: float, step_s: float) -> list[MetricSeries]:
        """Run a range query and return the matching series with their values. Raises PrometheusError.

        The times are in seconds since 1970; there is one value every `step_s` seconds.
        """
        return self._get("/api/v1/query_range", {"query": expression, "start": start_s, "end": end_s, "step": step_s})

    def _get(self, path: str, params: Mapping[str, Any]) -> list[MetricSeries]:
        try:
            response = self._http.get(path, params=params)
            envelope = msgspec.json.decode(response.content, type=_Envelope)
        except httpx.HTTPError as e:
            raise PrometheusError(
                f"Prometheus does not answer at {self._http.base_url}: {e}"
                " (--prometheus URL, or PROM_IP and PROM_PORT, set its address)"
            ) from e
        except msgspec.MsgspecError as e:
            raise PrometheusError(
                f"{self._http.base_url}: no answer of Prometheus ({response.status_code}): {e}"
            ) from e
        if envelope.status != "success":
            raise PrometheusError(f"{self._http.base_url}: {envelope.error or response.status_code}")
        return [MetricSeries(r.metric, _numbers(r)) for r in envelope.data.result]


def _numbers(result: _Result) -> NDArray[np.float64]:
    pairs = result.values or ([result.value] if result.value else [])
    return np.array([float(text) for _, text in pairs], np.float64)
