"""The watch of decisions: the newest as a list, then the service's stream; and answers printed again on changes.

Owns: the list before a stream, reconnecting after a stream ends or breaks, how often an answer is printed again. Does
not own: the stream (`transport`), what is printed.

Invariant: no decision is missed between the list and the stream or between two streams. When the service has pruned
decisions in between, a note on stderr says so.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

from herodotus_cli.errors import CliError, ConnectionFailedError, ServerError, from_status, is_status, print_to_stderr
from herodotus_cli.transport import questions
from herodotus_cli.transport.interface import Transport

Json = dict[str, Any]
LISTED = 500  # decisions looked at for those that still bind
REST_S = 1.0  # between two answers to the same question: decisions come in hundreds a second
AGAIN_S = 1.0  # before a stream that ended is begun again: the service ends one after half an hour
_LONGEST_DELAY_S = 30.0  # between two attempts to reconnect, as client-go's reflector
_MOST_FAILURES = 8  # in a row: two minutes of attempts, longer than a rollout of the service takes
_STABLE_S = 10.0  # a stream that lasted this long was a working connection, even when it carried no event
_MOST_UNSETTLED = 10_000  # names of decisions whose result is awaited; far more than bind at once
_EXPIRED = ("Expired", "Gone")
_TEMPORARY = frozenset({"InternalError", "ServerTimeout", "ServiceUnavailable", "Timeout", "TooManyRequests"})


class Reconnect:
    """Decides whether and when a failed watch is opened again: exponential backoff, reset by a working stream."""

    def __init__(self) -> None:
        self._failures = 0
        self._connected = False
        self._opened_at = time.monotonic()

    @property
    def delay_s(self) -> float:
        """The time to wait before the next attempt."""
        return min(AGAIN_S * 2.0 ** max(0, self._failures - 1), _LONGEST_DELAY_S)

    def mark_opened(self) -> None:
        """Note the time at which a stream is requested."""
        self._opened_at = time.monotonic()

    def mark_working(self) -> None:
        """Note that the stream carried an event or ended in good order."""
        self._connected = True
        self._failures = 0

    def record_failure(self, error: CliError) -> None:
        """Count a failure. Raises `error` when another attempt cannot help or too many failed."""
        if time.monotonic() - self._opened_at >= _STABLE_S:
            self.mark_working()
        self._failures += 1
        if isinstance(error, ServerError):
            temporary = self._connected and error.reason in _TEMPORARY
        else:
            temporary = isinstance(error, ConnectionFailedError)
        if not temporary or self._failures > _MOST_FAILURES:
            raise error
        if self._failures == 2:  # the first attempt to reconnect is silent: it seldom fails
            print_to_stderr(f"warning: {error.message.removeprefix('error: ')}; reconnecting")


def decisions(
    transport: Transport, namespace: str, selected: questions.Selected, last: int, *, binding: bool = False
) -> Generator[Json, None, None]:
    """Yield the newest `last` decisions, oldest first, and then each that is added or changes, without end.

    `binding`: also decisions whose binding is under way; without it each is yielded once, when its result is known.
    Raises CliError when the service refuses the watch or stays unreachable.
    """
    page = transport.get(questions.decisions(namespace, selected=selected, limit=LISTED))
    yield from reversed([d for d in page["items"] if binding or not _binds(d)][:last])
    version = str(page["metadata"]["resourceVersion"])
    unsettled = {d["metadata"]["name"] for d in page["items"] if _binds(d)}
    reconnect = Reconnect()
    while True:
        start = int(version)
        reconnect.mark_opened()
        try:
            with closing(_stream(transport, namespace, selected, version)) as events:
                for event in events:
                    reconnect.mark_working()
                    found = event["object"]
                    version = str(max(int(version), int(found["metadata"].get("resourceVersion") or 0)))
                    if event["type"] not in ("ADDED", "MODIFIED"):
                        continue
                    name = found["metadata"]["name"]
                    # A stream begins with results that came just before it: most of them were listed.
                    new = int(found["metadata"]["resourceVersion"]) > start or name in unsettled
                    (unsettled.add if _binds(found) else unsettled.discard)(name)
                    if new and (binding or not _binds(found)):
                        yield found
            reconnect.mark_working()
        except CliError as e:
            expired = isinstance(e, ServerError) and e.reason in _EXPIRED
            if not expired:
                reconnect.record_failure(e)
            else:
                print_to_stderr("note: decisions in between were pruned and are not shown")
        else:
            expired = False
        time.sleep(reconnect.delay_s)
        try:
            page = transport.get(questions.decisions(namespace, selected=selected, limit=LISTED))
        except CliError as e:
            reconnect.record_failure(e)
            continue
        for found in reversed(page["items"]):  # what came while no stream was open and will not come by the next one
            name, binds = found["metadata"]["name"], _binds(found)
            missed = expired and int(found["metadata"]["resourceVersion"]) > int(version)
            if (missed and (binding or not binds)) or (name in unsettled and not binds):
                yield found
            if not binds:
                unsettled.discard(name)
            elif missed:
                unsettled.add(name)
        if len(unsettled) > _MOST_UNSETTLED:
            unsettled &= {d["metadata"]["name"] for d in page["items"]}
        now = str(page["metadata"]["resourceVersion"])
        if expired or int(version) > int(now):  # pruned, or another database
            version = now


def _binds(decision: Json) -> bool:
    return bool(decision["status"]["state"] == "Binding")


def anew(transport: Transport, namespace: str, selected: questions.Selected, once: Callable[[], None]) -> None:
    """Calls `once` now, and again after decisions came, at most every REST_S. Without end."""
    came: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def listen() -> None:
        try:
            with closing(decisions(transport, namespace, selected, 0)) as found:
                for _ in found:
                    came.put(None)
        except BaseException as e:  # told where it can be: in the main thread
            came.put(e)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        once()
        failure = came.get()
        time.sleep(REST_S)
        while failure is None and not came.empty():
            failure = came.get()
        if failure is not None:
            raise failure


def _stream(
    transport: Transport, namespace: str, selected: questions.Selected, version: str
) -> Generator[Json, None, None]:
    """Yield the events of one stream. Raises CliError for an ERROR event and for a broken connection."""
    try:
        with closing(transport.stream(questions.watched(namespace, version, selected=selected))) as events:
            for event in events:
                if event.get("type") == "ERROR" and is_status(event.get("object") or {}):
                    raise from_status(event["object"])
                yield event
    except KeyError as e:
        raise CliError(f"error: the stream has another shape than this version knows (KeyError: {e})") from e
