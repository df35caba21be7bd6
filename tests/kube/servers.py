"""API servers as transports: what was asked, and an answer for each request."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import httpx

from herodotus_kube.credentials import Credentials
from herodotus_kube.http import ApiServer
from herodotus_kube.responses import ResponseParser

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


OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"


class ScriptedServer:
    """Reads requests; what `answer` says of each is sent back, None closes the connection."""

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        self.requests: list[bytes] = []
        self.connections: list[socket.socket] = []
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        _close(self._listening)
        self._accepting.join()  # a connection that it took at the last moment is among them then
        for each in self.connections:
            _close(each)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while (request := _whole_request(connection)) is not None:
                self.requests.append(request)
                answer = self._answer(request)
                if answer is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(answer)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _whole_request(connection: socket.socket) -> bytes | None:
    """Head and body."""
    data = connection.recv(65536)
    reader, piece = ResponseParser(), b"HTTP/1.1 200 request\r\n" + data.partition(b"\r\n")[2]
    while data and reader.feed(piece) is None:
        piece = connection.recv(65536)
        data = data + piece if piece else b""
    return data or None
