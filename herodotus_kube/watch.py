"""List and watch: one thread per kind passes every object and every change to a sink function.

Owns: relisting, resuming, bookmarks, 410 Gone, backoff. Does not own: the cluster state, which the scheduling loop's
thread updates.

Invariant: a reflector waits between two requests, except after a watch that lasted and ended regularly.

A reflector calls its sink with a `ListResult` after each list and with a `WatchEvent` for every later event. The sink
runs in the reflector's thread; the scheduler's only enqueues. Source: k8s.io/client-go/tools/cache/reflector.go.
"""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import msgspec

from herodotus_kube.api_conventions import ApiError, ListMetadata, read_pages
from herodotus_kube.http import ApiServer
from herodotus_record import klog
from herodotus_record.typed_decoding import decode_json, json_decoder

WATCH_S: Final = 300  # the server ends a watch after about this long; it is resumed where it ended
SILENCE_S: Final = 90.0  # bookmarks come every minute: longer silence is a dead connection
BACKOFF_S: Final = (0.2, 30.0)  # first and longest pause after a failure
SHORT_S: Final = 1.0  # a watch that ends sooner is a failure too, client-go's limit
ABSENT_S: Final = 60.0  # how often a kind that the server does not have is asked for again: it may get a newer one


class _HasVersion(Protocol):
    @property
    def resource_version(self) -> str: ...


class ApiObject(Protocol):
    """A decoded object of the API, of which a watch reads the resource version."""

    @property
    def metadata(self) -> _HasVersion: ...


T = TypeVar("T", bound=ApiObject)


@dataclass(frozen=True)
class ListResult(Generic[T]):
    """All objects of a kind, from one list. `absent` says that the API server does not serve the kind."""

    kind: str
    objects: list[T]
    absent: bool = False


@dataclass(frozen=True)
class WatchEvent(Generic[T]):
    """The change of one object. `type` is ADDED, MODIFIED or DELETED.

    `object` is its new state, or its last state if it was deleted.
    """

    kind: str
    type: str
    object: T


Sink = Callable[[ListResult[Any] | WatchEvent[Any]], None]


class _Event(msgspec.Struct, gc=False, frozen=True):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct, gc=False, frozen=True):
    metadata: ListMetadata = ListMetadata()


class _Status(msgspec.Struct, gc=False, frozen=True):
    code: int = 0
    reason: str = ""
    message: str = ""


class ResourceExpiredError(Exception):
    """The resource version from which to resume a watch is too old, so the kind must be listed again."""


class KindNotServedError(Exception):
    """The API server does not serve the kind."""


def wait(stop: threading.Event, pause_s: float) -> bool:
    """Wait until `stop` is set, at most `pause_s` seconds. Return whether it was set."""
    return stop.wait(pause_s)


def no_manifest(_: ApiObject, __: msgspec.Raw) -> bytes:
    """Return b"", as the `manifest` function of a Reflector that does not keep the JSON of objects."""
    return b""


@dataclass(frozen=True)
class ListWatch(Generic[T]):
    """What a reflector lists and watches: the collection at `path`, whose objects decode to `decode_as`.

    `params` are query parameters, such as selectors, of every list and watch. With `optional`, a server that does not
    serve the kind counts as having no such objects. `manifest` returns the JSON that is kept with a decoded object, or
    b"".
    """

    path: str
    kind: str
    decode_as: type[T]
    params: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False
    manifest: Callable[[T, msgspec.Raw], bytes] = no_manifest


