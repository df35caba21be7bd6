"""Owns: watch streams: replay, live changes, selector transitions, bookmarks, expiry.

        start ──version kept──────────> replay ─> live ─(deadline)─> final bookmark ─> end
          │ └──no version, "0"──> initial state ──^ │
          └──version forgotten──> 410               └─(overrun by the history)─> ERROR 410 ─> end

Does not own: the history (`store`), HTTP framing (`server`).
Invariant: a watch that does not end in an error has sent every change of its selection exactly once, in order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from herodotus_sim import errors
from herodotus_sim.kinds import Kind
from herodotus_sim.options import Options
from herodotus_sim.selectors import Selection
from herodotus_sim.store import Change, Collection, Store, Version, watch_line
from herodotus_sim.wire import Object, Request, encode

# How often an idle watch looks whether its client is still there.
_LOOK_INTERVAL_S = 1.0
# kube-apiserver's default life of a watch is drawn between these.
_LIFE_S = (1800, 3600)
# Changes sent in one piece: large enough to be cheap, small enough not to hold the lock for long.
_BATCH = 500

Show = Callable[[Version], bytes]
"""How one object of the stream is encoded: plain, or as a Table."""


@dataclass(frozen=True)
class Start:
    """Where a stream begins: a state to send first, and the sequence of the first change to read."""

    initial: list[Version]
    sequence: int
    version: int
    mark_initial: bool = False
    """Whether the end of the initial state is marked by a bookmark."""


def begin(store: Store, kind: Kind, selection: Selection, request: Request, options: Options) -> Start:
    """Find the beginning. Raises ApiError (410) when the version is forgotten."""
    asked = request.query.get("resourceVersion", "")
    mark = request.flag("sendInitialEvents")
    collection = store.collection(kind)
    if "sendInitialEvents" in request.query:
        _check_watch_list(request, options)
    with store.lock:
        if mark or ("sendInitialEvents" not in request.query and asked in ("", "0")):
            initial = [v for v in collection.ordered() if selection.matches(v.obj)]
            sequence = collection.dropped + len(collection.history)
            return Start(initial, sequence, store.version, mark)
        version = parse_version(asked) or store.version
        if version < collection.floor:
            raise _expired(version, collection)
        return Start([], collection.sequence_after(version), version)


def parse_version(text: str) -> int:
    """A resourceVersion parameter as a number; empty is 0."""
    if text and not text.isdigit():
        raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: invalid syntax')
    return int(text or 0)


def _check_watch_list(request: Request, options: Options) -> None:
    if not options.watch_list:
        why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    elif request.query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    else:
        return
    cause = {"reason": "FieldValueForbidden", "message": f"Forbidden: {why}", "field": "sendInitialEvents"}
    details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]}
    message = f'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: {why}'
    raise errors.ApiError(422, "Invalid", message, details)


def _expired(version: int, collection: Collection) -> errors.ApiError:
    return errors.expired(f"too old resource version: {version} ({collection.floor})")


def stream(
    store: Store, kind: Kind, selection: Selection, start: Start, request: Request, options: Options, show: Show | None
) -> Iterator[bytes]:
    """The events of one watch, in chunks of whole lines."""
    bookmarks = request.flag("allowWatchBookmarks")
    life_s = float(request.query.get("timeoutSeconds") or 0) or random.uniform(*_LIFE_S)
    deadline = time.monotonic() + life_s
    collection = store.collection(kind)
    encoded = show or (lambda v: v.encoded(kind))
    sequence, version = start.sequence, start.version
    for at in range(0, len(start.initial), _BATCH):
        yield b"".join(watch_line("ADDED", encoded(v)) for v in start.initial[at : at + _BATCH])
    if start.mark_initial:
        yield _bookmark(kind, version, {"k8s.io/initial-events-end": "true"})
    next_bookmark = time.monotonic() + options.bookmark_interval_s
    while not store.stopping:
        with collection.changed:
            if sequence < collection.dropped:
                yield error_line(_expired(version, collection))
                return
            at = sequence - collection.dropped
            changes = collection.history[at : at + _BATCH]
            now = time.monotonic()
            if not changes and not store.stopping:
                version = store.version
                wait_s = min(deadline - now, _LOOK_INTERVAL_S, next_bookmark - now if bookmarks else life_s)
                if wait_s > 0:
                    collection.changed.wait(wait_s)
        if changes:
            sequence += len(changes)
            version = changes[-1].version
            lines = b"".join(_lines(changes, kind, selection, show))
            if lines:
                yield lines
            continue
        now = time.monotonic()
        if now >= deadline:
            if bookmarks:
                yield _bookmark(kind, version)
            return
        if bookmarks and now >= next_bookmark:
            next_bookmark = now + options.bookmark_interval_s
            yield _bookmark(kind, version)
        if request.client_gone():
            return


def _lines(changes: list[Change], kind: Kind, selection: Selection, show: Show | None) -> Iterator[bytes]:
    """Each change as the selection sees it: entering is ADDED, leaving is DELETED."""
    plain = selection.everything and show is None
    for change in changes:
        if plain:
            yield change.line(kind)
            continue
        now = change.type != "DELETED" and selection.matches(change.current.obj)
        before = change.previous is not None and selection.matches(change.previous.obj)
        if not now and not before:
            continue
        type_ = "MODIFIED" if now and before else "ADDED" if now else "DELETED"
        if type_ == change.type and show is None:
            yield change.line(kind)
            continue
        current = change.current
        if type_ == "DELETED" and change.type != "DELETED" and change.previous is not None:
            current = _last_selected(change.previous, change.version)
        yield watch_line(type_, show(current) if show else current.encoded(kind))


def _last_selected(previous: Version, version: int) -> Version:
    """What left the selection, as it was inside, under the version at which it left."""
    meta = {**previous.obj["metadata"], "resourceVersion": str(version)}
    return Version(previous.key, {**previous.obj, "metadata": meta}, version)


def _bookmark(kind: Kind, version: int, annotations: dict[str, str] | None = None) -> bytes:
    meta: Object = {"resourceVersion": str(version), "creationTimestamp": None}
    if annotations:
        meta["annotations"] = annotations
    return watch_line("BOOKMARK", encode({**kind.type_meta, "metadata": meta}))


def error_line(error: errors.ApiError) -> bytes:
    """The event that ends a watch with a reason."""
    return watch_line("ERROR", encode(error.status()))
