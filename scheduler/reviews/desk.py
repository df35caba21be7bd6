"""The decisions service as it asks for reviews: the next question, and where its answer goes.

Owns: those requests, their form. Does not own: what is reviewed (`reviewer`), who we are (`recorder.endpoint`).

The scheduler asks and the service answers, never the other way: the connection, its credentials and its network policy
are those of the records, and the service need not find out which replica leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
import msgspec

from herodotus_record import codec
from herodotus_record.templates import NoTemplateError, Template
from scheduler.recorder.connection import Connection
from scheduler.recorder.endpoint import Endpoint

Json = dict[str, Any]

WAIT_S: Final = 20.0  # how long the service may keep us waiting for a question
PATIENCE_S: Final = WAIT_S + 10.0
REFUSED: Final = "application/json"


class DeskError(Exception):
    """The service did not answer, or not as it should. One line that says why."""


@dataclass(frozen=True)
class Question:
    """What is to be reviewed. `scheduler`: which profile decides. `deadline_s`: how long its asker waits."""

    id: str
    namespace: str
    scheduler: str
    template: Template
    replicas: int
    deadline_s: float


class Desk:
    """Questions for the profiles of one scheduler process, which leads."""

    def __init__(
        self,
        endpoint: Endpoint,
        cluster: str,
        schedulers: Sequence[str],
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`cluster`: its id, in which our records are too. `transport`: instead of the network."""
        self._connection = Connection(endpoint, PATIENCE_S, transport)
        self._url = f"{endpoint.url.rstrip('/')}/ingest/v1/reviews"
        self._of = [("cluster", cluster)]
        self._for = [*self._of, *(("scheduler", name) for name in schedulers), ("wait", str(int(WAIT_S)))]

    def next(self) -> Question | None:
        """The question that has waited longest; None where nobody asks for a while. DeskError."""
        response = self._send("GET", self._url, params=self._for)
        if response.status_code == 204:
            return None
        try:
            return _question(msgspec.json.decode(response.content))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, NoTemplateError) as e:
            raise DeskError(f"a question that cannot be read: {e}") from e

    def answer(self, question: Question, frames: bytes) -> None:
        """What came of it, as frames. DeskError."""
        headers = {"Content-Type": codec.CONTENT_TYPE, "Content-Encoding": "zstd"}
        self._lay_down(question, headers, codec.compress(frames))

    def refuse(self, question: Question, code: int, message: str) -> None:
        """That there is no answer, and why. DeskError."""
        self._lay_down(question, {"Content-Type": REFUSED}, msgspec.json.encode({"code": code, "message": message}))

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def _lay_down(self, question: Question, headers: dict[str, str], body: bytes) -> None:
        self._send("POST", f"{self._url}/{question.id}", headers, params=self._of, content=body)

    def _send(self, method: str, url: str, headers: dict[str, str] | None = None, **options: Any) -> httpx.Response:
        try:
            response = self._connection.send(method, url, headers=headers or {}, **options)
        except (OSError, httpx.HTTPError) as e:
            raise DeskError(str(e) or type(e).__name__) from e
        if response.is_error:
            raise DeskError(f"{response.status_code}: {response.text[:200]}")
        return response


def _question(said: Json) -> Question:
    template = said["template"]
    return Question(
        id=str(said["id"]),
        namespace=str(said["namespace"]),
        scheduler=str(said["scheduler"]),
        template=Template(template["kind"], template["name"], template["namespace"], template["pod"], 1),
        replicas=int(said["replicas"]),
        deadline_s=float(said["deadlineSeconds"]),
    )
