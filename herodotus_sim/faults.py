"""Fault injection as a layer around the request handler, controlled over HTTP at `/faults`.

    GET /faults             the current plan, and how often each rule was injected
    PUT /faults             set another plan (`fault_plan`)
    POST /faults/compact    discard the history, as etcd's compaction does
    POST /faults/restart    close every connection, serve nothing for ?seconds=, then serve without history

Does not own: what a request means (`routes`), which does not depend on faults.

The faults of a watch are those that the protocol permits. Within one stream, events of a resource have increasing
versions, each occurs once, and a stream that resumes from a version has every later event. Clients rely on this, so no
fault violates it. The faults vary what the protocol leaves open. Streams of two resources or clients are delayed
against each other (`late`). A stream ends at any byte (`cut`) or early and regularly (`end`). A version to resume from
expires (`gone`, `compact`), so that a client lists a state without the events that led to it. Bookmarks occur at any
time (`bookmark`). Only `repeat` goes beyond a watch cache: it sends the same event twice in a row, which client-go's
stores tolerate and the scheduler must tolerate too.
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
from herodotus_sim.fault_plan import FaultPlan, FaultPlanError, FaultRule, parse_plan
from herodotus_sim.storage import ObjectStorage, encode_watch_event
from herodotus_sim.watch import encode_error_event
from herodotus_sim.wire import SimulatedRequest, SimulatedResponse, decode, encode, json_response

PATH = "/faults"

_REASONS = {
    403: "Forbidden",
    409: "Conflict",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

Handle = Callable[[SimulatedRequest], SimulatedResponse]
Strike = Callable[[FaultRule, random.Random, Handle, SimulatedRequest], SimulatedResponse]


class FaultInjector:
    """A request handler that wraps another one and injects the faults of the current plan."""

    def __init__(self, handle: Handle, store: ObjectStorage, plan: FaultPlan | None = None) -> None:
        self._handle = handle
        self._store = store
        self._strikes = {**STRIKES, "compact": self._compact}
        self._lock = threading.Lock()
        self._plan = plan or FaultPlan()
        self._seen: Counter[int] = Counter()  # number of matching requests, by rule
        self._struck: Counter[int] = Counter()
        self._restarts = 0
        self._down_until = 0.0

    def set(self, plan: FaultPlan) -> None:
        """Replace the plan of faults and reset its counts.

        Streams that are running keep the faults of the plan that they started with.
        """
        with self._lock:
            self._plan = plan
            self._seen.clear()
            self._struck.clear()

    def injected_counts(self) -> list[int]:
        """Return how often each rule of the plan was injected, in the plan's order."""
        with self._lock:
            return [self._struck[rule] for rule in range(len(self._plan.faults))]

    def restart(self, seconds: float) -> None:
        """Simulate a restart of the server: end every stream, then serve again without history.

        Connections are closed for `seconds`.
        """
        with self._lock:
            self._restarts += 1
            self._down_until = time.monotonic() + seconds
        self._store.compact()
        self._store.wake()

    def __call__(self, request: SimulatedRequest) -> SimulatedResponse:
        """Return the response to a request, with the faults of the rules that apply to it.

        Raises StatusError for an error response, or OSError to disconnect.
        """
        if request.path.rstrip("/").startswith(PATH):
            return self._serve_control_api(request)
        if time.monotonic() < self._down_until:
            raise ConnectionResetError("the simulated API server restarts")
        handle = self._handle
        for fault, draw in reversed(self._applicable_rules(request)):
            handle = _wrap(self._strikes[fault.fault], fault, draw, handle)
        return self._end_on_restart(handle, request)

    def _applicable_rules(self, request: SimulatedRequest) -> list[tuple[FaultRule, random.Random]]:
        """Return the fault rules to inject into this request, each with the random generator for its parameters.

        Counts the match of each rule.
        """
        due = []
        with self._lock:
            for rule, fault in enumerate(self._plan.faults):
                if not fault.matches(request) or (fault.times and self._struck[rule] >= fault.times):
                    continue
                self._seen[rule] += 1
                draw = self._plan.draw_for(rule, self._seen[rule])
                if draw is not None:
                    self._struck[rule] += 1
                    due.append((fault, draw))
        return due

    def _compact(
        self, fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest
    ) -> SimulatedResponse:
        self._store.compact()
        return handle(request)

    def _end_on_restart(self, handle: Handle, request: SimulatedRequest) -> SimulatedResponse:
        """Return the handler's response, wrapped so that a simulated restart ends its stream with a reset.

        An idle stream ends as if its client had disconnected.
        """
        began = self._restarts

        def is_over() -> bool:
            return self._restarts != began

        def events(stream: Iterator[bytes]) -> Iterator[bytes]:
            for chunk in stream:
                if is_over():
                    raise ConnectionResetError
                yield chunk
            if is_over():
                raise ConnectionResetError

        response = handle(replace(request, is_client_gone=lambda: is_over() or request.is_client_gone()))
        return response if response.stream is None else replace(response, stream=events(response.stream))

    def _serve_control_api(self, request: SimulatedRequest) -> SimulatedResponse:
        call = (request.method, request.path.rstrip("/").removeprefix(PATH))
        if call == ("PUT", ""):
            try:
                self.set(parse_plan(decode(request.body)))
            except (FaultPlanError, ValueError) as e:
                raise errors.bad_request(str(e)) from None
        elif call == ("POST", "/compact"):
            self._store.compact()
        elif call == ("POST", "/restart"):
            self.restart(float(request.query.get("seconds", "0")))
        elif call != ("GET", ""):
            raise errors.unknown_path()
        return json_response({**self._plan.document(), "struck": self.injected_counts()})


