"""API servers as transports: what was asked, and an answer for each request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpx

from herodotus_kube.credentials import Credentials
from herodotus_kube.http import ApiServer

Json = dict[str, Any]
Handler = Callable[[httpx.Request], httpx.Response]


def api_of(handler: Handler) -> ApiServer:
    credentials = Credentials("http://api", None, lambda: {"Authorization": "Bearer t"})
    return ApiServer(credentials, transport=httpx.MockTransport(handler))


def status(code: int, reason: str = "", message: str = "", **headers: str) -> httpx.Response:
    return httpx.Response(
        code, json={"kind": "Status", "code": code, "reason": reason, "message": message}, headers=headers
    )


class Pieces(httpx.SyncByteStream):
    """A body that comes in these pieces; an exception breaks the connection there."""

    def __init__(self, pieces: Iterable[bytes | Exception]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece


def line(type: str, obj: Json) -> bytes:
    return json.dumps({"type": type, "object": obj}).encode() + b"\n"


class Script:
    """Answers in order; the last one for ever. Keeps the requests."""

    def __init__(self, *answers: httpx.Response | Exception | Handler) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    def bodies(self) -> list[Json]:
        return [json.loads(r.content) for r in self.requests if r.content]
