"""What keeps the node away that an autoscaler makes for a pod, by events and by objects that may be read."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.live.pods.pod_state import find_state
from tests.answers.live.clusters import NOW, a_cluster, a_node, a_pod, an_event, at

Json = dict[str, Any]
NOMINATED = "Pod should schedule on: nodeclaim/gpu-1"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
SCALED = "pod triggered scale-up: [{MachineSet/machines/worker-a 1->2 (max: 6)}]"


def nominate(minutes: float, message: str = NOMINATED) -> Json:
    return an_event("Nominated", message, "karpenter", type="Normal", lastTimestamp=at(minutes))


def scale_up(minutes: float, message: str = SCALED) -> Json:
    return an_event("TriggeredScaleUp", message, "cluster-autoscaler", type="Normal", lastTimestamp=at(minutes))


def claim(minutes: float, step: str, reason: str, message: str, **status: Any) -> Json:
    """Return a NodeClaim that waits at a step; those before it are done."""
    steps = ("Launched", "Registered", "Initialized")
    conditions = [{"type": each, "status": "True"} for each in steps[: steps.index(step)]]
    stuck = {"type": step, "status": "Unknown", "reason": reason, "message": message, "lastTransitionTime": at(minutes)}
    return {
        "kind": "NodeClaim",
        "metadata": {"name": "gpu-1", "creationTimestamp": at(minutes)},
        "status": {"conditions": [*conditions, stuck], **status},
    }


def old_node(**parts: Any) -> Json:
    node = a_node("n1")
    node["metadata"]["creationTimestamp"] = at(600)
    node["status"] |= parts
    return node


def first_cause(*objects: Json, requests: Json | None = None, forbidden: tuple[str, ...] = ()) -> tuple[str, str, str]:
    """Return code, text and first remedy of what the state of a pod without a node says of a new node."""
    container = {"name": "main", "resources": {"requests": requests or {}}}
    pod = a_pod(node="", containers=[container], status_conditions=[UNSCHEDULABLE])
    state = find_state(pod, a_cluster(pod, *objects, forbidden=forbidden), NOW)
    found = [cause for cause in state["causes"] if cause["code"].startswith("new-node")]
    if not found:
        return "", "", ""
    assert state["causes"][0] is found[0]
    return found[0]["code"], found[0]["text"], next((each["text"] for each in found[0]["remedies"]), "")


@pytest.mark.parametrize(
    ("node_claim", "code", "text", "remedy"),
    [
        pytest.param(
            claim(9, "Registered", "NodeNotFound", "Node not registered with cluster", providerID="aws:///a/i-1"),
            "new-node-not-ready",
            "is launched, and its node has not joined the cluster for 9m",
            "see why machine aws:///a/i-1 does not join",
            id="does-not-register",
        ),
        pytest.param(
            claim(1, "Registered", "NodeNotFound", "Node not registered with cluster"),
            "new-node-not-ready",
            "its node has not joined the cluster for 60s",
            "wait",
            id="is-on-its-way",
        ),
        pytest.param(
            claim(1, "Launched", "LaunchFailed", "UnauthorizedOperation: ec2:RunInstances"),
            "new-node-not-ready",
            "is not launched for 60s: UnauthorizedOperation",
            "grant what makes machines the rights",
            id="launch-fails",
        ),
        pytest.param(
            claim(
                9, "Initialized", "StartupTaintsExist", 'StartupTaint "cilium:NoExecute" still exists', nodeName="n1"
            ),
            "new-node-not-ready",
            "has a node that is not initialized for 9m",
            "make the agent run on n1 that removes its taint cilium:NoExecute",
            id="startup-taint",
        ),
    ],
)
def test_node_claim_says_at_which_step_it_waits(node_claim: Json, code: str, text: str, remedy: str) -> None:
    found = first_cause(nominate(10), old_node(), node_claim)
    assert found[0] == code
    assert text in found[1]
    assert found[2].startswith(remedy)


def test_without_right_to_node_claims_a_nomination_is_overdue_after_minutes() -> None:
    for minutes, remedy in ((2, "wait"), (20, "see why the machine does not join")):
        found = first_cause(nominate(minutes), old_node(), forbidden=("nodeclaims",))
        assert found[0] == "new-node-awaited"
        assert found[2].startswith(remedy)


def test_failed_launch_of_a_claim_that_is_gone_is_the_cause() -> None:
    about = {"kind": "NodeClaim", "name": "gpu-1", "namespace": ""}
    failed = an_event("InsufficientCapacityError", "creating instance", "karpenter", about=about, lastTimestamp=at(5))
    code, text, remedy = first_cause(nominate(10), old_node(), failed)
    assert (code, "gpu-1" in text) == ("new-node-failed", True)
    assert "other zones" in remedy


def test_node_that_was_made_for_a_device_and_offers_none_lacks_its_plugin() -> None:
    message = f"{NOMINATED}, node/n1"
    offered = {"allocatable": {"cpu": "4"}}
    found = first_cause(nominate(10, message), old_node(**offered), requests={"nvidia.com/gpu": "1"})
    assert found[0] == "new-node-not-ready"
    assert "device plugin of nvidia.com/gpu run on n1" in found[2]
    full = {"allocatable": {"nvidia.com/gpu": "1"}}
    assert first_cause(nominate(10, message), old_node(**full), requests={"nvidia.com/gpu": "1"}) == ("", "", "")


def test_nomination_that_karpenter_took_back_does_not_count() -> None:
    later = an_event("FailedScheduling", "no instance type satisfied resources", "karpenter", lastTimestamp=at(1))
    assert first_cause(nominate(10), old_node(), later) == ("", "", "")


def test_scale_up_waits_until_a_node_has_come_since() -> None:
    assert first_cause(scale_up(2), old_node())[::2] == ("new-node-awaited", "wait: machines often take some minutes")
    assert first_cause(scale_up(20), old_node())[2].startswith("see why the machine does not join")
    new = a_node("n2")
    new["metadata"]["creationTimestamp"] = at(3)
    assert first_cause(scale_up(20), old_node(), new) == ("", "", "")
    new["status"]["conditions"][0]["lastTransitionTime"] = at(60)  # the object was made anew, the node was there before
    assert first_cause(scale_up(20), old_node(), new)[0] == "new-node-awaited"


@pytest.mark.parametrize(
    ("about", "message", "remedy"),
    [
        ({"kind": "Machine", "name": "worker-a-9kx"}, "error launching instance: vCPU limit of 64", "raise the quota"),
        (
            {"kind": "ConfigMap", "name": "cluster-autoscaler-status"},
            "Nodes added to group worker-a failed to register within 15m",
            "see why a node of group worker-a does not join",
        ),
    ],
)
def test_warning_about_the_machine_or_group_of_a_scale_up_is_the_cause(about: Json, message: str, remedy: str) -> None:
    failed = an_event("FailedCreate", message, "controller", about={**about, "namespace": "machines"})
    failed["lastTimestamp"] = at(4)
    assert first_cause(scale_up(5), old_node(), failed)[2].startswith(remedy)
    failed["lastTimestamp"] = at(9)  # of an earlier scale-up
    assert first_cause(scale_up(5), old_node(), failed)[0] == "new-node-awaited"


def test_failed_scale_up_counts_until_the_next() -> None:
    failed = an_event("FailedScaleUp", "GCE quota exceeded", "cluster-autoscaler", lastTimestamp=at(8))
    assert first_cause(failed, scale_up(9), old_node())[::2] == ("new-node-failed", first_cause(failed, old_node())[2])
    assert first_cause(failed, scale_up(7), old_node())[0] == "new-node-awaited"


@pytest.mark.parametrize(
    ("reason", "component", "message", "remedy"),
    [
        ("NotTriggerScaleUp", "cluster-autoscaler", "1 max node group size reached", "raise the maximum size"),
        ("NotTriggerScaleUp", "cluster-autoscaler", "2 max cluster cpu limit reached", "raise the limit of the whole"),
        ("FailedScheduling", "karpenter", 'types exceed limits for nodepool: "a"', "raise spec.limits of NodePool a"),
        ("NotTriggerScaleUp", "cluster-autoscaler", "2 node(s) had untolerated taint {a: b}", ""),
    ],
)
def test_groups_at_a_limit_are_the_cause_until_one_grows(
    reason: str, component: str, message: str, remedy: str
) -> None:
    refused = an_event(reason, message, component, lastTimestamp=at(2))
    found = first_cause(refused, old_node())
    assert (found[0], found[2][: len(remedy)]) == ("new-node-refused" if remedy else "", remedy)
    assert first_cause(refused, scale_up(1), old_node())[0] == "new-node-awaited"


def test_pool_that_is_selected_and_not_ready_makes_no_node() -> None:
    conditions = [
        {"type": "NodeClassReady", "status": "False", "message": "SubnetsReady=False"},
        {"type": "Ready", "status": "False", "message": "NodeClassReady=False", "lastTransitionTime": at(7)},
    ]
    reference = {"kind": "EC2NodeClass", "name": "private"}
    pool = {
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {"template": {"spec": {"nodeClassRef": reference}}},
        "status": {"conditions": conditions},
    }
    selector = {"karpenter.sh/nodepool": "gpu"}
    pod = a_pod(node="", nodeSelector=selector, status_conditions=[UNSCHEDULABLE])
    first = find_state(pod, a_cluster(pod, pool, old_node()), NOW)["causes"][0]
    assert first["code"] == "new-node-refused"
    assert (
        "NodePool gpu, whose nodes the pod selects, is not ready for 7m (NodeClassReady: SubnetsReady" in first["text"]
    )
    assert "EC2NodeClass private" in first["remedies"][0]["text"]
    conditions[1]["status"] = "True"
    codes = [cause["code"] for cause in find_state(pod, a_cluster(pod, pool, old_node()), NOW)["causes"]]
    assert "new-node-refused" not in codes


@pytest.mark.parametrize(
    ("condition", "code", "words", "advice"),
    [
        (
            {"type": "InfrastructureReady", "reason": "InstanceProvisionFailed", "message": "no capacity in zone a"},
            "new-node-not-ready",
            "has no node for 9m: InstanceProvisionFailed: no capacity in zone a",
            "let the pod and the node group use other zones",
        ),
        (
            {"type": "BootstrapReady", "reason": "WaitingForControlPlaneAvailable", "message": ""},
            "new-node-not-ready",
            "has no node for 9m: WaitingForControlPlaneAvailable",
            "mend what the message names",
        ),
        ({"type": "NodeHealthy"}, "new-node-awaited", "has not joined", "see why the machine does not join"),
    ],
)
def test_conditions_of_a_machine_say_what_no_event_does(condition: Json, code: str, words: str, advice: str) -> None:
    condition |= {"status": "False", "severity": "Error", "lastTransitionTime": at(9)}
    machine: Json = {
        "kind": "Machine",
        "metadata": {"name": "worker-a-x2", "creationTimestamp": at(9)},
        "status": {"conditions": [condition]},
    }
    other: Json = {"kind": "Machine", "metadata": {"name": "worker-b-x", "creationTimestamp": at(5)}, "status": {}}
    found, text, remedy = first_cause(scale_up(10), machine, other, old_node())
    assert (found, words in text, advice in remedy) == (code, True, True)
