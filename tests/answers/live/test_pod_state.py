"""The state that a pod is really in, from its object, its events and the objects that it names."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from herodotus_answers.live.cluster_objects import ClusterObjects
from herodotus_answers.live.codes import CAUSES
from herodotus_answers.live.objects import is_running_well, withdraw_placement
from herodotus_answers.live.pod_facts import describe_elsewhere
from herodotus_answers.live.pods.pod_state import find_state, is_decision_enough
from herodotus_answers.live.pods.pod_timeline import MAX_ENTRIES, build_timeline
from herodotus_answers.live.workloads.deletions import describe_end, list_deletions
from tests.answers.live.clusters import (
    CLAIM_VOLUME,
    INIT_RUNS,
    INIT_WAITS,
    MOUNT,
    NOW,
    OOM,
    OPTIONAL_VOLUME,
    OWNED,
    PROBED,
    READY,
    RESIZE,
    RESIZED,
    SANDBOX,
    SCHEDULED,
    SECRET_VOLUME,
    UNPLACED,
    WITH_INIT,
    Json,
    a_cluster,
    a_lease,
    a_node,
    a_pod,
    an_event,
    at,
    find,
    list_commands,
    runs,
    waits,
)


@pytest.mark.parametrize(
    ("pod", "objects", "state", "cause", "words"),
    [
        (a_pod(status_containerStatuses=waits("ErrImagePull", "denied")), [], "pod-starting", "image-pull", "app:1"),
        (a_pod(status_containerStatuses=waits("ErrImageNeverPull")), [], "pod-starting", "image-never-pull", "Never"),
        (a_pod(status_containerStatuses=waits("InvalidImageName")), [], "pod-starting", "image-invalid", "app:1"),
        (
            a_pod(status_containerStatuses=waits("ContainerCreating")),
            [SANDBOX],
            "pod-starting",
            "sandbox-failed",
            "no address",
        ),
        (a_pod(status_containerStatuses=waits("ContainerCreating")), [], "pod-starting", "kubelet-waits", "no event"),
        (a_pod(volumes=SECRET_VOLUME), [MOUNT], "pod-starting", "secret-missing", "web-tls does not exist"),
        (a_pod(volumes=OPTIONAL_VOLUME), [SANDBOX], "pod-starting", "sandbox-failed", "no address left"),
        (a_pod(volumes=CLAIM_VOLUME), [], "pod-starting", "claim-missing", "PersistentVolumeClaim data"),
        (
            a_pod(status_containerStatuses=waits("CrashLoopBackOff", **OOM)),
            [],
            "pod-failing",
            "out-of-memory",
            "4 restarts",
        ),
        (
            a_pod(
                initContainers=WITH_INIT,
                status_initContainerStatuses=INIT_WAITS,
                status_containerStatuses=waits("PodInitializing"),
            ),
            [SANDBOX],
            "pod-failing",
            "container-crash-loop",
            "init container migrate",
        ),
        (
            a_pod(initContainers=WITH_INIT, status_initContainerStatuses=INIT_RUNS),
            [],
            "pod-starting",
            "init-container-running",
            "runs for 9m",
        ),
        (
            a_pod(phase="Running", containers=PROBED, status_containerStatuses=runs()),
            [an_event("Unhealthy", "Readiness probe failed: refused")],
            "pod-not-ready",
            "probe-readiness",
            "(GET :80/ok): Readiness probe failed: refused (5 times, last 60s ago)",
        ),
        (
            a_pod(phase="Running", containers=PROBED, status_containerStatuses=runs()),
            [],
            "pod-not-ready",
            "container-not-ready",
            "readiness probe",
        ),
        (
            a_pod(
                phase="Running", readinessGates=[{"conditionType": "lb/ok"}], status_containerStatuses=runs(ready=True)
            ),
            [],
            "pod-not-ready",
            "readiness-gate",
            "lb/ok has not been set",
        ),
        (
            a_pod(
                phase="Running",
                containers=RESIZED,
                status_conditions=[SCHEDULED, READY, RESIZE],
                status_containerStatuses=runs(ready=True, allocatedResources={"cpu": "1"}),
            ),
            [],
            "pod-resizing",
            "resize-deferred",
            "wants 3 cpu (container main), has 1 (not enough cpu)",
        ),
        (a_pod(phase="Running"), [a_node("n2")], "pod-node-lost", "node-not-found", "node n1 does not exist"),
        (
            a_pod(phase="Failed", status_reason="Evicted", status_message="The node was low on resource: memory."),
            [],
            "pod-evicted",
            "kubelet-eviction",
            "nothing replaces it",
        ),
        (
            a_pod(phase="Failed", status_reason="OutOfpods", status_message="no room", metadata=OWNED),
            [],
            "pod-rejected",
            "kubelet-rejection",
            "StatefulSet/web; no later pod",
        ),
        (a_pod(phase="Failed", status_reason="NodeShutdown"), [], "pod-failed", "node-shutdown", "NodeShutdown"),
        (
            a_pod(
                phase="Failed", status_containerStatuses=[{"name": "main", "state": {"terminated": {"exitCode": 3}}}]
            ),
            [],
            "pod-failed",
            "container-exit",
            "exit code 3",
        ),
        (
            a_pod(node="", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]),
            [],
            "pod-gated",
            "scheduling-gate",
            "admission",
        ),
        (
            a_pod(node=""),
            [a_lease("kube-scheduler", 0.1)],
            "pod-not-tried",
            "scheduler-behind",
            "30m since it was created",
        ),
        (a_pod(node=""), [a_lease("kube-scheduler", 9)], "pod-not-tried", "scheduler-silent", "seems not to run"),
        (a_pod(node=""), [], "pod-not-tried", "scheduler-silent", "seems not to run"),
        (a_pod(node="", schedulerName="volcan"), [], "pod-not-tried", "scheduler-unknown", "named volcan"),
    ],
)
def test_state_and_first_cause(pod: Json, objects: list[Json], state: str, cause: str, words: str) -> None:
    found = find(pod, *objects)
    assert (found["code"], found["causes"][0]["code"]) == (state, cause)
    assert words in found["headline"], found["headline"]
    assert found["actor"] is not None


def test_scheduler_that_has_not_tried_a_pod_for_minutes_has_to_be_looked_at() -> None:
    lease = a_lease("kube-scheduler", 0.1)
    for minutes, remedies in ((30, 1), (1, 0)):
        causes = find(a_pod(node="", metadata={"creationTimestamp": at(minutes)}), lease)["causes"]
        assert len(causes[0]["remedies"]) == remedies
        assert all(
            each["text"].startswith("see the log of default-scheduler of cp-0") for each in causes[0]["remedies"]
        )


def test_pod_that_runs_well_needs_no_state() -> None:
    pod = a_pod(phase="Running", status_conditions=[SCHEDULED, READY])
    assert is_running_well(pod)
    assert find(pod)["actor"] is None
    for change in (
        {"metadata": pod["metadata"] | {"deletionTimestamp": at(0)}},
        {"metadata": pod["metadata"] | {"annotations": {"kubernetes.io/config.mirror": "1"}}},
        {"status": pod["status"] | {"conditions": [SCHEDULED, READY, RESIZE]}},
        {"status": pod["status"] | {"conditions": [READY]}},  # created with spec.nodeName
    ):
        assert not is_running_well(pod | change)


def test_nothing_is_concluded_from_what_may_not_be_read() -> None:
    """An object that cannot be read is not missing, and a Lease that cannot be read is not gone."""
    state = find(a_pod(volumes=SECRET_VOLUME), forbidden=["secrets", "nodes", "events"])
    assert [cause["code"] for cause in state["causes"]] == ["kubelet-waits"]
    assert {"Secret", "Node", "Event"} <= {*state["unread"]}
    silent = find(a_pod(node=""), forbidden=["leases", "/api/v1/pods"])
    assert "its Lease cannot be read" in silent["causes"][0]["text"]


def test_claim_of_a_pod_created_with_node_waits_for_ever() -> None:
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"storageClassName": "local"}}
    local = {"kind": "StorageClass", "metadata": {"name": "local"}, "volumeBindingMode": "WaitForFirstConsumer"}
    pod = a_pod(volumes=CLAIM_VOLUME, metadata=OWNED)
    state = find(pod, claim, local)
    assert state["causes"][0]["code"] == "created-with-node"
    assert list_commands(state) == [
        "kubectl -n shop patch statefulset web -p"
        ' \'{"spec":{"template":{"spec":{"nodeName":null,"nodeSelector":{"kubernetes.io/hostname":"n1"}}}}}\''
        " && kubectl -n shop delete pod web-0"
    ]
    chosen = claim | {"metadata": {"name": "data", "annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
    assert find(pod, chosen, local)["causes"][0]["code"] == "claim-not-bound"  # a scheduler chose the node


def test_preemptor_waits_for_a_victim_that_does_not_end() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available."}
    pod = a_pod(node="", priority=10, status_nominatedNodeName="n1", status_conditions=[condition])
    deleted = {"name": "low", "namespace": "batch", "deletionTimestamp": at(4.5), "deletionGracePeriodSeconds": 30}
    victim = a_pod(phase="Running", metadata=deleted | {"finalizers": ["example.com/keep"]})
    state = find_state(pod, a_cluster(pod, victim), NOW)
    assert (state["code"], state["causes"][0]["object"]) == ("pod-waits-for-victims", "Pod/batch/low")
    assert "terminating for 5m (grace period of 30s is over): finalizer" in state["causes"][0]["text"]
    assert list_commands(state)[0].startswith("kubectl patch pod low -n batch --type=json")
    equal = victim | {"spec": victim["spec"] | {"priority": 10}}
    assert find_state(pod, a_cluster(pod, equal), NOW)["code"] == "pod-waits-for-node"


@pytest.mark.parametrize(
    ("toleration", "words"),
    [
        ({"operator": "Exists", "tolerationSeconds": 300}, "will be evicted in 3m"),
        ({"operator": "Exists", "tolerationSeconds": 60}, "should have been evicted since 60s"),
        ({"operator": "Exists"}, "never evicted"),
        ({"operator": "Equal", "value": "x"}, "evicted at once"),
    ],
)
def test_eviction_from_a_node_that_does_not_respond(toleration: Json, words: str) -> None:
    key = "node.kubernetes.io/unreachable"
    node = a_node(ready="Unknown", taints=[{"key": key, "effect": "NoExecute", "timeAdded": at(2)}])
    state = find(a_pod(phase="Running", tolerations=[{"key": key, **toleration}]), node)
    assert (state["code"], state["causes"][0]["code"]) == ("pod-node-lost", "node-not-ready")
    assert "may still run" in state["headline"]
    assert words in state["causes"][0]["text"]


def test_terminating_pod_names_who_evicts_it_and_what_keeps_it() -> None:
    deletion = {"deletionTimestamp": at(1), "deletionGracePeriodSeconds": 60, "finalizers": ["a.io/log"]}
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    pod = a_pod(phase="Running", metadata=deletion, status_conditions=[SCHEDULED, target])
    state = find(pod, an_event("Evicted", "SpotInterrupted", "karpenter"), a_node(taints=[]))
    assert [cause["code"] for cause in state["causes"]] == ["finalizer", "evicted-by-api"]
    assert "SpotInterrupted (Event Evicted of karpenter 60s ago)" in state["causes"][-1]["text"]
    assert '"op":"test","path":"/metadata/finalizers/0","value":"a.io/log"' in list_commands(state)[0]


def test_event_about_an_earlier_pod_of_the_name_does_not_count() -> None:
    earlier = an_event("FailedMount", "old", about={"uid": "u0"})
    assert find(a_pod(), earlier)["causes"][0]["code"] == "kubelet-waits"


def test_probe_of_a_port_that_the_container_does_not_declare_says_so() -> None:
    probe = {"httpGet": {"path": "/ready", "port": 8081}}
    containers = [{"name": "main", "image": "app:1", "ports": [{"containerPort": 8080}], "readinessProbe": probe}]
    pod = a_pod(phase="Running", containers=containers, status_containerStatuses=runs())
    state = find(pod, an_event("Unhealthy", "Readiness probe failed: connect: connection refused"))
    assert "(the container declares port 8080, not 8081)" in state["causes"][0]["remedies"][0]["text"]


def test_nomination_for_a_node_that_is_gone_is_told() -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no cpu"}
    state = find(a_pod(node="", status_conditions=[refused], status_nominatedNodeName="n9"), a_node("n1"))
    assert [cause["code"] for cause in state["causes"]] == ["no-node-found", "nominated-node-missing"]
    assert "n9, which does not exist" in state["causes"][1]["text"]


REFUSED_LONG_AGO = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient cpu.",
    "lastTransitionTime": at(79),
}


def test_the_time_of_a_condition_is_not_presented_as_that_of_the_last_attempt() -> None:
    """The scheduler changes the message with each attempt, and the time only with the status."""
    event = an_event("FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.", lastTimestamp=at(4))
    pod = a_pod(node="", status_conditions=[REFUSED_LONG_AGO])
    state = find(pod, event)
    assert state["headline"] == (
        "Pending: waits for a node. Last attempt: default-scheduler: 0/1 nodes are available: 1 Insufficient cpu."
    )
    assert state["causes"][0]["at"] == at(79)  # since when no attempt has found a node
    (of_event,) = find(a_pod(node=""), event)["causes"]
    assert of_event["text"].startswith("default-scheduler 4m ago: 0/1 nodes")
    assert of_event["at"] == at(4)
    (became,) = [entry for entry in build_timeline(pod, a_cluster(pod)) if "PodScheduled" in entry["text"]]
    assert became["text"].startswith("PodScheduled became False (now: Unschedulable: 0/1 nodes are available")
    other = a_pod(node="", metadata={"name": "other"}, status_conditions=[REFUSED_LONG_AGO])
    (behind,) = find(a_pod(node=""), other, forbidden=["leases/kube-scheduler"])["causes"]
    assert behind["text"].startswith(
        "default-scheduler has tried other pods (last change of PodScheduled 79m ago), and not this one"
    )


def test_misspelled_scheduler_is_corrected_for_the_owner() -> None:
    state = find(a_pod(node="", schedulerName="default-schedular", metadata=OWNED), a_lease("kube-scheduler", 0.1))
    assert list_commands(state) == [
        "kubectl -n shop patch statefulset web -p"
        ' \'{"spec":{"template":{"spec":{"schedulerName":"default-scheduler"}}}}\''
        " && kubectl -n shop delete pod web-0"
    ]


def test_record_of_an_attempt_outweighs_a_pod_without_a_trace_of_it() -> None:
    """A pod that is being bound has no condition yet, and one of a dry run never gets any."""
    state = find(a_pod(node=""), a_lease("kube-scheduler", 0.1))
    attempt = {"source": "scheduler", "podCreatedAt": at(30)}
    answer = {"kind": "PodExplanation", "attempt": attempt, "outcome": {"node": "n1"}}
    assert is_decision_enough(state, answer, NOW)
    assert not is_decision_enough(state, answer | {"attempt": attempt | {"source": "evaluated"}}, NOW)


def a_member(name: str, **parts: Any) -> Json:
    return a_pod(node="", schedulingGroup={"podGroupName": "ring"}, metadata={"name": name, "uid": name}, **parts)


def test_pod_whose_group_waits_for_a_gated_and_an_untried_pod_names_both() -> None:
    policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    group = {"kind": "PodGroup", "metadata": {"name": "ring", "namespace": "shop"}, "spec": policy}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "waiting"}
    pod = a_member("web-0", status_conditions=[refused])
    gated = a_member("ring-1", schedulingGates=[{"name": "example.com/licence"}])
    state = find(pod, group, gated, a_member("ring-2"))
    assert state["causes"][0]["code"] == "pod-group-waits"
    assert state["headline"] == (
        "Pending: waits for a node. PodGroup ring waits until 3 of its 3 pods can have a node together: ring-1 waits"
        " for its scheduling gates (example.com/licence); ring-2 was not tried yet."
    )
    answer = {"kind": "PodExplanation", "attempt": {"source": "scheduler"}, "outcome": {"node": "n1"}}
    assert not is_decision_enough(state, answer, NOW)


def test_timeline_goes_from_the_owner_to_the_end_and_is_bounded() -> None:
    owner = {"kind": "StatefulSet", "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": at(90)}}
    about = {"kind": "StatefulSet", "name": "web"}
    events = [
        an_event(
            "SuccessfulCreate", "create Pod web-0 successful", "statefulset-controller", about=about, type="Normal"
        ),
        an_event(
            "SuccessfulCreate", "create Pod web-1 successful", "statefulset-controller", about=about, type="Normal"
        ),
        an_event("BackOff", "back-off", lastTimestamp=at(3)),
    ]
    deletion = {"deletionTimestamp": at(0), "deletionGracePeriodSeconds": 30}
    pod = a_pod(metadata=OWNED | deletion, status_containerStatuses=waits("CrashLoopBackOff", **OOM))
    attempt = {
        "startedAt": at(29),
        "number": 1,
        "state": "Unschedulable",
        "node": None,
        "message": "0/1",
        "profile": "p",
    }
    entries = build_timeline(pod, a_cluster(pod, owner, *events), [attempt])
    assert [entry["text"].partition(" (")[0] for entry in entries] == [
        "StatefulSet/web created",
        "pod created",
        "attempt 1: Unschedulable: 0/1",
        "back-off",
        "container main ended with exit code 137",
        "StatefulSet/web: create Pod web-0 successful",
        "deletion asked for, with a grace period of 30s",
    ]
    many = [attempt | {"message": str(number)} for number in range(500)]
    assert len(build_timeline(pod, a_cluster(pod), many)) == MAX_ENTRIES
    again = [attempt | {"startedAt": at(minutes), "number": 30 - minutes} for minutes in range(27)]
    texts = [entry["text"] for entry in build_timeline(a_pod(), a_cluster(pod), [*again, attempt])]
    assert texts == ["pod created", "attempt 1: Unschedulable: 0/1 (28 times in 29m)"]


def test_timeline_folds_what_is_said_again_and_says_how_often_and_by_whom() -> None:
    message = "0/1 nodes are available: 1 Insufficient cpu"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod = a_pod(node="", status_conditions=[condition | {"lastTransitionTime": at(29)}])
    event = an_event("FailedScheduling", message, "default-scheduler", lastTimestamp=at(27), count=2)
    other = an_event("FailedScheduling", "0/1 nodes: too many pods", "default-scheduler", lastTimestamp=at(26), count=1)
    attempt = {"startedAt": at(28), "number": 1, "state": "Unschedulable", "message": message, "profile": "p"}
    bound = {"startedAt": at(24), "number": 3, "state": "Bound", "node": "n1", "message": "", "profile": "p"}
    late = an_event("FailedScheduling", "0/1 nodes: too many pods", "default-scheduler", lastTimestamp=at(23), count=1)
    entries = build_timeline(pod, a_cluster(pod, event, other, late), [attempt, bound])
    often = "(2 times in 2m; also record of p, Event FailedScheduling of default-scheduler)"
    assert [entry["text"] for entry in entries] == [
        "pod created",
        f"PodScheduled became False (now: Unschedulable: {message}) {often}",
        "0/1 nodes: too many pods",
        "attempt 3: Bound on n1",
        "the same message",
    ]
    assert [entry["at"] for entry in entries][1:] == [at(29), at(26), at(24), at(23)]


def test_container_without_a_memory_limit_did_not_reach_one() -> None:
    state = find(a_pod(status_containerStatuses=waits("CrashLoopBackOff", **OOM)))
    assert "memory for pods on n1 ran out; it has no memory limit" in state["headline"]
    assert "request the memory that container main needs" in state["causes"][0]["remedies"][0]["text"]
    limited = [{"name": "main", "image": "app:1", "resources": {"limits": {"memory": "1Gi"}}}]
    state = find(a_pod(containers=limited, status_containerStatuses=waits("CrashLoopBackOff", **OOM)))
    assert "it reached its memory limit" in state["headline"]
    of_pod = {"limits": {"memory": "2Gi"}}
    state = find(a_pod(resources=of_pod, status_containerStatuses=waits("CrashLoopBackOff", **OOM)))
    assert "limit of the pod, now 2Gi" in state["causes"][0]["remedies"][0]["text"]


@pytest.mark.parametrize(("message", "words"), [("no role_id", "says at its end: no role_id"), ("", "what the log of")])
def test_end_without_a_known_remedy_asks_for_what_the_program_says(message: str, words: str) -> None:
    end = {"terminated": {"exitCode": 2, "reason": "Error", "message": message}}
    crashing = find(a_pod(status_containerStatuses=waits("CrashLoopBackOff", lastState=end)))
    failed = find(a_pod(phase="Failed", status_containerStatuses=[{"name": "main", "state": end}]))
    for state in (crashing, failed):
        assert words in state["causes"][0]["remedies"][0]["text"]


def test_volume_in_a_message_is_named_by_its_claim() -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"volumeName": "pvc-9"},
        "status": {"phase": "Bound"},
    }
    pod = a_pod(volumes=CLAIM_VOLUME, status_containerStatuses=waits("ContainerCreating"))
    lost = 'AttachVolume.Attach failed for volume "pvc-9" : rpc error: code = NotFound desc = Volume "v" not found'
    state = find(pod, claim, an_event("FailedAttachVolume", lost))
    assert "volume pvc-9 of claim data cannot be attached" in state["headline"]
    assert state["causes"][0]["object"] == "PersistentVolumeClaim/data"


def test_end_of_a_wait_for_volumes_counts_if_it_says_why() -> None:
    given_up = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process "
    why = given_up + "volumes=[data]: volume data has volumeMode Filesystem, but is specified in volumeDevices"
    pod = a_pod(volumes=[{"name": "data", "emptyDir": {}}], status_containerStatuses=waits("ContainerCreating"))
    state = find(pod, an_event("FailedMount", why))
    assert "volume data cannot be attached or mounted: volume data has volumeMode" in state["headline"]
    timed_out = an_event("FailedMount", given_up + "volumes=[]: context deadline exceeded", lastTimestamp=at(0.5))
    state = find(pod, an_event("FailedMount", 'MountVolume.SetUp failed for volume "data" : no such host'), timed_out)
    assert "no such host" in state["headline"]


MOUNT_FAILURE = 'MountVolume.SetUp failed for volume "{}" : {}'


def test_each_volume_that_fails_is_a_cause() -> None:
    volumes: list[Json] = [{"name": name, "emptyDir": {}} for name in ("conf", "data")]
    pod = a_pod(volumes=volumes, status_containerStatuses=waits("ContainerCreating"))
    first = an_event("FailedMount", MOUNT_FAILURE.format("conf", "stale file handle"), lastTimestamp=at(9))
    second = an_event("FailedMount", MOUNT_FAILURE.format("data", "words that nobody knows"))
    causes = find(pod, first, second)["causes"]
    assert [cause["text"].partition(" cannot")[0] for cause in causes] == ["volume data", "volume conf"]
    assert "see the log of the kubelet of n1" in causes[0]["remedies"][0]["text"]


@pytest.mark.parametrize(
    ("later", "is_over"),
    [
        (an_event("SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "data"', type="Normal"), True),
        (an_event("SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "conf"', type="Normal"), False),
        (an_event("FailedMount", MOUNT_FAILURE.format("data", "no such host")), True),
        (an_event("FailedMount", MOUNT_FAILURE.format("conf", "no such host")), False),
        (an_event("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[data]: timed out"), False),
        (an_event("FailedCreatePodSandBox", "words that nobody knows"), True),
        (an_event("NetworkNotReady", "network is not ready"), False),
        (an_event("Pulling", 'Pulling image "app:1"', type="Normal"), True),
    ],
)
def test_failure_is_over_once_a_later_step_of_the_start_is_reported(later: Json, is_over: bool) -> None:
    volumes: list[Json] = [{"name": name, "emptyDir": {}} for name in ("conf", "data")]
    pod = a_pod(volumes=volumes, status_containerStatuses=waits("ContainerCreating"))
    failed = an_event("FailedAttachVolume", 'AttachVolume.Attach failed for volume "data" : no', lastTimestamp=at(9))
    texts = [cause["text"] for cause in find(pod, failed, later)["causes"]]
    assert any("AttachVolume.Attach failed" in text for text in texts) is not is_over


@pytest.mark.parametrize(
    ("reason", "where"), [("FailedAttachVolume", "controller of csi.x"), ("FailedMount", "csi.x on n1")]
)
def test_driver_is_named_whose_words_nobody_knows(reason: str, where: str) -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"volumeName": "pvc-9"},
        "status": {"phase": "Bound"},
    }
    volume = {"kind": "PersistentVolume", "metadata": {"name": "pvc-9"}, "spec": {"csi": {"driver": "csi.x"}}}
    pod = a_pod(volumes=CLAIM_VOLUME, status_containerStatuses=waits("ContainerCreating"))
    (cause,) = find(pod, claim, volume, an_event(reason, 'It failed for volume "pvc-9" : strange words'))["causes"]
    assert where in cause["remedies"][0]["text"]


@pytest.mark.parametrize(
    ("api", "is_maker"), [("external-secrets.io/v1", True), ("apps/v1", False), ("networking.k8s.io/v1", False)]
)
def test_what_may_make_a_missing_secret_is_heard(api: str, is_maker: bool) -> None:
    pod = a_pod(status_containerStatuses=waits("CreateContainerConfigError", 'secret "db" not found'))
    pod["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "db"}}]
    event = an_event("UpdateFailed", "access denied", about={"kind": "Maker", "name": "db", "apiVersion": api})
    state = find(pod, event)
    assert ("Maker/db, which may be what makes it, reports UpdateFailed" in state["headline"]) is is_maker
    remedies = [remedy["text"] for cause in state["causes"] for remedy in cause["remedies"]]
    assert len(remedies) == 1  # what the kubelet says adds none
    assert ("mend what Maker/db reports" in remedies[0]) is is_maker


def test_an_event_that_does_not_name_its_kind_makes_nothing() -> None:
    pod = a_pod(status_containerStatuses=waits("CreateContainerConfigError", 'secret "db" not found'))
    pod["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "db"}}]
    event = an_event("UpdateFailed", "access denied", about={"kind": "", "name": "db", "apiVersion": "x.io/v1"})
    assert "may be what makes it" not in find(pod, event)["headline"]


@pytest.mark.parametrize(("unready_since", "first"), [(2, "container-restarted"), (20, "probe-readiness")])
def test_restart_that_ended_the_readiness_is_the_first_cause(unready_since: float, first: str) -> None:
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": at(unready_since)}
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": at(3)}}
    statuses = runs(lastState=last, restartCount=1)
    pod = a_pod(phase="Running", status_conditions=[SCHEDULED, unready], status_containerStatuses=statuses)
    causes = find(pod, an_event("Unhealthy", "Readiness probe failed: refused"))["causes"]
    assert {cause["code"] for cause in causes} == {"container-restarted", "probe-readiness"}
    assert causes[0]["code"] == first


def _a_job(name: str, started: float, condition: str) -> Json:
    owner = {"kind": "CronJob", "name": "sync", "controller": True}
    status = {"startTime": at(started), "conditions": [{"type": condition, "status": "True"}]}
    meta = {"name": name, "namespace": "shop", "ownerReferences": [owner]}
    return {"kind": "Job", "metadata": meta, "spec": {}, "status": status}


@pytest.mark.parametrize(
    ("jobs", "words", "is_advised"),
    [
        ([_a_job("sync-1", 60, "Complete")], "Job/sync-1 has completed since, so", False),
        (
            [_a_job("sync-1", 60, "Failed"), _a_job("sync-2", 5, "Complete")],
            "Job/sync-2 of CronJob/sync has comp",
            True,
        ),
        ([_a_job("sync-1", 60, "Failed"), _a_job("sync-0", 90, "Complete")], "no later pod of it is known", True),
    ],
)
def test_failed_pod_says_whether_its_job_or_a_later_run_has_completed(
    jobs: list[Json], words: str, is_advised: bool
) -> None:
    owner = {"ownerReferences": [{"kind": "Job", "name": "sync-1", "controller": True}]}
    statuses = [{"name": "main", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]
    state = find(a_pod(phase="Failed", metadata=owner, status_containerStatuses=statuses), *jobs)
    assert words in state["headline"]
    assert bool(state["causes"][0]["remedies"]) is is_advised


def test_silence_of_events_that_may_not_be_read_says_nothing() -> None:
    not_set_up = {"type": "PodReadyToStartContainers", "status": "False"}
    pod = a_pod(
        volumes=SECRET_VOLUME,
        status_conditions=[SCHEDULED, not_set_up],
        status_containerStatuses=waits("ContainerCreating"),
    )
    state = find(pod, forbidden=("events", "secrets"))
    assert "no event" not in state["headline"]
    assert "volumes (tls) come first" in state["headline"]
    assert list_commands(state) == ["kubectl get events -n shop --sort-by=.lastTimestamp"]
    unready = find(a_pod(phase="Running", status_containerStatuses=runs()), forbidden=("events",))
    assert "no event" not in unready["headline"]
    assert "no event" not in find(a_pod(node=""), forbidden=("events",))["headline"]


@pytest.mark.parametrize(
    ("kind", "spec", "is_kept"),
    [
        ("StatefulSet", {}, True),
        ("StatefulSet", {"podManagementPolicy": "Parallel"}, False),
        ("StatefulSet", {"updateStrategy": {"rollingUpdate": {"partition": 1}}}, False),
        ("StatefulSet", {"podManagementPolicy": "Parallel", "updateStrategy": {"type": "OnDelete"}}, True),
        ("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}, True),
        ("DaemonSet", {}, False),
    ],
)
def test_pod_that_its_owner_keeps_at_an_earlier_template_is_deleted(kind: str, spec: Json, *, is_kept: bool) -> None:
    labels = {"controller-revision-hash": "web-1", "pod-template-generation": "1"}
    owned = {"ownerReferences": [{"kind": kind, "name": "web", "controller": True}], "labels": labels}
    pod = a_pod(metadata=owned, status_containerStatuses=waits("ErrImagePull", "not found"))
    annotations = {"deprecated.daemonset.template.generation": "2"}
    owner = {
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
        "spec": spec,
        "status": {"updateRevision": "web-2"},
    }
    state = find(pod, owner)
    assert state["causes"][0]["code"] == "image-pull"
    assert (list_commands(state)[:1] == ["kubectl delete pod web-0 -n shop"]) == is_kept
    assert bool(state["causes"][0]["remedies"]) != is_kept  # the template may be mended already
    waiting = find(a_pod(node="", metadata=owned, status_conditions=[UNPLACED]), owner)
    assert ("earlier-template" in [cause["code"] for cause in waiting["causes"]]) == is_kept


@pytest.mark.parametrize("newest", ["data", "other"])
def test_what_stops_a_pod_of_an_earlier_template_comes_first(newest: str) -> None:
    owned = {"ownerReferences": OWNED["ownerReferences"], "labels": {"controller-revision-hash": "web-1"}}
    pod = a_pod(node="", metadata=owned, volumes=CLAIM_VOLUME, status_conditions=[UNPLACED])
    claims = [{"name": "data", "persistentVolumeClaim": {"claimName": newest}}]
    owner = {
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": {"spec": {"volumes": claims}}},
        "status": {"updateRevision": "web-2"},
    }
    first, second, *_ = find(pod, owner)["causes"]
    assert (first["code"], second["code"]) == ("claim-missing", "earlier-template")
    assert bool(first["remedies"]) == (newest == "data")  # another template may mend what it does not share
    assert second["remedies"][0]["command"] == "kubectl delete pod web-0 -n shop"


@pytest.mark.parametrize(
    ("image", "node", "says"),
    [
        ("app:1", "n2", "; the same image runs on n2 (web-1 started 20m ago)"),
        ("app:1", "n1", "; the same image runs on n1 too (web-1 started 20m ago)"),
        ("app:2", "n2", ""),
    ],
)
def test_image_that_cannot_be_pulled_here_may_run_elsewhere(image: str, node: str, says: str) -> None:
    pod = a_pod(status_containerStatuses=waits("ImagePullBackOff", "i/o timeout"))
    other = a_pod(node=node, phase="Running", metadata={"name": "web-1", "uid": "u2"}, status_containerStatuses=runs())
    other["spec"]["containers"] = [{"name": "main", "image": image}]
    assert find(pod, other)["causes"][0]["text"].partition("timeout)")[2] == says
    silent = find(pod, other, forbidden=("pods",))
    assert (silent["causes"][0]["text"].partition("timeout)")[2], silent["unread"]) == ("", [])


@pytest.mark.parametrize(
    ("times", "first", "minutes", "code"),
    [(40, 31, 1, "sandbox-remade"), (1, 1, 1, ""), (40, 150, 90, ""), (3, 3 * 1440, 1, "")],
)
def test_sandbox_that_is_made_anew_again_and_again_ends_the_containers(
    times: int, first: float, minutes: float, code: str
) -> None:
    span: Json = {"count": times, "firstTimestamp": at(first), "lastTimestamp": at(minutes)}
    event = an_event("SandboxChanged", "Pod sandbox changed", type="Normal", **span)
    crashes = waits("CrashLoopBackOff", lastState={"terminated": {"exitCode": 2, "finishedAt": at(3)}})
    state = find(a_pod(phase="Running", status_containerStatuses=crashes), event)
    assert state["causes"][0]["code"] == (code or "container-crash-loop")
    assert ("(40 times in 30m, last 60s ago)" in state["causes"][0]["text"]) == bool(code)
    assert bool(state["causes"][-1]["remedies"]) != bool(code)


def test_volume_attachment_says_why_a_wait_for_volumes_ended() -> None:
    gave_up = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data], {}".format(
        "failed to process volumes=[]: timed out waiting for the condition"
    )
    pod = a_pod(volumes=CLAIM_VOLUME, status_containerStatuses=waits("ContainerCreating"))
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"volumeName": "pv-1"},
        "status": {"phase": "Bound"},
    }

    def attach(node: str) -> Json:
        error = {"time": at(1), "message": "quota of disks exceeded"}
        spec = {"attacher": "csi.example", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}}
        metadata = {"name": f"csi-{node}"}
        return {"kind": "VolumeAttachment", "metadata": metadata, "spec": spec, "status": {"attachError": error}}

    here = find(pod, claim, an_event("FailedMount", gave_up), attach("n1"))
    assert "csi.example reports 60s ago: quota of disks exceeded" in here["headline"]
    elsewhere = find(pod, claim, an_event("FailedMount", gave_up), attach("n2"))
    assert "quota of disks" not in elsewhere["headline"]


def test_readiness_before_the_start_of_a_container_is_of_an_earlier_run() -> None:
    pod = a_pod(
        phase="Running", containers=PROBED, status_containerStatuses=runs(state={"running": {"startedAt": at(2)}})
    )
    old = an_event("Unhealthy", "Readiness probe failed: connection refused", lastTimestamp=at(9))
    assert "connection refused" not in find(pod, old)["headline"]
    assert "connection refused" in find(pod, old | {"lastTimestamp": at(1)})["headline"]


def test_topology_key_that_no_node_has_is_told_with_the_one_that_is_much_like_it() -> None:
    node = a_node()
    node["metadata"]["labels"] = {"topology.kubernetes.io/zone": "a", "topology.example.com/region": "r"}

    def spread(key: str) -> list[str]:
        constraint = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        pod = a_pod(node="", topologySpreadConstraints=[constraint], status_conditions=[UNPLACED])
        return [cause["code"] for cause in find(pod, node)["causes"]]

    assert "topology-key-unknown" in spread("topology.kubernetes.io/zones")
    assert "topology-key-unknown" not in spread("topology.kubernetes.io/zone")
    assert "topology-key-unknown" not in spread("example.com/rack")
    assert "topology-key-unknown" not in spread("topology.kubernetes.io/region")
    assert "topology-key-unknown" not in spread("topology.example.com/zone")


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (0, ""),
        (1, " (namespace n0 has one of that name, which only pods of its own namespace can use)"),
        (2, " (namespaces n0, n1 have one of that name, which only pods of its own namespace can use)"),
        (
            9,
            " (namespaces n0, n1, n2, n3 and others have one of that name, which only pods of its own namespace"
            " can use)",
        ),
    ],
)
def test_a_few_namespaces_are_read_that_have_an_object_of_a_name(there: int, words: str) -> None:
    def fetch(path: str) -> tuple[int, Json]:
        query = dict(parse_qsl(urlsplit(path).query))
        assert query["fieldSelector"] == "metadata.name=settings"
        read = range(min(there, int(query["limit"])))
        return 200, {"items": [{"metadata": {"name": "settings", "namespace": f"n{i}"}} for i in read]}

    assert describe_elsewhere("ConfigMap", "settings", ClusterObjects(fetch)) == words


def test_of_labels_that_no_node_has_those_of_operators_are_told_and_not_all_that_a_user_writes() -> None:
    def find_unknown(*keys: str) -> list[str]:
        pod = a_pod(node="", nodeSelector=dict.fromkeys(keys, "x"), status_conditions=[UNPLACED])
        causes = find(pod, a_node())["causes"]
        return [cause["text"] for cause in causes if cause["code"] == "node-label-unknown"]

    assert find_unknown("disk", "agentpool", "example.com/disk") == [
        "no node has the label disk, and the pod's node selector wants disk=x"
    ]
    assert len(find_unknown(*(f"disk-{number}" for number in range(100)))) < 10


@pytest.mark.parametrize(
    ("node", "tolerations", "words"),
    [
        (a_node(unschedulable=True), [], "n1 is cordoned"),
        (a_node(ready="False"), [], "n1 is not ready"),
        (a_node(taints=[{"key": "repair", "effect": "NoSchedule"}]), [], "taint repair:NoSchedule"),
        (a_node(taints=[{"key": "repair", "effect": "NoSchedule"}]), [{"operator": "Exists"}], ""),
        (a_node(), [], ""),
    ],
)
def test_victim_on_a_node_that_takes_no_pods_makes_no_room(node: Json, tolerations: list[Json], words: str) -> None:
    pod = a_pod(node="", priority=10, status_nominatedNodeName="n1", tolerations=tolerations)
    deleted = {"name": "low", "deletionTimestamp": at(4.5), "finalizers": ["example.com/keep"]}
    victim = a_pod(phase="Running", metadata=deleted)
    state = find_state(pod, a_cluster(pod, victim, node), NOW)
    assert state["code"] == ("pod-waits-for-node" if words else "pod-waits-for-victims")
    assert words in state["headline"]
    assert any("patch pod low" in command for command in list_commands(state)) == (not words)


def test_image_that_is_being_pulled_is_what_the_kubelet_waits_for() -> None:
    pod = a_pod(status_containerStatuses=waits("ContainerCreating"))
    pulling = an_event("Pulling", 'Pulling image "app:1"', type="Normal", firstTimestamp=at(7))
    assert "n1 is still pulling an image for 7m" in find(pod, pulling)["headline"]
    pulled = an_event("Pulled", "Successfully pulled", type="Normal", lastTimestamp=at(0))
    assert "no event reports an error" in find(pod, pulling, pulled)["headline"]


def test_claim_for_one_pod_names_the_pod_that_uses_it_on_the_node() -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"volumeName": "pvc-9", "accessModes": ["ReadWriteOncePod"]},
        "status": {"phase": "Bound"},
    }
    user = a_pod(phase="Running", metadata={"name": "old-0", "uid": "u2"}, volumes=CLAIM_VOLUME)
    used = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
    event = an_event("FailedMount", f'MountVolume.SetUp failed for volume "pvc-9" : {used}')
    volume = {"kind": "PersistentVolume", "metadata": {"name": "pvc-9"}, "spec": {}}
    pod = a_pod(volumes=CLAIM_VOLUME, status_containerStatuses=waits("ContainerCreating"))
    state = find(pod, claim, volume, user, event)
    assert [cause["code"] for cause in state["causes"]] == ["claim-used-by-pod", "volume-failed"]
    assert "pod old-0 on n1 uses it" in state["headline"]
    assert not state["causes"][1]["remedies"]


def test_volume_is_of_one_of_the_claims_even_if_none_may_be_read() -> None:
    event = an_event("FailedMount", 'MountVolume.MountDevice failed for volume "pvc-9" : deadline exceeded')
    pod = a_pod(volumes=CLAIM_VOLUME, status_containerStatuses=waits("ContainerCreating"))
    assert "volume pvc-9 of claim data" in find(pod, event, forbidden=("persistentvolumeclaims",))["headline"]


def test_containers_that_ended_with_their_pod_are_not_to_be_mended() -> None:
    end = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "The container could not be located"}
    statuses = [{"name": "main", "state": {"terminated": end}}]
    state = find(a_pod(phase="Failed", status_reason="Evicted", status_containerStatuses=statuses))
    assert [bool(cause["remedies"]) for cause in state["causes"]] == [True, False]
    (remedy,) = find(a_pod(phase="Failed", status_containerStatuses=statuses))["causes"][0]["remedies"]
    assert "its program need not change" in remedy["text"]


@pytest.mark.parametrize(("code", "words"), [(139, "139 (Error, SIGSEGV)"), (143, "SIGTERM"), (1, "1 (Error)")])
def test_exit_code_of_a_signal_names_it(code: int, words: str) -> None:
    end = {"terminated": {"exitCode": code, "reason": "Error"}}
    assert words in find(a_pod(status_containerStatuses=waits("CrashLoopBackOff", lastState=end)))["headline"]


def test_probe_without_an_event_is_named_with_what_it_asks() -> None:
    state = find(a_pod(phase="Running", containers=PROBED, status_containerStatuses=runs()), forbidden=("events",))
    assert "its readiness probe (GET :80/ok) has not succeeded, and the events" in state["headline"]
    assert state["causes"][0]["remedies"][0]["text"].startswith("make the program answer GET :80/ok within 1s")


@pytest.mark.parametrize(
    ("policy", "advice"), [(None, "OnRootMismatch in securityContext"), ("OnRootMismatch", "skips")]
)
def test_a_change_of_the_owner_of_all_files_is_told_with_its_policy(policy: str | None, advice: str) -> None:
    message = "Setting volume ownership for 5d0c/volumes/kubernetes.io~csi/pvc-1/mount, processed 24 files."
    context = {"fsGroup": 1000} | ({"fsGroupChangePolicy": policy} if policy else {})
    pod = a_pod(securityContext=context, volumes=CLAIM_VOLUME, status_containerStatuses=waits("ContainerCreating"))
    claim: Json = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"}}
    claim |= {"spec": {"volumeName": "pvc-1"}, "status": {"phase": "Bound"}}
    (cause,) = find(pod, claim, an_event("VolumePermissionChangeInProgress", message))["causes"]
    assert (cause["code"], cause["object"]) == ("volume-ownership", "PersistentVolumeClaim/data")
    assert "volume pvc-1 of claim data to fsGroup 1000" in cause["text"]
    assert advice in cause["remedies"][0]["text"]


def test_a_unit_that_is_a_slip_is_told_where_a_container_ends_is_evicted_or_waits() -> None:
    low = {"name": "main", "image": "app:1", "resources": {"limits": {"memory": "512m", "ephemeral-storage": "500m"}}}
    for reason in ("OOMKilled", "StartError"):
        end = {"exitCode": 128, "reason": reason, "message": "container init was OOM-killed (memory limit too low?)"}
        statuses = waits("CrashLoopBackOff", lastState={"terminated": end})
        (cause,) = find(a_pod(containers=[low], status_containerStatuses=statuses))["causes"]
        assert "now 512m (512m is 0.512 bytes: m means thousandths; 512Mi may have" in cause["remedies"][0]["text"]
    message = 'Container main exceeded its local ephemeral storage limit "500m". '
    evicted = a_pod(phase="Failed", containers=[low], status_reason="Evicted", status_message=message)
    assert "of container main in the pod to 500Mi" in find(evicted)["causes"][0]["remedies"][0]["text"]
    high = {**low, "resources": {"requests": {"cpu": "500"}}}
    node = a_node()
    node["status"]["allocatable"] = {"cpu": "8"}
    refused = [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]
    (cause, _) = find(a_pod(node="", containers=[high], status_conditions=refused), node)["causes"]
    assert (cause["code"], cause["remedies"][0]["text"].split(" for ")[0]) == ("unit-slip", "request 500m cpu")


# --- what a kubelet says of a pod that it rejects or cannot end -----------------------------------------------------


def test_a_rejected_pod_is_told_what_stands_against_it_on_its_node() -> None:
    ports = [{"containerPort": 80, "hostPort": 9999}]
    resources = {"requests": {"cpu": "2"}}
    spec: Json = {"containers": [{"name": "main", "image": "app:1", "ports": ports, "resources": resources}]}
    holder = a_pod(phase="Running", metadata={"name": "proxy", "uid": "u2"}, **spec)
    other = a_pod(phase="Running", metadata={"name": "idle", "uid": "u3"})
    gone = a_pod(phase="Succeeded", metadata={"name": "gone", "uid": "u4"}, **spec)
    node = a_node(taints=[{"key": "dedicated", "value": "db", "effect": "NoExecute"}])
    node["status"]["allocatable"] = {"cpu": "2"}
    told = {
        "NodePorts": "; shop/proxy holds host port 9999/TCP on n1 now.",
        "OutOfcpu": "; shop/proxy holds cpu on n1 now.",
        "TaintToleration": "; n1 has dedicated=db:NoExecute now, which the pod does not tolerate.",
    }
    for reason, words in told.items():
        message = f"Predicate {reason} failed: no"
        pod = a_pod(phase="Failed", status_reason=reason, status_message=f"Pod was rejected: {message}", **spec)
        state = find_state(pod, a_cluster(pod, holder, other, gone, node, an_event(reason, message)), NOW)
        assert words in state["headline"]
        assert state["headline"].count(message) == 1
        assert ("end shop/proxy" in state["causes"][0]["remedies"][0]["text"]) is (reason == "NodePorts")


@pytest.mark.parametrize(
    ("reason", "message", "advice"),
    [
        ("FailedKillPod", 'plugin type="calico" failed (delete): connection is unauthorized', "valid credentials"),
        ("FailedKillPod", "failed to stop container: context deadline exceeded", "container runtime of n1"),
        ("FailedUnMount", "UnmountVolume.TearDown failed: device is busy", "still uses the volume"),
    ],
)
def test_a_pod_that_the_kubelet_cannot_end_keeps_its_finalizer(reason: str, message: str, advice: str) -> None:
    owner = {"kind": "Job", "name": "web", "controller": True}
    deleted = {"deletionTimestamp": at(3), "finalizers": ["batch.kubernetes.io/job-tracking"]}
    pod = a_pod(phase="Running", metadata={**deleted, "ownerReferences": [owner]})
    job = {"kind": "Job", "metadata": {"name": "web", "namespace": "shop"}}
    causes = find_state(pod, a_cluster(pod, job, an_event(reason, message)), NOW)["causes"]
    assert [cause["code"] for cause in causes] == ["kill-failed", "finalizer"]
    assert advice in causes[0]["remedies"][0]["text"]
    assert causes[1]["remedies"] == []
    earlier = an_event(reason, message, lastTimestamp=at(20))
    (only,) = find_state(pod, a_cluster(pod, earlier), NOW)["causes"]
    assert only["code"] == "finalizer"
    assert "remove the finalizer" in only["remedies"][0]["text"]  # its Job is gone


@pytest.mark.parametrize(
    "key", ["failure-domain.beta.kubernetes.io/zone", "kubernetes.io/hostname", "example.com/rack"]
)
def test_the_fix_that_loses_what_a_volume_holds_is_the_last(key: str) -> None:
    node = a_node("n2")
    node["metadata"]["labels"] = {"topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": "n2"}
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": ["a"]}]}]
    volume = {"kind": "PersistentVolume", "metadata": {"name": "pv-1"}}
    volume["spec"] = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"}}
    claim |= {"spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}}
    pod = a_pod(node="", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]
    cause = find_state(pod, a_cluster(node, volume, claim), NOW)["causes"][0]
    assert cause["code"] == "volume-unreachable"
    *others, last = (remedy["text"] for remedy in cause["remedies"])
    assert "is lost" in last
    assert others
    assert not any("is lost" in text for text in others)
    assert ("label n2 failure-domain.beta.kubernetes.io/zone=a" in others[0]) == key.startswith("failure-domain")


def _a_waiting_pod(message: str, **parts: Any) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return a_pod(node="", status_conditions=[condition], **parts)


def _a_claim(**spec: Any) -> Json:
    meta = {"name": "data", "namespace": "shop"}
    phase = "Bound" if "volumeName" in spec else "Pending"
    return {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("claim", "events", "forbidden", "code", "words"),
    [
        (_a_claim(volumeName="pv-1", storageClassName="ssd"), [], "persistentvolumes", "claim-unread", "volume pv-1"),
        (_a_claim(storageClassName="fast"), [], "storageclasses", "claim-unread", "class fast"),
        (_a_claim(storageClassName="fast"), [], "persistentvolumeclaims", "claim-unread", "cannot be read"),
        (
            _a_claim(storageClassName="fast"),
            [
                an_event(
                    "ProvisioningFailed",
                    'storageclass.storage.k8s.io "fast" not found',
                    about={"kind": "PersistentVolumeClaim", "name": "data"},
                )
            ],
            "storageclasses",
            "provisioning-failed",
            '"fast" not found',
        ),
    ],
)
def test_claim_is_named_if_it_or_its_volume_or_class_may_not_be_read(
    claim: Json, events: list[Json], forbidden: str, code: str, words: str
) -> None:
    pod = _a_waiting_pod("0/1 nodes", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    state = find_state(pod, a_cluster(claim, *events, forbidden=[forbidden]), NOW)
    (cause,) = [cause for cause in state["causes"] if cause["code"] != "no-node-found"]
    assert cause["code"] == code in CAUSES
    assert "claim data" in cause["text"]
    assert words in cause["text"]


@pytest.mark.parametrize("is_made", [True, False])
def test_event_says_why_a_resource_claim_is_not_created(is_made: bool) -> None:
    why = "PodResourceClaim gpus: create ResourceClaim: Forbidden: needs `resource.kubernetes.io/admin-access: true`"
    event = an_event("FailedResourceClaimCreation", why, "resource_claim")
    claims = [{"name": "gpus", "resourceClaimTemplateName": "all"}]
    pod = _a_waiting_pod("waiting for the resourceclaim", resourceClaims=claims)
    pod["status"]["resourceClaimStatuses"] = [{"name": "gpus", "resourceClaimName": "x"}] if is_made else []
    template = {"kind": "ResourceClaimTemplate", "metadata": {"name": "all", "namespace": "shop"}, "spec": {}}
    causes = find_state(pod, a_cluster(template, event), NOW)["causes"]
    found = [cause for cause in causes if cause["code"] == "device-claim-not-created"]
    assert bool(found) is not is_made
    assert all("Forbidden" in cause["text"] and "label namespace" in str(cause["remedies"]) for cause in found)


def _an_evaluation(message: str, code: str) -> Json:
    answer = {"kind": "PodExplanation", "attempt": {"source": "evaluated"}, "message": message, "headline": "to n2"}
    state = {"code": code, "causes": [{"code": "no-node-found"}]}
    return answer | {"ranking": [{}], "nodes": {"feasible": 1, "total": 2}, "live": {"state": state}}


@pytest.mark.parametrize(
    ("message", "code", "is_withdrawn"),
    [
        ("may fit (whether its volumes fit is unknown); x", "pod-waits-for-node", True),
        ("fits now; x", "pod-waits-for-node", False),
        ("may fit; x", "pod-not-tried", False),
    ],
)
def test_stated_rejection_outweighs_an_incomplete_evaluation(message: str, code: str, is_withdrawn: bool) -> None:
    answer = withdraw_placement(_an_evaluation(message, code))
    assert (answer["headline"] != "to n2") is is_withdrawn
    assert (not answer["ranking"]) is is_withdrawn


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            an_event("SuccessfulDelete", "Deleted pod: web-0", about={"kind": "ReplicaSet", "name": "web-5f"}),
            "ReplicaSet/web-5f deleted it",
        ),
        (an_event("Preempted", "Preempted by pod 7 on node n1"), "was ended 60s ago: Preempted by pod 7"),
        (
            an_event(
                "Preempted",
                "Preempted by pod 7 on node n1",
                related={"kind": "Pod", "namespace": "prod", "name": "checkout-0", "uid": "7"},
            ),
            "Preempted by pod prod/checkout-0 on node n1",
        ),
        (an_event("Killing", "Stopping container main"), "its last event is 60s ago: Stopping container main"),
        (an_event("SuccessfulDelete", "Deleted pod: web-01", about={"kind": "ReplicaSet", "name": "web-5f"}), ""),
    ],
)
def test_events_say_who_deleted_a_pod_that_is_gone(event: Json, words: str) -> None:
    sentences = list_deletions("web-0", "shop", a_cluster(event), NOW)
    assert len(sentences) == bool(words)
    assert all(words in sentence for sentence in sentences)


CORDONED: Json = {"kind": "Node", "metadata": {"name": "n1"}, "spec": {"unschedulable": True}}
MAKER = {"kind": "ReplicaSet", "name": "web-5f"}


@pytest.mark.parametrize(
    ("objects", "sentences"),
    [
        (
            [an_event("SuccessfulDelete", "Deleted pod: web-0", "replicaset-controller", about=MAKER)],
            ["ReplicaSet/web-5f deleted pod web-0 60s ago: Deleted pod: web-0"],
        ),
        (
            [
                CORDONED,
                an_event("NodeNotSchedulable", "is now: NodeNotSchedulable", about={"kind": "Node", "name": "n1"}),
                an_event("SuccessfulCreate", "Created pod: web-1", about=MAKER),
            ],
            [
                "no event says who deleted it",
                "its node n1 is cordoned [Node/n1 spec.unschedulable], as kubectl drain does before it evicts; 60s ago",
                "ReplicaSet/web-5f made another pod 60s ago: Created pod: web-1",
            ],
        ),
        (
            [
                {"kind": "Node", "metadata": {"name": "n1"}},
                an_event("SuccessfulCreate", "Created pod: web-1", about=MAKER, lastTimestamp=at(30)),
                an_event("SuccessfulDelete", "Deleted pod: web-0", about=MAKER, lastTimestamp=at(40)),
            ],
            [],  # these events are of an earlier pod, or of its siblings
        ),
        (
            [{"kind": "Node", "metadata": {"name": "n2"}}],
            ["no event says who deleted it", "its node n1 no longer exists"],
        ),
    ],
    ids=["owner", "drained", "older", "node-gone"],
)
def test_end_of_a_gone_pod_is_what_events_and_its_node_say(objects: list[Json], sentences: list[str]) -> None:
    answer = {
        "metadata": {"name": "web-0", "namespace": "shop"},
        "pod": {"owner": "ReplicaSet/web-5f"},
        "attempt": {"startedAt": at(30)},
        "outcome": {"node": "n1"},
    }
    found = describe_end(answer, a_cluster(*objects), NOW)
    assert len(found) == len(sentences)
    assert all(sentence.startswith(words) for sentence, words in zip(found, sentences, strict=True)), found


def test_pod_that_is_gone_with_its_job_has_the_last_event_of_both() -> None:
    job = {"kind": "Job", "name": "mig"}
    made = an_event("SuccessfulCreate", "Created pod: web-0", about=job, lastTimestamp=at(9))
    events = [made, an_event("Completed", "Job completed", about=job)]
    events.append(an_event("Scheduled", "Successfully assigned shop/web-0 to n1", "default-scheduler"))
    first, second = list_deletions("web-0", "shop", a_cluster(*events), NOW)
    assert first.startswith("pod web-0 existed on n1:")
    assert "Job/mig existed: its last event is 60s ago: Job completed" in second
    present = {"kind": "Job", "metadata": {"name": "mig", "namespace": "shop"}}
    assert len(list_deletions("web-0", "shop", a_cluster(*events, present), NOW)) == 1


@pytest.mark.parametrize(
    ("policy", "component", "words"),
    [
        ([], "karpenter", ["podFailurePolicy", "karpenter.sh/do-not-disrupt"]),
        (["DisruptionTarget"], "cluster-autoscaler", ["safe-to-evict"]),
        (["DisruptionTarget"], "descheduler", []),
    ],
)
def test_pod_that_somebody_ended_is_not_to_be_mended(policy: list[str], component: str, words: list[str]) -> None:
    ended = {"terminated": {"exitCode": 143, "reason": "Error", "finishedAt": at(1)}}
    by = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "lastTransitionTime": at(1)}
    owner = {"ownerReferences": [{"kind": "Job", "name": "mig", "controller": True}]}
    status: Json = {
        "status_conditions": [SCHEDULED, by],
        "status_containerStatuses": waits("", lastState={}, state=ended),
    }
    rules = [{"action": "Ignore", "onPodConditions": [{"type": each}]} for each in policy]
    job = {"kind": "Job", "metadata": {"name": "mig"}, "spec": {"podFailurePolicy": {"rules": rules}}}
    pod = a_pod(phase="Failed", metadata=owner, restartPolicy="Never", **status)
    remedies = [
        remedy["text"]
        for cause in find(pod, job, an_event("Evicted", "Evicted pod: Underutilized", component))["causes"]
        for remedy in cause["remedies"]
    ]
    assert [word in text for word, text in zip(words, remedies, strict=True)] == [True] * len(words)


@pytest.mark.parametrize(
    ("expands", "words"), [(True, "enlarge claim data-0, now 1Gi"), (False, "allows no expansion")]
)
def test_program_that_finds_no_space_left_has_its_claim_named(expands: bool, words: str) -> None:
    end = {"exitCode": 1, "reason": "Error", "message": "write: No space left on device", "finishedAt": at(1)}
    mounts = [{"name": "main", "image": "a:1", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}]
    statuses = waits("CrashLoopBackOff", lastState={"terminated": end})
    pod = a_pod(phase="Running", containers=mounts, volumes=volumes, status_containerStatuses=statuses)
    spec = {"storageClassName": "gold", "volumeName": "v"}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data-0", "namespace": "shop"}, "spec": spec}
    claim["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    gold = {"kind": "StorageClass", "metadata": {"name": "gold"}, "allowVolumeExpansion": expands}
    (cause,) = find(pod, claim, gold)["causes"]
    assert [words in remedy["text"] for remedy in cause["remedies"]] == [True]


def test_fault_of_a_node_stands_behind_a_pod_that_does_not_start() -> None:
    node = a_node()
    fault = {"type": "ReadonlyFilesystem", "status": "True", "message": "remounted"}
    node["status"]["conditions"].append(fault)
    event = an_event("FailedCreatePodSandBox", "words that nobody knows")
    pod = a_pod(status_containerStatuses=waits("ContainerCreating"))
    causes = find(pod, node, event)["causes"]
    assert [cause["code"] for cause in causes] == ["sandbox-failed", "node-fault"]
    assert [bool(cause["remedies"]) for cause in causes] == [False, True]  # a log says less than what the node reports
    crashing = a_pod(phase="Running", status_containerStatuses=waits("CrashLoopBackOff"))
    assert "node-fault" not in [cause["code"] for cause in find(crashing, node)["causes"]]


@pytest.mark.parametrize(("age", "is_cause"), [(3, True), (45, False)])
def test_container_that_a_resize_restarted_is_told(age: int, is_cause: bool) -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
    policy += [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    last = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": at(3)}}
    pod = a_pod(phase="Running", status_conditions=[SCHEDULED, READY], status_containerStatuses=runs(lastState=last))
    assert is_running_well(pod)
    pod["spec"]["containers"][0]["resizePolicy"] = policy
    assert not is_running_well(pod)
    event = an_event("Killing", "Container main resize requires restart", type="Normal", lastTimestamp=at(age))
    state = find_state(pod, a_cluster(event), NOW)
    assert [cause["code"] for cause in state["causes"]] == ["restarted-by-resize"] * is_cause
    assert ("RestartContainer for memory" in state["headline"]) is is_cause
