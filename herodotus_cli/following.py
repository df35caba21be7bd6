"""Decisions as they come: the newest first as a list, then what the service streams; and answers printed anew.

Owns: where a stream begins and begins again, how often an answer is asked anew. Does not own: the stream (`transport`),
what is printed.

Invariant: between the list and the stream no decision is missed; when the service has pruned what lies between two
streams, that is said on stderr.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

from herodotus_cli.errors import CliError, ServerError, from_status, is_status
from herodotus_cli.transport import questions
from herodotus_cli.transport.interface import Transport

Json = dict[str, Any]
LISTED = 500  # decisions looked at for those that still bind
REST_S = 1.0  # between two answers to the same question: decisions come in hundreds a second
AGAIN_S = 1.0  # before a stream that ended is begun again: the service ends one after half an hour


def decisions(
    transport: Transport, namespace: str, selected: questions.Selected, last: int, *, binding: bool = False
) -> Generator[Json, None, None]:
    """The newest `last` decisions, oldest first, and then every one that comes or changes. Without end.

    `binding`: also those that are not bound yet; the others are told once, when it is known what became of them.
    """
    page = transport.get(questions.decisions(namespace, selected=selected, limit=LISTED))
    shown = [d for d in page["items"] if binding or not _binds(d)][:last]
    yield from reversed(shown)
    version = str(page["metadata"]["resourceVersion"])
    unsettled = {d["metadata"]["name"] for d in page["items"] if _binds(d)}
    while True:
        start = int(version)
        with closing(_stream(transport, namespace, selected, version)) as events:
            for event in events:
                found = event["object"]
                version = str(max(int(version), int(found["metadata"].get("resourceVersion") or 0)))
                # a stream begins with results that came just before it: most of them were listed
                listed = int(found["metadata"]["resourceVersion"]) <= start
                wanted = event["type"] in ("ADDED", "MODIFIED") and (binding or not _binds(found))
                if wanted and (not listed or found["metadata"]["name"] in unsettled):
                    yield found
        time.sleep(AGAIN_S)
        page = transport.get(questions.decisions(namespace, selected=selected, limit=LISTED))
        unsettled = {d["metadata"]["name"] for d in page["items"] if _binds(d)}
        now = str(page["metadata"]["resourceVersion"])
        version = version if int(version) <= int(now) else now  # another database


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
    """The events of one stream. One that began too far back is begun again by who asks."""
    try:
        with closing(transport.stream(questions.watched(namespace, version, selected=selected))) as events:
            for event in events:
                if event.get("type") == "ERROR" and is_status(event.get("object") or {}):
                    raise from_status(event["object"])
                yield event
    except ServerError as e:
        if e.reason not in ("Expired", "Gone"):
            raise
        print("note: decisions in between were pruned and are not told", file=sys.stderr)
    except KeyError as e:
        raise CliError(f"error: the stream has another shape than this version knows (KeyError: {e})") from e
