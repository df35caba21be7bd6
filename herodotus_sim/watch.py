"""Watch streams: replay, live changes, transitions in and out of the selection, bookmarks, expiry.

        start ──version retained────────> replay ─> live ─(deadline)─> final bookmark ─> end
          │ └──no version, "0"──> initial state ──^ │
          └──version expired───> 410                └─(overrun by the history)─> ERROR 410 ─> end

Does not own: the history (`storage`), HTTP framing (`server`).

Invariant: a watch that does not end with an error has sent every change of its selection exactly once, in order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from herodotus_sim import errors
from herodotus_sim.kinds import ApiResource
from herodotus_sim.options import Options
from herodotus_sim.selectors import SelectionPredicate
from herodotus_sim.storage import ObjectStorage, StoredObject, WatchCache, WatchChange, encode_watch_event
from herodotus_sim.wire import Object, SimulatedRequest, encode

# kube-apiserver draws the default timeout of a watch from this range, in seconds.
_TIMEOUT_RANGE_S = (1800, 3600)
# Changes per batch: large enough to be cheap, small enough not to hold the lock for long.
_BATCH = 500

ObjectEncoder = Callable[[StoredObject], bytes]
"""Encodes an object of the stream, for example as a Table."""


@dataclass(frozen=True)
class WatchStart:
    """The start of a watch stream: objects to send first, and the sequence number of the first change to read.

    `version` is the resource version of that state.
    """

    initial: list[StoredObject]
    sequence: int
    version: int
    mark_initial: bool = False
    """Whether a bookmark marks the end of the initial objects."""


@dataclass(frozen=True)
class WatchedCollection:
    """The objects that one client watches: those of a kind that its selection matches.

    `encode_object` encodes them in another form, such as a Table; None encodes them as they are.
    """

    kind: ApiResource
    selection: SelectionPredicate
    encode_object: ObjectEncoder | None = None


def start_watch(
    store: ObjectStorage, kind: ApiResource, selection: SelectionPredicate, request: SimulatedRequest, options: Options
) -> WatchStart:
    """Return where the requested watch starts; raise StatusError 410 if its resource version is expired."""
    requested = request.query.get("resourceVersion", "")
    sends_initial_events = request.flag("sendInitialEvents")
    collection = store.watch_cache(kind)
    if "sendInitialEvents" in request.query:
        _check_watch_list(request, options)
    with store.lock:
        if sends_initial_events or ("sendInitialEvents" not in request.query and requested in ("", "0")):
            initial = [v for v in collection.list_sorted() if selection.matches(v.obj)]
            sequence = collection.first_sequence + len(collection.history)
            return WatchStart(initial, sequence, store.version, sends_initial_events)
        version = parse_version(requested) or store.version
        if version < collection.compacted_version:
            raise _expired(version, collection)
        return WatchStart([], collection.sequence_after(version), version)


def parse_version(text: str) -> int:
    """Return a resourceVersion parameter as a number, 0 if it is empty; raise StatusError 400 if it is no number."""
    if text and not text.isdigit():
        raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: invalid syntax')
    return int(text or 0)


def _check_watch_list(request: SimulatedRequest, options: Options) -> None:
    if not options.watch_list:
        why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    elif request.query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    else:
        return
    cause = {"reason": "FieldValueForbidden", "message": f"Forbidden: {why}", "field": "sendInitialEvents"}
    details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]}
    message = f'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: {why}'
    raise errors.StatusError(422, "Invalid", message, details)


def _expired(version: int, collection: WatchCache) -> errors.StatusError:
    return errors.expired(f"too old resource version: {version} ({collection.compacted_version})")


def stream_events(
    store: ObjectStorage, watched: WatchedCollection, start: WatchStart, request: SimulatedRequest, options: Options
) -> Iterator[bytes]:
    """Yield the events of one watch in chunks of whole lines, until it times out or expires or its client is gone."""
    kind = watched.kind
    bookmarks = request.flag("allowWatchBookmarks")
    timeout_s = float(request.query.get("timeoutSeconds") or 0) or random.uniform(*_TIMEOUT_RANGE_S)
    deadline = time.monotonic() + timeout_s
    collection = store.watch_cache(kind)
    encoded = watched.encode_object or (lambda v: v.encode_object(kind))
    sequence, version = start.sequence, start.version
    for position in range(0, len(start.initial), _BATCH):
        yield b"".join(encode_watch_event("ADDED", encoded(v)) for v in start.initial[position : position + _BATCH])
    if start.mark_initial:
        yield _bookmark(kind, version, {"k8s.io/initial-events-end": "true"})
    next_bookmark = time.monotonic() + options.bookmark_interval_s
    while not store.stopping:
        with collection.changed:
            if sequence < collection.first_sequence:
                yield encode_error_event(_expired(version, collection))
                return
            position = sequence - collection.first_sequence
            changes = collection.history[position : position + _BATCH]
            now = time.monotonic()
            if not changes and not store.stopping:
                version = store.version
                due_s = next_bookmark - now if bookmarks else timeout_s
                wait_s = min(deadline - now, options.client_check_interval_s, due_s)
                if wait_s > 0:
                    collection.changed.wait(wait_s)
        if changes:
            sequence += len(changes)
            version = changes[-1].version
            lines = b"".join(_lines(changes, watched))
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
        if request.is_client_gone():
            return


def _lines(changes: list[WatchChange], watched: WatchedCollection) -> Iterator[bytes]:
    """Yield the watch event of each change, as clients with this selection see it.

    An object that begins to match is ADDED, one that no longer matches is DELETED.
    """
    kind, selection, encode_object = watched.kind, watched.selection, watched.encode_object
    plain = selection.matches_everything and encode_object is None
    for change in changes:
        if plain:
            yield change.encode_event(kind)
            continue
        is_selected = change.type != "DELETED" and selection.matches(change.current.obj)
        was_selected = change.previous is not None and selection.matches(change.previous.obj)
        if not is_selected and not was_selected:
            continue
        event_type = "MODIFIED" if is_selected and was_selected else "ADDED" if is_selected else "DELETED"
        if event_type == change.type and encode_object is None:
            yield change.encode_event(kind)
            continue
        current = change.current
        if event_type == "DELETED" and change.type != "DELETED" and change.previous is not None:
            current = _last_selected(change.previous, change.version)
        yield encode_watch_event(event_type, encode_object(current) if encode_object else current.encode_object(kind))


def _last_selected(previous: StoredObject, version: int) -> StoredObject:
    """Return an object's last version that matched the selection, as the object of a DELETED event.

    Its resource version is `version`, that of the change after which it did not match any more.
    """
    meta = {**previous.obj["metadata"], "resourceVersion": str(version)}
    return StoredObject(previous.key, {**previous.obj, "metadata": meta}, version)


def _bookmark(kind: ApiResource, version: int, annotations: dict[str, str] | None = None) -> bytes:
    meta: Object = {"resourceVersion": str(version), "creationTimestamp": None}
    if annotations:
        meta["annotations"] = annotations
    return encode_watch_event("BOOKMARK", encode({**kind.type_meta, "metadata": meta}))


def encode_error_event(error: errors.StatusError) -> bytes:
    """Return the line of a watch stream with the ERROR event that ends the watch."""
    return encode_watch_event("ERROR", encode(error.status()))
