"""A watch of objects lists them anew where the API server has forgotten the version or the rest of a list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from herodotus_cli.cluster_view import PODS
from herodotus_cli.object_watch import LISTED, ObjectChange, ObjectWatch
from herodotus_cli.transport.kubectl_proxy import KubectlProxy

Json = dict[str, Any]
EXPIRED = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
EMPTY = {"kind": "PodList", "items": [], "metadata": {"resourceVersion": "1"}}


class ForgetfulServer:
    """A proxy whose lists are answered by `lists` in turn, the last one for good, and watches by `events`."""

    def __init__(self, lists: list[tuple[int, Json]], events: list[Json]) -> None:
        self._lists, self._events = lists, events

    def get(self, _path: str) -> tuple[int, bytes]:
        code, body = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        return code, json.dumps(body).encode()

    def stream(self, _path: str) -> Iterator[bytes]:
        yield from (json.dumps(event).encode() for event in self._events)


def changes(server: ForgetfulServer, number: int) -> list[ObjectChange | None]:
    watch = ObjectWatch(cast(KubectlProxy, server), [PODS])
    return [watch.next_change(20.0) for _ in range(number)]


def test_a_list_whose_rest_is_forgotten_begins_anew() -> None:
    first = EMPTY | {"metadata": {"resourceVersion": "1", "continue": "x"}}
    server = ForgetfulServer([(200, first), (410, EXPIRED), (200, EMPTY)], [])
    assert changes(server, 1) == [ObjectChange(PODS, LISTED, [])]


def test_a_watch_from_a_forgotten_version_begins_with_a_new_list() -> None:
    for event in (EXPIRED, {"type": "ERROR", "object": EXPIRED}):
        server = ForgetfulServer([(200, EMPTY)], [event])
        assert changes(server, 2) == [ObjectChange(PODS, LISTED, [])] * 2
