"""Owns: injected faults, as a layer around the handler of requests; its door is `/faults`.

    GET /faults             the plan in force, and how often each rule has struck
    PUT /faults             another plan (`plan`)
    POST /faults/compact    forget the history, as etcd's compaction does
    POST /faults/restart    hang up on everyone, serve nobody for ?seconds=, come back without history

Does not own: what a request means (`routes`), which knows nothing of faults.

What a watch may do to its client is what a real one may do. Within one stream, events of a kind come in the order of
their versions, each once, and a stream resumed at a version brings everything behind it: a client that resumes relies
on that, so no fault breaks it across objects or within one. What the protocol leaves open is broken: streams of two
kinds, or of two clients, run late against each other (`late`); a stream ends at any byte (`cut`) or early and in good
order (`end`); a version to resume from is refused (`gone`, `compact`), so that a client sees a state without the events
that led to it; bookmarks come at any time (`bookmark`). `repeat` goes further than a watch cache does: the same event
of the same version twice in a row, which client-go's stores bear and so must ours.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from herodotus_sim import errors
from herodotus_sim.plan import Fault, Plan, PlanError, read
from herodotus_sim.store import Store, watch_line
from herodotus_sim.watching import error_line
from herodotus_sim.wire import Request, Response, decode, encode, json_response

PATH = "/faults"

_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}

Handle = Callable[[Request], Response]
Strike = Callable[[Fault, random.Random, Handle, Request], Response]


class Faults:
    """A handler that lets each request pass through the plan in force, then through the handler it wraps."""

    def __init__(self, handle: Handle, store: Store, plan: Plan | None = None) -> None:
        self._handle = handle
        self._store = store
        self._strikes = {**STRIKES, "compact": self._compact}
        self._lock = threading.Lock()
        self._plan = plan or Plan()
        self._seen: Counter[int] = Counter()  # matching requests, by rule
        self._struck: Counter[int] = Counter()
        self._restarts = 0
        self._down_until = 0.0

    def set(self, plan: Plan) -> None:
        """From now on, this plan. Streams that run keep the faults that they began with."""
        with self._lock:
            self._plan = plan
            self._seen.clear()
            self._struck.clear()

    def struck(self) -> list[int]:
        """How often each rule of the plan has struck."""
        with self._lock:
            return [self._struck[rule] for rule in range(len(self._plan.faults))]

    def restart(self, seconds: float) -> None:
        """End every stream, hang up on every request for so long, then serve again, without history."""
        with self._lock:
            self._restarts += 1
            self._down_until = time.monotonic() + seconds
        self._store.compact()
        self._store.wake()

    def __call__(self, request: Request) -> Response:
        """Answer a request. Raises ApiError, or OSError to hang up."""
        if request.path.rstrip("/").startswith(PATH):
            return self._door(request)
        if time.monotonic() < self._down_until:
            raise ConnectionResetError("the simulated API server restarts")
        handle = self._handle
        for fault, draw in reversed(self._due(request)):
            handle = _around(self._strikes[fault.fault], fault, draw, handle)
        return self._until_restart(handle, request)

    def _due(self, request: Request) -> list[tuple[Fault, random.Random]]:
        """The rules that strike this request, and what each draws its parameters from."""
        due = []
        with self._lock:
            for rule, fault in enumerate(self._plan.faults):
                if not fault.matches(request) or (fault.times and self._struck[rule] >= fault.times):
                    continue
                self._seen[rule] += 1
                draw = self._plan.strikes(rule, self._seen[rule])
                if draw is not None:
                    self._struck[rule] += 1
                    due.append((fault, draw))
        return due

    def _compact(self, fault: Fault, draw: random.Random, handle: Handle, request: Request) -> Response:
        self._store.compact()
        return handle(request)

    def _until_restart(self, handle: Handle, request: Request) -> Response:
        """A restart ends an idle stream as if its client were gone, and every stream by a reset."""
        began = self._restarts

        def over() -> bool:
            return self._restarts != began

        def events(stream: Iterator[bytes]) -> Iterator[bytes]:
            for chunk in stream:
                if over():
                    raise ConnectionResetError
                yield chunk
            if over():
                raise ConnectionResetError

        response = handle(replace(request, client_gone=lambda: over() or request.client_gone()))
        return response if response.stream is None else replace(response, stream=events(response.stream))

    def _door(self, request: Request) -> Response:
        asked = (request.method, request.path.rstrip("/").removeprefix(PATH))
        if asked == ("PUT", ""):
            try:
                self.set(read(decode(request.body)))
            except (PlanError, ValueError) as e:
                raise errors.bad_request(str(e)) from None
        elif asked == ("POST", "/compact"):
            self._store.compact()
        elif asked == ("POST", "/restart"):
            self.restart(float(request.query.get("seconds", "0")))
        elif asked != ("GET", ""):
            raise errors.unknown_path()
        return json_response({**self._plan.document(), "struck": self.struck()})


def _around(strike: Strike, fault: Fault, draw: random.Random, handle: Handle) -> Handle:
    return lambda request: strike(fault, draw, handle, request)


# --- single answers ---------------------------------------------------------------------------------------------------


def _refuse(fault: Fault, draw: random.Random, handle: Handle, request: Request) -> Response:
    details = {"retryAfterSeconds": fault.retry_after_s} if fault.retry_after_s else None
    raise errors.ApiError(fault.code, _REASONS.get(fault.code, ""), f"an injected {fault.code}", details)


def _hang_up(fault: Fault, draw: random.Random, handle: Handle, request: Request) -> Response:
    raise ConnectionResetError("an injected reset")


def _lose_answer(fault: Fault, draw: random.Random, handle: Handle, request: Request) -> Response:
    """What was asked for is done, and nobody is told."""
    handle(request)
    raise ConnectionResetError("an injected loss of the answer")


def _slow(fault: Fault, draw: random.Random, handle: Handle, request: Request) -> Response:
    """As a real server, it gives up a request that the client has given up, or asked to be ended by now (`timeout`)."""
    wait_s, allowed_s = draw.uniform(*fault.seconds), float(request.query.get("timeout", "60s").rstrip("s"))
    time.sleep(min(wait_s, allowed_s))
    if wait_s >= allowed_s:
        raise errors.ApiError(504, "Timeout", "Timeout: request did not complete within the allotted timeout")
    if request.client_gone():
        raise ConnectionResetError("the client has given up")
    return handle(request)


def _gone(fault: Fault, draw: random.Random, handle: Handle, request: Request) -> Response:
    error = errors.expired("an injected 410: too old resource version")
    if not fault.as_event:
        raise error
    return Response(200, stream=iter([error_line(error)]))


# --- streams ----------------------------------------------------------------------------------------------------------


def _cut(fault: Fault, draw: random.Random, handle: Handle, request: Request) -> Response:
    """After some events, a reset in the middle of the next one."""
    left = draw.randint(*fault.events)

    def cut(lines: Iterator[bytes]) -> Iterator[bytes]:
        for number, line in enumerate(lines):
            if number == left:
                yield line[: len(line) // 2]
                raise ConnectionResetError("an injected cut")
            yield line

    return _through(cut, handle(request))


def _end(fault: Fault, draw: random.Random, handle: Handle, request: Request) -> Response:
    """After some events, or at once, the proper end of the stream."""
    left = draw.randint(*fault.events)

    def end(lines: Iterator[bytes]) -> Iterator[bytes]:
        for _ in range(left):
            line = next(lines, None)
            if line is None:
                return
            yield line

    return _through(end, handle(request))


def _late(fault: Fault, draw: random.Random, handle: Handle, request: Request) -> Response:
    """What happened is told a while later, in order."""
    response = handle(request)
    if response.stream is None:
        return response

    def late(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            time.sleep(draw.uniform(*fault.seconds))
            yield chunk

    return replace(response, stream=late(response.stream))


def _repeat(fault: Fault, draw: random.Random, handle: Handle, request: Request) -> Response:
    """Every event twice in a row."""

    def repeat(lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            yield line + line

    return _through(repeat, handle(request))


def _bookmark(fault: Fault, draw: random.Random, handle: Handle, request: Request) -> Response:
    """A bookmark behind every event, where the client takes bookmarks."""

    def bookmark(lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            yield line
            event = json.loads(line)
            if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                obj = event["object"]
                mark = {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}
                mark["metadata"] = {"resourceVersion": obj["metadata"]["resourceVersion"], "creationTimestamp": None}
                yield watch_line("BOOKMARK", encode(mark))

    response = handle(request)
    return _through(bookmark, response) if request.flag("allowWatchBookmarks") else response


def _through(change: Callable[[Iterator[bytes]], Iterator[bytes]], response: Response) -> Response:
    """A stream's lines, one at a time, through `change`; an answer that is no stream stays as it is."""
    if response.stream is None:
        return response
    lines = (line for chunk in response.stream for line in chunk.splitlines(keepends=True))
    return replace(response, stream=change(lines))


STRIKES: dict[str, Strike] = {
    "bookmark": _bookmark,
    "cut": _cut,
    "end": _end,
    "gone": _gone,
    "hang up": _hang_up,
    "late": _late,
    "lose answer": _lose_answer,
    "refuse": _refuse,
    "repeat": _repeat,
    "slow": _slow,
}
