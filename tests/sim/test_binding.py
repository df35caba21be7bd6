"""Binding, eviction, and pods that run."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.sim.client import PODS, SimClient, a_node, a_pod, select_keys


def binding_to(pod: str, node: str, **metadata: Any) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, **metadata}, "target": target}


SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


@pytest.mark.parametrize("path", [f"{PODS}/web/binding", "/api/v1/namespaces/default/bindings"], ids=["pod", "generic"])
def test_a_binding_sets_the_node_and_the_condition(api: SimClient, path: str) -> None:
    _, pod = api("POST", PODS, a_pod("web"))
    api("PATCH", f"{PODS}/web/status", {"status": {"nominatedNodeName": "n1"}}, "application/merge-patch+json")
    assert api("POST", path, binding_to("web", "n1", uid=pod["metadata"]["uid"], annotations={"a": "b"})) == (
        201,
        SUCCESS,
    )
    _, bound = api("GET", f"{PODS}/web")
    wanted = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True", "lastProbeTime": None}]}
    (condition,) = bound["status"]["conditions"]
    assert condition.pop("lastTransitionTime").endswith("Z")
    assert (bound["spec"], bound["status"], bound["metadata"]["annotations"]) == (
        {**pod["spec"], "nodeName": "n1"}, wanted, {"a": "b"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "binding", "code", "message"),
    [
        pytest.param(
            a_pod("web", nodeName="n0"), binding_to("web", "n1"), 409,
            'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n0"',
            id="already bound",
        ),
        pytest.param(
            a_pod("web", schedulingGates=[{"name": "example.com/wait"}]), binding_to("web", "n1"), 409,
            'Operation cannot be fulfilled on pods/binding "web": pod web has non-empty .spec.schedulingGates',
            id="gated",
        ),
        pytest.param(a_pod("other"), binding_to("web", "n1"), 404, 'pods "web" not found', id="no pod"),
        pytest.param(a_pod("web"), binding_to("web", ""), 400, "target.name: Required value", id="no node"),
        pytest.param(
            a_pod("web"), binding_to("other", "n1"), 400, "name in URL does not match name in Binding object",
            id="another name",
        ),
    ],
)  # fmt: skip
def test_invalid_bindings_are_rejected(api: SimClient, pod: Any, binding: Any, code: int, message: str) -> None:
    api("POST", PODS, pod)
    status, answer = api("POST", f"{PODS}/web/binding", binding)
    assert (status, answer["message"]) == (code, message)


def test_a_binding_with_another_uid_is_a_conflict(api: SimClient) -> None:
    _, pod = api("POST", PODS, a_pod("web"))
    status, answer = api("POST", f"{PODS}/web/binding", binding_to("web", "n1", uid="earlier"))
    found = pod["metadata"]["uid"]
    assert (status, answer["reason"], answer["message"]) == (
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods "web": StorageError: invalid object, Code: 4, '
        "Key: /registry/pods/default/web, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: earlier, UID in object meta: {found}",
    )
    assert api("GET", f"{PODS}/web") == (200, pod)


def test_only_one_of_concurrent_bindings_succeeds(api: SimClient) -> None:
    api("POST", PODS, a_pod("web"))
    codes: list[int] = []

    def bind(node: str) -> None:
        codes.append(api("POST", f"{PODS}/web/binding", binding_to("web", node))[0])

    threads = [threading.Thread(target=bind, args=(f"n{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [201] + [409] * 7


def test_an_eviction_uses_the_disruption_budget(api: SimClient) -> None:
    labels = {"app": "web", "tier": "front"}
    for name in ("a", "b"):
        api("POST", PODS, a_pod(name, labels=labels, nodeName="n1"))
    match = [{"key": "tier", "operator": "In", "values": ["front"]}]
    api.sim.create({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"},
        "spec": {"selector": {"matchLabels": {"app": "web"}, "matchExpressions": match}},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1},
    })  # fmt: skip
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert api("POST", f"{PODS}/a/eviction", eviction) == (201, SUCCESS)
    status, refused = api("POST", f"{PODS}/b/eviction", {"metadata": {"name": "b"}})
    assert (status, refused["reason"], refused["message"], refused["details"]["causes"]) == (
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        [{
            "reason": "DisruptionBudget",
            "message": "The disruption budget budget needs 1 healthy pods and has 2 currently",
        }],
    )  # fmt: skip
    assert [p["metadata"]["name"] for p in api.sim.list("Pod")] == ["b"]


def test_a_bound_pod_stays_pending_without_kubelets(api: SimClient) -> None:
    api("POST", PODS, a_pod("web"))
    api.sim.bind("default", "web", "n1")
    assert api.sim.get("Pod", "default", "web")["status"]["phase"] == "Pending"


def test_a_bound_pod_runs_with_run_pods(serve: Callable[..., SimClient]) -> None:
    api = serve(run_pods=True)
    api.sim.create(a_node("n1", addresses=[{"type": "InternalIP", "address": "192.0.2.7"}]))
    api("POST", PODS, a_pod("web"))
    api("POST", PODS, a_pod("waiting"))
    stream = api.watch(f"{PODS}?watch=true&fieldSelector=status.phase%3DRunning")
    began = time.monotonic()
    api.sim.bind("default", "web", "n1")
    _, running = stream.next()
    wanted = {
        "phase": "Running",
        "hostIP": "192.0.2.7",
        "podIP": "198.51.100.1",
        "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0}],
    }
    status = select_keys(running["status"], wanted)
    status["containerStatuses"] = [select_keys(c, wanted["containerStatuses"][0]) for c in status["containerStatuses"]]
    assert status == wanted
    assert time.monotonic() - began > 0.4
    assert api.sim.get("Pod", "default", "waiting")["status"]["phase"] == "Pending"
