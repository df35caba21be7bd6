"""Who holds what a pending pod lacks: which pods are named, how much each holds, and which would be enough."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.live.pods.holders import HeldObject, Holder, find_held, find_holders
from herodotus_cli.render import plain_text
from herodotus_cli.render.screen_elements import ViewOptions
from herodotus_cli.render.suggestions import build_holders, build_holders_document
from tests.builders import CORDONED, INSUFFICIENT_CPU, TAINTED, a_decision
from tests.cli.scenes import NOW, a_pending, a_placed, explained

Json = dict[str, Any]


def pod(name: str, cpu: str = "0", priority: int = 0, **spec: Any) -> Json:
    container = {"name": "app", "resources": {"requests": {"cpu": cpu}}}
    owners = [{"kind": "ReplicaSet", "name": f"{name}-rs", "controller": True}]
    metadata = {"namespace": "shop", "name": name, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"containers": [container], "priority": priority, **spec}}


def test_the_closest_node_of_the_most_frequent_reason_is_looked_at() -> None:
    held = HeldObject("worker-1", "resource", ("cpu",), 300, 2000, 8000, priority=0)
    assert find_held(explained(a_pending())) == held
    assert find_held(explained(a_placed())) is None


def test_the_node_that_the_answer_is_about_is_looked_at() -> None:
    decision = a_pending()
    answer = explained(decision, node="worker-2")
    found = find_held(answer)
    assert found is not None
    assert found.node == "worker-2"


def test_holders_are_named_largest_first_with_those_that_are_enough() -> None:
    pods = [pod("small", "100m"), pod("big", "1500m", priority=9), pod("none"), pod("mid", "0.25")]
    found = find_holders(HeldObject("n", "resource", ("cpu",), 1600), pods)
    assert found.pods == (
        Holder("shop/big", 1500, 9, "ReplicaSet/big-rs"),
        Holder("shop/mid", 250, 0, "ReplicaSet/mid-rs"),
        Holder("shop/small", 100, 0, "ReplicaSet/small-rs"),
    )
    assert found.enough == 2
    assert find_holders(HeldObject("n", "resource", ("cpu",), 5000), pods).enough == 0


@pytest.mark.parametrize(
    ("own", "theirs", "is_said"), [(100, 100, True), (0, 7, True), (100, 7, False), (0, 0, False), (None, 7, False)]
)
def test_holders_of_no_lower_priority_are_not_evicted(own: int | None, theirs: int, is_said: bool) -> None:
    text = drawn(HeldObject("n", "resource", ("cpu",), 300, priority=own), pod("web", "500m", priority=theirs))
    said = f"None of them has a lower priority than this pod ({own}): none is evicted for it."
    assert (said in text) == is_said


def test_owner_of_a_holder_is_the_deployment_behind_its_replica_set() -> None:
    web = pod("web", "500m")
    web["metadata"]["ownerReferences"][0]["name"] = "web-5d9f"
    web["metadata"]["labels"] = {"pod-template-hash": "5d9f"}
    (holder,) = find_holders(HeldObject("n", "resource", ("cpu",), 300), [web]).pods
    assert holder.owner == "Deployment/web"


def test_a_pod_that_comes_back_to_the_node_is_never_enough() -> None:
    agent = pod("agent", "1500m")
    agent["metadata"]["ownerReferences"][0] |= {"kind": "DaemonSet", "name": "agent"}
    held = HeldObject("n", "resource", ("cpu",), 300)
    found = find_holders(held, [agent, pod("web", "500m")])
    assert ([each.pod for each in found.pods], found.enough) == (["shop/web", "shop/agent"], 1)
    assert "shop/web alone would be enough." in drawn(held, agent, pod("web", "500m"))
    assert "Those that do not come back to the node together hold less than the missing 300m cpu." in drawn(held, agent)


def test_what_is_missing_is_counted_beside_the_pods_that_are_on_the_node_now() -> None:
    held = HeldObject("n", "resource", ("cpu",), missing=300, requested=500, allocatable=4000)
    later = find_holders(held, [pod("old", "3800m"), pod("new", "1")])  # the second came after the decision
    assert (later.held.missing, later.enough) == (1300, 1)
    assert "1300m cpu would have to become free: shop/old alone would be enough." in drawn(
        held, pod("old", "3800m"), pod("new", "1")
    )
    assert "n has enough cpu for the pod by now." in drawn(held, pod("old", "1"))


def test_requests_count_as_the_scheduler_counts_them() -> None:
    one = pod("p", "1", overhead={"cpu": "50m"})
    one["spec"]["initContainers"] = [
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}},
        {"name": "init", "resources": {"requests": {"cpu": "1500m"}}},
    ]
    held = HeldObject("n", "resource", ("cpu",), 1)
    assert find_holders(held, [one]).pods[0].amount == 1750
    assert find_holders(held, [pod("q", "1", resources={"requests": {"cpu": "3"}})]).pods[0].amount == 3000


PORT: Json = {"containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}]}]}
CLAIM: Json = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


@pytest.mark.parametrize(
    ("held", "holder"),
    [
        (HeldObject("n", "ports", ("8080/TCP",)), pod("web", **PORT)),
        (HeldObject("n", "pod", ("shop/web",)), pod("web")),
        (HeldObject("n", "claims", ("shop/data",)), pod("web", **CLAIM)),
        (HeldObject("n", "resource", ("pods",), 1), pod("web")),
    ],
    ids=lambda value: value.kind if isinstance(value, HeldObject) else "",
)
def test_what_is_no_amount_is_held_too(held: HeldObject, holder: Json) -> None:
    others = [pod("other")] if held.names != ("pods",) else []
    assert [h.pod for h in find_holders(held, [*others, holder]).pods] == ["shop/web"]


def test_a_port_without_an_address_is_taken_on_every_address() -> None:
    one = pod("one", containers=[{"name": "a", "ports": [{"hostPort": 443, "hostIP": "10.0.0.1"}]}])
    two = pod("two", containers=[{"name": "a", "ports": [{"hostPort": 443, "hostIP": "10.0.0.2"}]}])
    assert [h.pod for h in find_holders(HeldObject("n", "ports", ("443/TCP",)), [one, two]).pods] == [
        "shop/one",
        "shop/two",
    ]
    held = HeldObject("n", "ports", ("10.0.0.1:443/TCP",))
    assert [h.pod for h in find_holders(held, [one, two]).pods] == ["shop/one"]


def test_holders_that_end_or_are_resized_are_told() -> None:
    held = HeldObject("n1", "resource", ("cpu",), 300)
    ending = pod("old", "1")
    ending["metadata"] |= {"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": ["x.example/backup"]}
    resized = pod("cache", "12")
    resized["status"] = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
        "containerStatuses": [{"name": "app", "allocatedResources": {"cpu": "1"}}],
    }
    crashing = pod("notebook", "1")
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    crashing["status"] = {"containerStatuses": [{"name": "app", "restartCount": 312, "state": waiting}]}
    screen = drawn(held, ending, resized, crashing)
    assert (
        "shop/notebook: does not run, and holds it all the same: container app, CrashLoopBackOff (312 restarts)."
        in screen
    )
    assert "shop/cache: its resize is pending (Deferred): it has 1 cpu and asks for 12." in screen
    assert (
        "shop/old: terminating since 2026-03-01T12:00:00Z, gone once the kubelet of n1 has ended it and its finalizers"
        " (x.example/backup) are removed." in screen
    )


def test_holders_are_enough_only_if_nothing_else_stands_against_the_node() -> None:
    held = HeldObject(
        "n1", "resource", ("cpu",), 300, others=("taint gpu:NoSchedule not tolerated",), unknown=("DynamicResources",)
    )
    assert drawn(held, pod("web", "4")).splitlines()[-1] == (
        "300m cpu would have to become free: shop/web alone would free enough cpu. n1 also rejects the pod for another"
        " reason: taint gpu:NoSchedule not tolerated. DynamicResources was not evaluated on n1."
    )


def test_what_else_stands_against_the_node_is_read_from_the_answer() -> None:
    rejected = {
        "worker-1": {"NodeResourcesFit": INSUFFICIENT_CPU, "TaintToleration": TAINTED},
        "worker-2": {"NodeUnschedulable": CORDONED},
    }
    found = find_held(explained(a_decision(nodes=("worker-1", "worker-2"), rejected=rejected), node="worker-1"))
    assert found is not None
    assert found.others == ("taint dedicated=gpu:NoSchedule not tolerated",)


def drawn(held: HeldObject, *pods: Json) -> str:
    return plain_text.draw(build_holders(find_holders(held, pods)), ViewOptions(NOW))


def test_the_screen_names_the_least_important_pod_that_alone_is_enough() -> None:
    held = HeldObject("worker-9", "resource", ("cpu",), 300)
    assert drawn(held, pod("web", "4", priority=100), pod("batch", "500m"), pod("tiny", "10m")) == (
        "HOLDS CPU ON worker-9  REQUEST  PRIORITY  OWNER\n"
        "shop/web                     4       100  ReplicaSet/web-rs\n"
        "shop/batch                500m         0  ReplicaSet/batch-rs\n"
        "shop/tiny                  10m         0  ReplicaSet/tiny-rs\n"
        "300m cpu would have to become free: shop/batch alone would be enough.\n"
    )
    assert "shop/a, shop/b together would be enough" in drawn(held, pod("a", "200m"), pod("b", "150m"))
    assert "hold less than the missing 300m cpu" in drawn(held, pod("a", "200m"))
    assert drawn(held) == ""


def test_group_lacks_for_its_next_pod_what_others_hold_on_the_closest_node() -> None:
    reason = {"code": "insufficient", "params": {}, "resource": "cpu", "requested": 2000, "free": 500}
    closest = {"node": "n1", "reason": "cpu", "reasons": [reason | {"allocatable": 4000}]}
    answer: dict[str, Any] = {"kind": "PodGroupPlacement", "shortage": {"pods": 3, "closestNode": closest}}
    held = find_held(answer)
    assert held == HeldObject("n1", "resource", ("cpu",), 1500, 2000, 4000, pods=3)
    assert find_held(answer | {"shortage": None}) is None
    del closest["reasons"]  # as a service of an earlier version answers
    assert find_held(answer) is None


def test_document_for_the_pages_has_the_words_and_amounts_of_the_screen() -> None:
    held = HeldObject("n", "resource", ("cpu",), 300)
    pods = [pod(f"web-{i}", "500m") for i in range(7)]
    document = build_holders_document(find_holders(held, pods))
    assert document is not None
    assert document["text"] in " ".join(drawn(held, *pods).split())
    assert document["pods"][0] == {
        "namespace": "shop",
        "name": "web-0",
        "amount": "500m",
        "priority": 0,
        "owner": "ReplicaSet/web-0-rs",
    }
    assert (document["what"], document["node"], len(document["pods"]), document["omitted"]) == ("cpu", "n", 5, 2)
    assert build_holders_document(find_holders(held, [])) is None
    assert build_holders_document(held) == {
        "what": "cpu",
        "node": "n",
        "text": "Who holds cpu on n is not shown: you may not list pods in all namespaces.",
    }
