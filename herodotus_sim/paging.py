"""Owns: lists: which version they show, and pages of one consistent list.

    first page ── limit reached ──> token ──> next page of the same list ... last page: no token
                                      └── the list was forgotten ──> 410 Expired

Does not own: encoding. Invariant: all pages of a list show the state at its first page.
"""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from operator import attrgetter

from herodotus_sim import errors
from herodotus_sim.kinds import Kind
from herodotus_sim.selectors import Selection
from herodotus_sim.store import Key, Store, Version
from herodotus_sim.watching import parse_version
from herodotus_sim.wire import Object, Request, encode

# Lists kept for their next page. A client pages at once; one list of 5,000 pods pins at most their old versions.
_MAX_KEPT = 32

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter."
)


@dataclass(frozen=True)
class Listed:
    """One page of a list."""

    items: list[Version]
    version: int
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> Object:
        """The list's own metadata."""
        meta: Object = {"resourceVersion": str(self.version)}
        if self.token:
            meta["continue"] = self.token
        if self.remaining is not None:
            meta["remainingItemCount"] = self.remaining
        return meta


class Pages:
    """The lists of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[str, int], list[Version]] = OrderedDict()

    def page(self, kind: Kind, selection: Selection, request: Request) -> Listed:
        """One page. How many remain is known only of a list without selectors."""
        limit = request.query.get("limit", "") or "0"
        if not limit.isdigit():
            raise errors.bad_request(f'limit: Invalid value: "{limit}"')
        token = request.query.get("continue", "")
        if token:
            version, after = _read(token)
            ordered, start = self._resume(kind, version, after)
        else:
            ordered, version = self._state(kind, request)
            start = 0
        return self._cut(kind, selection, (ordered, version), start, int(limit))

    def _state(self, kind: Kind, request: Request) -> tuple[list[Version], int]:
        asked = parse_version(request.query.get("resourceVersion", ""))
        exact = request.query.get("resourceVersionMatch") == "Exact"
        collection = self._store.collection(kind)
        with self._store.lock:
            if asked > self._store.version:
                raise errors.too_large_version(asked, self._store.version)
            last = collection.history[-1].version if collection.history else collection.floor
            if exact and asked < last:
                raise errors.expired(f"The provided resource version {asked} is too old.")
            return collection.ordered(), asked if exact else self._store.version

    def _resume(self, kind: Kind, version: int, after: Key) -> tuple[list[Version], int]:
        with self._store.lock:
            ordered = self._kept.get((kind.plural, version))
            forgotten = version < self._store.collection(kind).floor
        if ordered is None or forgotten:
            raise errors.expired(_EXPIRED)
        return ordered, bisect_right(ordered, after, key=attrgetter("key"))

    def _cut(
        self, kind: Kind, selection: Selection, state: tuple[list[Version], int], start: int, limit: int
    ) -> Listed:
        ordered, version = state
        if not limit:
            chosen = ordered[start:] if selection.everything else _chosen(ordered, start, selection, len(ordered))
            return Listed(chosen, version)
        chosen = _chosen(ordered, start, selection, limit + 1)
        if len(chosen) <= limit:
            return Listed(chosen, version)
        chosen.pop()
        end = chosen[-1].key
        self._keep((kind.plural, version), ordered)
        rest = len(ordered) - bisect_right(ordered, end, key=attrgetter("key"))
        return Listed(chosen, version, _token(version, end), rest if selection.everything else None)

    def _keep(self, key: tuple[str, int], ordered: list[Version]) -> None:
        with self._store.lock:
            self._kept[key] = ordered
            self._kept.move_to_end(key)
            while len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)


def _chosen(ordered: list[Version], start: int, selection: Selection, enough: int) -> list[Version]:
    found = []
    for version in ordered[start:]:
        if selection.matches(version.obj):
            found.append(version)
            if len(found) == enough:
                break
    return found


def _token(version: int, after: Key) -> str:
    return base64.urlsafe_b64encode(encode({"v": "meta.k8s.io/v1", "rv": version, "start": list(after)})).decode()


def _read(token: str) -> tuple[int, Key]:
    try:
        content = json.loads(base64.urlsafe_b64decode(token))
        namespace, name = content["start"]
        return int(content["rv"]), (str(namespace), str(name))
    except (binascii.Error, ValueError, KeyError, TypeError):
        raise errors.bad_request("continue key is not valid") from None
