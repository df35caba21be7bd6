"""Watches decisions: lists the newest, then follows the service's stream; and repeats an answer when decisions change.

Owns: the list before a stream, reconnecting after a stream ends or breaks, how often an answer is repeated. Does not
own: the stream (`transport`), what is printed.

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

from herodotus_cli.errors import CliError, ConnectionFailedError, ServerError, from_service_error, print_to_stderr
from herodotus_cli.transport import Transport
from herodotus_client import api_paths
from herodotus_client.responses import read_status

Json = dict[str, Any]
LIST_LIMIT = 500  # decisions that are searched for those in binding
REPEAT_INTERVAL_S = 1.0  # between two answers: there may be hundreds of decisions per second
REFRESH_INTERVAL_S = 5.0  # without a decision
RECONNECT_DELAY_S = 1.0  # after a stream ended: the service ends each after half an hour
_MAX_DELAY_S = 30.0  # between two attempts to reconnect, as client-go's reflector
_MAX_FAILURES = 8  # in a row: two minutes of attempts, longer than a rollout of the service takes
_STABLE_S = 10.0  # a stream that lasted this long was a working connection, even when it carried no event
_MAX_UNSETTLED = 10_000  # names of decisions whose result is awaited; far more than bind at once
EXPIRED = ("Expired", "Gone")  # reasons: the resource version, or the rest of a list, is too old
_TEMPORARY = frozenset({"InternalError", "ServerTimeout", "ServiceUnavailable", "Timeout", "TooManyRequests"})


class ReconnectBackoff:
    """The exponential backoff between attempts to reconnect a broken watch. A working stream resets it."""

    def __init__(self) -> None:
        self._failures = 0
        self._connected = False
        self._opened_at = time.monotonic()

    @property
    def delay_s(self) -> float:
        """The time in seconds to wait before the next attempt to connect."""
        return min(RECONNECT_DELAY_S * 2.0 ** max(0, self._failures - 1), _MAX_DELAY_S)

    def mark_opened(self) -> None:
        """Note that a stream is requested now. If it lasts _STABLE_S seconds, it counts as working without an event."""
        self._opened_at = time.monotonic()

    def mark_working(self) -> None:
        """Reset the backoff, because the stream carried an event or ended without an error."""
        self._connected = True
        self._failures = 0

    def record_failure(self, error: CliError) -> None:
        """Count a failed connection. Raises `error` if another attempt cannot help or too many failed in a row."""
        if time.monotonic() - self._opened_at >= _STABLE_S:
            self.mark_working()
        self._failures += 1
        if isinstance(error, ServerError):
            temporary = self._connected and error.reason in _TEMPORARY
        else:
            temporary = isinstance(error, ConnectionFailedError)
        if not temporary or self._failures > _MAX_FAILURES:
            raise error
        if self._failures == 2:  # the first attempt to reconnect is silent: it seldom fails
            print_to_stderr(f"warning: {error.message.removeprefix('error: ')}; reconnecting")


def watch_decisions(
    transport: Transport, namespace: str, selector: api_paths.DecisionSelector, last: int, *, binding: bool = False
) -> Generator[Json, None, None]:
    """Yield the newest `last` decisions, oldest first, then every decision that is added or changes, without end.

    With `binding`, decisions whose pods are still being bound are included; otherwise each decision is yielded once,
    when its result is known. Raises CliError if the service refuses the watch or stays unreachable.
    """
    page = transport.get(api_paths.decisions(namespace, selector=selector, limit=LIST_LIMIT))
    yield from reversed([d for d in page["items"] if binding or not _is_binding(d)][:last])
    version = str(page["metadata"]["resourceVersion"])
    unsettled = {d["metadata"]["name"] for d in page["items"] if _is_binding(d)}
    reconnect = ReconnectBackoff()
    while True:
        start = int(version)
        reconnect.mark_opened()
        try:
            with closing(_stream(transport, namespace, selector, version)) as events:
                for event in events:
                    reconnect.mark_working()
                    decision = event["object"]
                    version = str(max(int(version), int(decision["metadata"].get("resourceVersion") or 0)))
                    if event["type"] not in ("ADDED", "MODIFIED"):
                        continue
                    name = decision["metadata"]["name"]
                    # A stream starts with results from just before it; most of them were listed.
                    new = int(decision["metadata"]["resourceVersion"]) > start or name in unsettled
                    (unsettled.add if _is_binding(decision) else unsettled.discard)(name)
                    if new and (binding or not _is_binding(decision)):
                        yield decision
            reconnect.mark_working()
        except CliError as e:
            expired = isinstance(e, ServerError) and e.reason in EXPIRED
            if not expired:
                reconnect.record_failure(e)
            else:
                print_to_stderr("note: decisions in between were pruned and are not shown")
        else:
            expired = False
        time.sleep(reconnect.delay_s)
        try:
            page = transport.get(api_paths.decisions(namespace, selector=selector, limit=LIST_LIMIT))
        except CliError as e:
            reconnect.record_failure(e)
            continue
        for decision in reversed(page["items"]):  # results since the stream ended, which the next one will not repeat
            name, is_binding = decision["metadata"]["name"], _is_binding(decision)
            missed = expired and int(decision["metadata"]["resourceVersion"]) > int(version)
            if (missed and (binding or not is_binding)) or (name in unsettled and not is_binding):
                yield decision
            if not is_binding:
                unsettled.discard(name)
            elif missed:
                unsettled.add(name)
        if len(unsettled) > _MAX_UNSETTLED:
            unsettled &= {d["metadata"]["name"] for d in page["items"]}
        now = str(page["metadata"]["resourceVersion"])
        if expired or int(version) > int(now):  # pruned, or another database
            version = now


def _is_binding(decision: Json) -> bool:
    return bool(decision["status"]["state"] == "Binding")


def repeat_on_decisions(
    transport: Transport, namespace: str, selector: api_paths.DecisionSelector, once: Callable[[], None]
) -> None:
    """Call `once` now, after decisions change, and at least every REFRESH_INTERVAL_S, without end.

    Calls for changes are REPEAT_INTERVAL_S apart or more. The refresh shows what changes no decision, such as the
    deletion of a pod. `namespace` and `selector` choose the decisions. Raises CliError if the watch fails.
    """
    changes: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def listen() -> None:
        try:
            with closing(watch_decisions(transport, namespace, selector, 0)) as found:
                for _ in found:
                    changes.put(None)
        except BaseException as e:  # raised again in the main thread
            changes.put(e)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        once()
        try:
            failure = changes.get(timeout=REFRESH_INTERVAL_S)
        except queue.Empty:
            continue
        time.sleep(REPEAT_INTERVAL_S)
        while failure is None and not changes.empty():
            failure = changes.get()
        if failure is not None:
            raise failure


def _stream(
    transport: Transport, namespace: str, selector: api_paths.DecisionSelector, version: str
) -> Generator[Json, None, None]:
    """Yield the events of one watch request, from a resource version on, until the service ends it.

    Raises CliError for an ERROR event and for a broken connection.
    """
    try:
        with closing(transport.stream(api_paths.decisions_watch(namespace, version, selector=selector))) as events:
            for event in events:
                if event.get("type") == "ERROR" and (event.get("object") or {}).get("kind") == "Status":
                    raise from_service_error(read_status(event["object"]))
                yield event
    except KeyError as e:
        raise CliError(
            f"error: the decisions service sent an event that this version cannot read (KeyError: {e})"
        ) from e
