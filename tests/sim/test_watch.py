"""Watches: replay, live changes, selector transitions, bookmarks, expiry, and their end."""

import threading
import time
from collections.abc import Callable

import pytest

from tests.sim.client import PODS, SimClient, a_pod


def version(api: SimClient) -> str:
    found: str = api("GET", PODS)[1]["metadata"]["resourceVersion"]
    return found


def test_a_watch_replays_changes_since_its_version(api: SimClient) -> None:
    api("POST", PODS, a_pod("before"))
    since = version(api)
    _, created = api("POST", PODS, a_pod("web"))
    _, bound = api("PATCH", f"{PODS}/web", {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")
    api("DELETE", f"{PODS}/web")
    stream = api.watch(f"{PODS}?watch=true&resourceVersion={since}")
    events = [stream.next() for _ in range(3)]
    assert [(type_, obj["metadata"].get("labels")) for type_, obj in events] == [
        ("ADDED", None), ("MODIFIED", {"a": "b"}), ("DELETED", {"a": "b"})
    ]  # fmt: skip
    assert [events[0][1], events[1][1]] == [created, bound]
    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in events]
    assert versions == sorted(set(versions))


def test_a_watch_sends_later_changes(api: SimClient) -> None:
    streams = [api.watch(f"{PODS}?watch=true&resourceVersion={version(api)}") for _ in range(3)]
    api("POST", PODS, a_pod("web"))
    assert [s.read_events(1) for s in streams] == [[("ADDED", "web")]] * 3


@pytest.mark.parametrize("query", ["", "&resourceVersion=0"], ids=["no version", "version 0"])
def test_a_watch_without_a_version_starts_with_the_current_objects(api: SimClient, query: str) -> None:
    for name in "ab":
        api("POST", PODS, a_pod(name))
    stream = api.watch(f"{PODS}?watch=true{query}")
    api("POST", PODS, a_pod("c"))
    assert stream.read_events(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_entering_and_leaving_a_field_selector_is_added_and_deleted(api: SimClient) -> None:
    api("POST", PODS, a_pod("web"))
    unbound = api.watch(f"/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3D&resourceVersion={version(api)}")
    bound = api.watch(f"/api/v1/pods?watch=true&fieldSelector=spec.nodeName!%3D&resourceVersion={version(api)}")
    api.sim.bind("default", "web", "n1")
    type_, left = unbound.next()
    _, entered = bound.next()
    assert (type_, "nodeName" in left["spec"], left["metadata"]["resourceVersion"]) == (
        "DELETED", False, entered["metadata"]["resourceVersion"]
    )  # fmt: skip
    api.sim.patch("Pod", "default", "web", {"metadata": {"labels": {"a": "b"}}})
    api.sim.delete("Pod", "default", "web")
    api("POST", PODS, a_pod("next"))
    assert bound.read_events(2) == [("MODIFIED", "web"), ("DELETED", "web")]
    assert unbound.read_events(1) == [("ADDED", "next")]


def test_a_watch_of_one_namespace_or_name_sends_no_other_objects(api: SimClient) -> None:
    api.sim.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    namespace = api.watch("/api/v1/namespaces/team-a/pods?watch=true")
    name = api.watch(f"{PODS}/b?watch=true")
    for path, pod in ((PODS, "a"), ("/api/v1/namespaces/team-a/pods", "other"), (PODS, "b")):
        api("POST", path, a_pod(pod))
    assert (namespace.read_events(1), name.read_events(1)) == ([("ADDED", "other")], [("ADDED", "b")])


def test_bookmarks_are_sent_while_idle_and_at_the_end(serve: Callable[..., SimClient]) -> None:
    api = serve(bookmark_interval_s=0.05)
    stream = api.watch(f"{PODS}?watch=true&resourceVersion={version(api)}&allowWatchBookmarks=true&timeoutSeconds=1")
    api.sim.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    events = stream.read_remaining()
    bookmark = {
        "type": "BOOKMARK",
        "object": {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": version(api), "creationTimestamp": None},
        },
    }
    assert len(events) > 2
    assert events[-1] == bookmark


def test_a_watch_sends_no_bookmarks_unless_requested(api: SimClient) -> None:
    began = time.monotonic()
    assert api.watch(f"{PODS}?watch=true&resourceVersion={version(api)}&timeoutSeconds=1").read_remaining() == []
    assert 0.9 < time.monotonic() - began < 30


def test_the_initial_events_end_with_a_marked_bookmark(api: SimClient) -> None:
    api("POST", PODS, a_pod("a"))
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    stream = api.watch(f"{PODS}?{query}")
    added, (type_, mark) = stream.read_events(1), stream.next()
    assert (added, type_, mark["metadata"]["annotations"]) == (
        [("ADDED", "a")], "BOOKMARK", {"k8s.io/initial-events-end": "true"}
    )  # fmt: skip


def test_without_watch_list_initial_events_are_rejected(serve: Callable[..., SimClient]) -> None:
    api = serve(watch_list=False)
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    status, answer = api("GET", f"{PODS}?{query}")
    assert (status, answer["reason"], answer["message"]) == (
        422,
        "Invalid",
        'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for '
        "watch unless the WatchList feature gate is enabled",
    )


def test_an_expired_version_gives_an_error_event(serve: Callable[..., SimClient]) -> None:
    api = serve(history_limit=4)
    since = version(api)
    for number in range(10):
        api("POST", PODS, a_pod(f"p{number}"))
    stream = api.watch(f"{PODS}?watch=true&resourceVersion={since}")
    (event,) = stream.read_remaining()
    assert (stream.status, event["type"], event["object"]["code"], event["object"]["reason"]) == (
        200, "ERROR", 410, "Expired"
    )  # fmt: skip
    assert event["object"]["message"].startswith(f"too old resource version: {since} (")


def test_an_expired_version_can_give_an_http_error(serve: Callable[..., SimClient]) -> None:
    api = serve(expired_watch_as_http=True)
    since = version(api)
    api("POST", PODS, a_pod("web"))
    api.sim.compact()
    status, answer = api("GET", f"{PODS}?watch=true&resourceVersion={since}")
    assert (status, answer["kind"], answer["reason"]) == (410, "Status", "Expired")


def test_versions_of_an_earlier_run_are_expired(serve: Callable[..., SimClient]) -> None:
    earlier = serve()
    since = version(earlier)
    time.sleep(0.01)
    (event,) = serve().watch(f"{PODS}?watch=true&resourceVersion={since}").read_remaining()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_concurrent_writes_lose_or_repeat_no_change(api: SimClient) -> None:
    writers, each = 8, 50
    stream = api.watch(f"{PODS}?watch=true&resourceVersion={version(api)}")
    threads = [
        threading.Thread(target=lambda w=w: [api.sim.create(a_pod(f"p{w}-{i}")) for i in range(each)])
        for w in range(writers)
    ]
    for thread in threads:
        thread.start()
    events = [stream.next() for _ in range(writers * each)]
    for thread in threads:
        thread.join()
    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in events]
    assert versions == sorted(versions)
    assert {obj["metadata"]["name"] for _, obj in events} == {f"p{w}-{i}" for w in range(writers) for i in range(each)}


def test_the_connection_is_reusable_after_a_watch(api: SimClient) -> None:
    import http.client

    connection = http.client.HTTPConnection(api.address, timeout=60)
    for path in (f"{PODS}?watch=true&timeoutSeconds=1&resourceVersion={version(api)}", PODS):
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        assert response.status == 200
    connection.close()
