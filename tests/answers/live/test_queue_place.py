"""A waiting pod's place among those of its scheduler, and a scheduler that neglects it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from herodotus_answers.live.cluster_objects import ClusterObjects
from herodotus_answers.live.declarations import QueuePlace
from herodotus_answers.live.pods.queue_place import find_place

Json = dict[str, Any]
NOW = datetime(2026, 11, 27, 12, 0, tzinfo=timezone.utc)


def ago(minutes: float) -> str:
    return (NOW - timedelta(minutes=minutes)).isoformat()


def a_pod(name: str, priority: int = 0, age: float = 30, **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": ago(age)}
    return {"metadata": metadata, "spec": {"priority": priority, **spec}, "status": {"phase": "Pending"}}


def find(pods: list[Json] | None, attempt: Json | None = None, renewed: float | None = None) -> QueuePlace | None:
    """Return the place of the pod `own`. `pods` are None if they may not be listed."""

    def fetch(path: str) -> tuple[int, Json]:
        if path.startswith("/api/v1/pods?"):
            return (403, {}) if pods is None else (200, {"items": pods})
        if "/leases/" in path and renewed is not None:
            spec = {"renewTime": ago(renewed), "leaseDurationSeconds": 15}
            return 200, {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec}
        return 404, {}

    own = next((pod for pod in pods or () if pod["metadata"]["name"] == "own"), a_pod("own"))
    return find_place(own, attempt or {"startedAt": ago(2), "retry": None}, ClusterObjects(fetch), NOW)


def test_pods_are_ordered_by_priority_and_then_by_age() -> None:
    place = find([a_pod("own"), a_pod("old", age=90), a_pod("young", age=1), a_pod("high", 100, age=1)])
    assert place is not None
    assert (place["position"], place["waiting"], place["ahead"]) == (3, 4, ["shop/high", "shop/old"])
    assert place["text"] == "place 3 of 4 by priority and age, first shop/high (priority 100)"


def test_only_pods_count_that_wait_for_the_same_scheduler() -> None:
    others = [
        a_pod("gated", schedulingGates=[{"name": "g"}]),
        a_pod("other", schedulerName="other"),
        a_pod("next", age=1),
    ]
    gone = a_pod("gone")
    gone["metadata"]["deletionTimestamp"] = ago(1)
    place = find([a_pod("own"), gone, *others])
    assert place is not None
    assert (place["position"], place["waiting"]) == (1, 2)


def test_a_pod_alone_has_no_place_to_tell() -> None:
    assert find([a_pod("own")]) is None


def test_without_the_right_to_list_pods_the_place_is_not_known() -> None:
    assert find(None) is None


def test_a_running_scheduler_that_missed_its_own_retry_neglects_the_pod() -> None:
    attempt = {"startedAt": ago(20), "retry": {"notBefore": ago(19), "latest": ago(15)}}
    place = find(None, attempt, renewed=0.05)
    assert place is not None
    assert place["neglected"]
    assert place["text"] == "not tried for 20m although default-scheduler runs (Lease renewed 3s ago)"
    assert find(None, attempt, renewed=5) is None  # its Lease has expired: it does not run
    assert find(None, attempt) is None


def test_a_pod_is_not_neglected_before_its_retry_is_due_or_soon_after_a_repeated_attempt() -> None:
    not_due = {"startedAt": ago(20), "retry": {"notBefore": ago(19), "latest": ago(0.5)}}
    repeated = {
        "startedAt": ago(20),
        "retry": {"notBefore": ago(19), "latest": ago(15)},
        "repeats": {"count": 3, "firstAt": ago(15), "lastAt": ago(5)},
    }
    assert find(None, not_due, renewed=0.05) is None
    assert find(None, repeated, renewed=0.05) is None
