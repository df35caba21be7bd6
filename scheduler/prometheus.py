"""Prometheus, asked in the background: a plugin reads the newest answer and never waits for one.

Owns: one query's rhythm, time-out, and what is known of its last failure. Does not own: what is asked, what values
mean.

Invariant: `latest` returns at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import httpx
import msgspec

from scheduler import klog

MAX_ANSWER_BYTES: Final = 64 << 20  # some 300,000 series


@dataclass(frozen=True)
class Answer:
    """Values by one label. `at_s`: when they came, monotonic; None before the first answer.

    `of_s`: when Prometheus evaluated the query, in seconds since 1970; None where it had no series. `error`: why the
    last try had no answer.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    at_s: float | None = None
    of_s: float | None = None
    error: str = ""


class _Result(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct):
    result: list[_Result] = []


class _Envelope(msgspec.Struct):
    status: str = ""
    error: str = ""
    data: _Data = msgspec.field(default_factory=_Data)


class BackgroundQuery:
    """An instant query, asked again and again in a thread of its own from the first `latest` on."""

    def __init__(
        self,
        url: str,
        query: str,
        label: str,
        *,
        every_s: float,
        timeout_s: float,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`label`: by which values are told apart; of several series with one value of it the largest counts."""
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._query = query
        self._label = label
        self._every_s = every_s
        self._http = httpx.Client(timeout=timeout_s, transport=transport)
        self._answer = Answer(error="no answer yet")
        self._thread: threading.Thread | None = None

    def latest(self) -> Answer:
        """The newest answer, however old."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="prometheus", daemon=True)
            self._thread.start()
        return self._answer

    def ask(self) -> None:
        """Once, and wait for it. The values of before stay where there is no answer."""
        try:
            values, of_s = self._values()
        except (httpx.HTTPError, msgspec.MsgspecError, ValueError) as e:
            said = " ".join(str(e).split()) or type(e).__name__
            if not self._answer.error or self._answer.at_s is None:
                klog.warning("Prometheus does not answer", url=self._url, err=said)
            self._answer = replace(self._answer, error=said)
        else:
            self._answer = Answer(values, time.monotonic(), of_s)

    def _run(self) -> None:
        while True:
            self.ask()
            time.sleep(self._every_s)

    def _values(self) -> tuple[dict[str, float], float | None]:
        """Values by label, and when the query was evaluated."""
        with self._http.stream("GET", self._url, params={"query": self._query}) as response:
            body = b""
            for piece in response.iter_bytes():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise ValueError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        answer = msgspec.json.decode(body, type=_Envelope)
        if answer.status != "success":
            raise ValueError(answer.error or f"status {response.status_code}")
        values: dict[str, float] = {}
        for result in answer.data.result:
            name = result.metric.get(self._label, "")
            values[name] = max(float(result.value[1]), values.get(name, float("-inf")))
        return values, max((result.value[0] for result in answer.data.result), default=None)
