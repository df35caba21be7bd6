"""Lists and their pages: which version they show, and continue tokens.

    first page ── limit reached ──> token ──> next page of the same list ... last page: no token
                                      └── the list was discarded ──> 410 Expired

Does not own: encoding. Invariant: all pages of a list show the state at its first page.
"""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter

from herodotus_record.lru import Lru
from herodotus_sim import errors
from herodotus_sim.kinds import ApiResource
from herodotus_sim.selectors import SelectionPredicate
from herodotus_sim.storage import Key, ObjectStorage, StoredObject
from herodotus_sim.watch import parse_version
from herodotus_sim.wire import Object, SimulatedRequest, encode

# Lists retained for their next page. Clients read pages without delay; a list of 5,000 pods retains only old versions.
_MAX_RETAINED = 32

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter."
)


@dataclass(frozen=True)
class ListPage:
    """One page of a list: its objects, the list's resource version, the continue token and the remaining count.

    The last page has an empty token.
    """

    items: list[StoredObject]
    version: int
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> Object:
        """Return the page as the `metadata` of a List object."""
        meta: Object = {"resourceVersion": str(self.version)}
        if self.token:
            meta["continue"] = self.token
        if self.remaining is not None:
            meta["remainingItemCount"] = self.remaining
        return meta


class ListPager:
    """The source of list pages; it retains each list that has more pages, so that all pages show the same state."""

    def __init__(self, store: ObjectStorage) -> None:
        self._store = store
        self._retained: Lru[tuple[str, int], list[StoredObject]] = Lru(_MAX_RETAINED)

    def get_page(self, kind: ApiResource, selection: SelectionPredicate, request: SimulatedRequest) -> ListPage:
        """Return the page of a list that the request asks for by its limit and continue token.

        The remaining count is set only without selectors. Raises StatusError 410 if the token is too old.
        """
        limit = request.query.get("limit", "") or "0"
        if not limit.isdigit():
            raise errors.bad_request(f'limit: Invalid value: "{limit}"')
        token = request.query.get("continue", "")
        if token:
            version, after = _decode_token(token)
            ordered, start = self._resume(kind, version, after)
        else:
            ordered, version = self._state(kind, request)
            start = 0
        return self._make_page(kind, selection, (ordered, version), start, int(limit))

    def _state(self, kind: ApiResource, request: SimulatedRequest) -> tuple[list[StoredObject], int]:
        requested = parse_version(request.query.get("resourceVersion", ""))
        exact = request.query.get("resourceVersionMatch") == "Exact"
        collection = self._store.watch_cache(kind)
        with self._store.lock:
            if requested > self._store.version:
                raise errors.too_large_version(requested, self._store.version)
            last = collection.history[-1].version if collection.history else collection.compacted_version
            if exact and requested < last:
                raise errors.expired(f"The provided resource version {requested} is too old.")
            return collection.list_sorted(), requested if exact else self._store.version

    def _resume(self, kind: ApiResource, version: int, after: Key) -> tuple[list[StoredObject], int]:
        with self._store.lock:
            ordered = self._retained.get((kind.plural, version))
            expired = version < self._store.watch_cache(kind).compacted_version
        if ordered is None or expired:
            raise errors.expired(_EXPIRED)
        return ordered, bisect_right(ordered, after, key=attrgetter("key"))

    def _make_page(
        self,
        kind: ApiResource,
        selection: SelectionPredicate,
        state: tuple[list[StoredObject], int],
        start: int,
        limit: int,
    ) -> ListPage:
        ordered, version = state
        if not limit:
            chosen = (
                ordered[start:] if selection.matches_everything else _select(ordered, start, selection, len(ordered))
            )
            return ListPage(chosen, version)
        chosen = _select(ordered, start, selection, limit + 1)
        if len(chosen) <= limit:
            return ListPage(chosen, version)
        chosen.pop()
        end = chosen[-1].key
        self._retain((kind.plural, version), ordered)
        remaining = len(ordered) - bisect_right(ordered, end, key=attrgetter("key"))
        return ListPage(
            chosen, version, _encode_token(version, end), remaining if selection.matches_everything else None
        )

    def _retain(self, key: tuple[str, int], ordered: list[StoredObject]) -> None:
        with self._store.lock:
            self._retained.put(key, ordered)


def _select(ordered: list[StoredObject], start: int, selection: SelectionPredicate, limit: int) -> list[StoredObject]:
    selected = []
    for version in ordered[start:]:
        if selection.matches(version.obj):
            selected.append(version)
            if len(selected) == limit:
                break
    return selected


def _encode_token(version: int, after: Key) -> str:
    return base64.urlsafe_b64encode(encode({"v": "meta.k8s.io/v1", "rv": version, "start": list(after)})).decode()


def _decode_token(token: str) -> tuple[int, Key]:
    try:
        content = json.loads(base64.urlsafe_b64decode(token))
        namespace, name = content["start"]
        return int(content["rv"]), (str(namespace), str(name))
    except (binascii.Error, ValueError, KeyError, TypeError):
        raise errors.bad_request("continue key is not valid") from None