class Reflector(Generic[T]):
    """Lists and watches one kind of object in a thread, and passes lists and events to a sink function."""

    def __init__(
        self,
        api: ApiServer,
        target: ListWatch[T],
        sink: Sink,
        on_interrupted: Callable[[], None] = lambda: None,
        longest_pause_s: float = BACKOFF_S[1],
    ) -> None:
        """Prepare the thread without starting it.

        `on_interrupted` is called in the thread when the connection to the API server fails. `longest_pause_s` bounds
        the pause after a failure, which doubles each time.
        """
        self._longest_pause_s = longest_pause_s
        self._on_interrupted = on_interrupted
        self._api = api
        self._target = target
        self._kind = target.kind
        self._sink = sink
        self._version = ""  # to watch from; "" lists first
        self._may_be_absent = target.optional  # until it was listed once: what was there does not become absent
        self._reported_absent = False
        self._pause_s = BACKOFF_S[0]  # after the next failure
        self._stop = threading.Event()
        self._events = json_decoder(_Event)
        self._objects = json_decoder(target.decode_as)
        self._thread = threading.Thread(target=self._run, name=f"watch-{target.kind}", daemon=True)

    def start(self) -> None:
        """Start the thread that lists and watches."""
        self._thread.start()

    def stop(self) -> None:
        """Make the thread stop at its next event or timeout, without waiting for it."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._version:
                    self._list()
                if not self._watch():
                    self._wait(0.0)
            except KindNotServedError:
                self._report_absent()
                self._stop.wait(ABSENT_S)
            except ResourceExpiredError:
                klog.info(2, "Watch is too old, listing again", kind=self._kind)
                self._version = ""
                self._wait(0.0)
            except (ApiError, msgspec.MsgspecError) as e:
                if self._stop.is_set():
                    return
                problem = e.describe() if isinstance(e, ApiError) else str(e)
                klog.error(problem, "Failed to watch, trying again", kind=self._kind)
                self._on_interrupted()
                if isinstance(e, msgspec.MsgspecError):
                    self._version = ""
                self._wait((isinstance(e, ApiError) and e.retry_after_s) or 0.0)

    def _wait(self, at_least_s: float) -> None:
        """Wait after a failure, at least `at_least_s` seconds and about twice as long as the last time.

        Jitter keeps replicas from retrying together.
        """
        wait(self._stop, max(self._pause_s * random.uniform(1, 2), at_least_s))
        self._pause_s = min(self._pause_s * 2, self._longest_pause_s)

    def _list(self) -> None:
        """List all objects page by page and pass them to the sink.

        Raise ResourceExpiredError, KindNotServedError or ApiError if the list fails.
        """
        objects: list[T] = []
        version = ""
        collecting = gc.isenabled()
        gc.disable()  # bulk decoding doubles to quadruples in time otherwise, and makes no garbage
        try:
            for page in read_pages(lambda params: self._api.get(self._target.path, params), self._target.params):
                objects += map(self._decode, page.items or ())
                version = page.metadata.resource_version
        except ApiError as e:
            if e.code == 410:
                raise ResourceExpiredError from e
            if e.code == 404 and self._may_be_absent:
                raise KindNotServedError from e
            raise
        finally:
            if collecting:
                gc.enable()
        self._may_be_absent = False
        self._sink(ListResult(self._kind, objects))
        self._version = version

    def _report_absent(self) -> None:
        """Pass an empty list, marked as absent, to the sink because the API server does not serve the kind.

        Only the first call has an effect.
        """
        if not self._reported_absent:
            self._reported_absent = True
            klog.warning("API server does not serve a kind, counting it as empty", kind=self._kind)
            self._sink(ListResult(self._kind, [], absent=True))

    def _watch(self) -> bool:
        """Pass events to the sink until the watch ends. Return False if the caller must wait before the next watch.

        Raise ResourceExpiredError if the kind must be listed again, ApiError if the watch cannot be opened.
        """
        params = {
            **self._target.params,
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(WATCH_S * random.uniform(1, 2))),
        }
        began = None
        try:
            with self._api.stream(self._target.path, params, SILENCE_S) as pieces:
                began = time.monotonic()
                self._read(pieces)
            return self._reset_backoff_if_long(began)
        except ApiError as e:
            if e.code == 410:
                raise ResourceExpiredError from e
            if e.code != 0 or began is None or self._stop.is_set():
                raise
            klog.info(4, "Watch ended, resuming", kind=self._kind, err=str(e))
            self._on_interrupted()
            self._reset_backoff_if_long(began)
            return False

    def _read(self, pieces: Iterator[bytes]) -> None:
        """Parse the events in a watch's stream of bytes, and pass them to the sink."""
        rest = b""
        for piece in pieces:
            if self._stop.is_set():
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line:
                    self._version = self._event(line)
                    self._pause_s = BACKOFF_S[0]

    def _reset_backoff_if_long(self, began: float) -> bool:
        """Return whether the watch that began at `began` lasted at least SHORT_S, and reset the backoff if it did."""
        if time.monotonic() - began < SHORT_S:
            return False
        self._pause_s = BACKOFF_S[0]
        return True

    def _event(self, line: bytes) -> str:
        event = self._events.decode(line)
        if event.type == "BOOKMARK":
            return decode_json(event.object, _Bookmark).metadata.resource_version
        if event.type == "ERROR":
            status = decode_json(event.object, _Status)
            if status.code == 410:
                raise ResourceExpiredError
            raise ApiError(status.code, status.reason, status.message)
        obj = self._decode(event.object)
        self._sink(WatchEvent(self._kind, event.type, obj))
        return obj.metadata.resource_version

    def _decode(self, raw: msgspec.Raw) -> T:
        obj = self._objects.decode(raw)
        manifest = self._target.manifest(obj, raw)
        if manifest:
            struct = cast("msgspec.Struct", obj)
            msgspec.structs.force_setattr(struct, "manifest", manifest)  # no other thread has seen the object yet
        return obj