def _wrap(strike: Strike, fault: FaultRule, draw: random.Random, handle: Handle) -> Handle:
    return lambda request: strike(fault, draw, handle, request)


# --- single answers ---------------------------------------------------------------------------------------------------


def _refuse(fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest) -> SimulatedResponse:
    details = {"retryAfterSeconds": fault.retry_after_s} if fault.retry_after_s else None
    raise errors.StatusError(fault.code, _REASONS.get(fault.code, ""), f"an injected {fault.code}", details)


def _hang_up(fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest) -> SimulatedResponse:
    raise ConnectionResetError("an injected reset")


def _lose_answer(fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest) -> SimulatedResponse:
    """Inject a lost response: handle the request, then disconnect without a response."""
    handle(request)
    raise ConnectionResetError("an injected loss of the answer")


def _time_out(fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest) -> SimulatedResponse:
    """Inject a time-out of a filter in front of the handler: handle the request, and answer 504."""
    handle(request)
    raise errors.StatusError(504, _REASONS[504], "an injected time-out; the request was handled")


def _slow(fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest) -> SimulatedResponse:
    """Inject a delay before the request is handled.

    As in kube-apiserver, the request is given up if the client disconnects or its `timeout` is over.
    """
    wait_s, allowed_s = draw.uniform(*fault.seconds), float(request.query.get("timeout", "60s").rstrip("s"))
    time.sleep(min(wait_s, allowed_s))
    if wait_s >= allowed_s:
        raise errors.StatusError(504, "Timeout", "Timeout: request did not complete within the allotted timeout")
    if request.is_client_gone():
        raise ConnectionResetError("the client has given up")
    return handle(request)


def _expire_version(
    fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest
) -> SimulatedResponse:
    error = errors.expired("an injected 410: too old resource version")
    if not fault.as_event:
        raise error
    return SimulatedResponse(200, stream=iter([encode_error_event(error)]))


# --- streams ----------------------------------------------------------------------------------------------------------


def _cut(fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest) -> SimulatedResponse:
    """Inject a cut stream: reset the connection in the middle of an event, after a random number of events."""
    left = draw.randint(*fault.events)

    def cut(lines: Iterator[bytes]) -> Iterator[bytes]:
        for number, line in enumerate(lines):
            if number == left:
                yield line[: len(line) // 2]
                raise ConnectionResetError("an injected cut")
            yield line

    return _map_lines(cut, handle(request))


def _end(fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest) -> SimulatedResponse:
    """Inject an early but regular end of the stream, after a random number of events."""
    left = draw.randint(*fault.events)

    def end(lines: Iterator[bytes]) -> Iterator[bytes]:
        for _ in range(left):
            line = next(lines, None)
            if line is None:
                return
            yield line

    return _map_lines(end, handle(request))


def _late(fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest) -> SimulatedResponse:
    """Inject a random delay before each chunk of the stream; the events keep their order."""
    response = handle(request)
    if response.stream is None:
        return response

    def late(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            time.sleep(draw.uniform(*fault.seconds))
            yield chunk

    return replace(response, stream=late(response.stream))


def _repeat(fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest) -> SimulatedResponse:
    """Inject repeated events: send every event of the stream twice in a row."""

    def repeat(lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            yield line + line

    return _map_lines(repeat, handle(request))


def _bookmark(fault: FaultRule, draw: random.Random, handle: Handle, request: SimulatedRequest) -> SimulatedResponse:
    """Inject bookmarks: send one after every event of the stream, if the client accepts bookmarks."""

    def bookmark(lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            yield line
            if not line.endswith(b"\n"):
                continue  # another fault cut it off
            event = json.loads(line)
            if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                obj = event["object"]
                mark = {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}
                mark["metadata"] = {"resourceVersion": obj["metadata"]["resourceVersion"], "creationTimestamp": None}
                yield encode_watch_event("BOOKMARK", encode(mark))

    response = handle(request)
    return _map_lines(bookmark, response) if request.flag("allowWatchBookmarks") else response


def _map_lines(change: Callable[[Iterator[bytes]], Iterator[bytes]], response: SimulatedResponse) -> SimulatedResponse:
    """Return the response with the lines of its stream passed through `change`; without a stream, it is unchanged."""
    if response.stream is None:
        return response
    lines = (line for chunk in response.stream for line in chunk.splitlines(keepends=True))
    return replace(response, stream=change(lines))


STRIKES: dict[str, Strike] = {
    "bookmark": _bookmark,
    "cut": _cut,
    "end": _end,
    "gone": _expire_version,
    "hang up": _hang_up,
    "late": _late,
    "lose answer": _lose_answer,
    "refuse": _refuse,
    "repeat": _repeat,
    "slow": _slow,
    "time out": _time_out,
}
