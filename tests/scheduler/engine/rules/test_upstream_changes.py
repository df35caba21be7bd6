"""Changes of kube-scheduler that are no rules: the user is told of those that are not built, and the others hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from herodotus_record.notes import format_notes
from scheduler.engine.rules import Rules
from scheduler.engine.rules.feature_gates import FEATURE_GATES
from scheduler.engine.rules.upstream_changes import UPSTREAM_CHANGES, Handling
from scheduler.engine.rules.version_rules import VERSION_RULES
from scheduler.offline.evaluate import evaluate
from scheduler.offline.evaluate.engine import EvaluatedPod
from tests.scheduler.engine.dra.builders import DRIVER, claim, device, device_class, exactly, node, pod, slice_on

Json = dict[str, Any]
DOCS = Path(__file__).parents[4] / "docs"

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
DEVICES = [node("n1"), node("n2"), device_class(), slice_on("n1", device("a"))]


def decide(version: str, incoming: Json, *objects: Json) -> EvaluatedPod:
    """Decide a pod by the rules of a version, beside devices on one of two nodes."""
    config = {**CONFIG, "kubernetesVersion": version}
    return evaluate({"id": "case", "config": config, "pod": incoming, "objects": [*DEVICES, *objects]})


def notes(version: str, incoming: Json, *objects: Json) -> list[str]:
    return format_notes(decide(version, incoming, *objects).result.trace.notes)


GROUPED = pod(schedulingGroup={"podGroupName": "g"})
BACKED = {**DEVICES[2], "metadata": {"name": "backed"}, "spec": {"extendedResourceName": "example.com/gpu"}}
REQUESTING = pod(containers=[{"name": "main", "resources": {"requests": {"example.com/gpu": "1"}}}])


@pytest.mark.parametrize(
    ("incoming", "objects", "subjects"),
    [
        (pod(), [], []),
        (pod("c"), [claim("c", exactly("r"))], ["allocation of devices"]),
        (pod("missing"), [], ["allocation of devices"]),
        (REQUESTING, [], []),
        (REQUESTING, [BACKED], ["allocation of devices"]),
        (GROUPED, [], ["pod groups"]),
    ],
    ids=["no devices", "a claim", "a missing claim", "another resource", "a resource of devices", "a pod group"],
)
def test_a_pod_is_told_of_the_changes_that_concern_it_and_are_not_built(
    incoming: Json, objects: list[Json], subjects: list[str]
) -> None:
    assert [note.partition(":")[0] for note in notes("v1.37", incoming, *objects)] == subjects
    assert notes("v1.36", incoming, *objects) == []


def test_the_note_says_by_which_rules_the_pod_is_decided() -> None:
    (note,) = notes("v1.37", GROUPED)
    expected = "pod groups: decided as in v1.36, because what v1.37 changes is not built (#140184, #138572, "
    assert note.startswith(expected)


def test_changes_that_are_not_built_are_in_the_limits() -> None:
    limits = (DOCS / "limits.md").read_text()
    missing = [change for change in UPSTREAM_CHANGES if change.handling is Handling.NOT_BUILT]
    assert [change.subject for change in missing if change.subject not in limits.lower()] == []


# Pull requests that change scheduling in v1.37 without a feature gate, and for gates the names.
# Source: release notes of v1.37.
UNGATED = """140184 138572 139743 139279 140080 138951 140047 140646 140180 139218 140311 139980 138757 139030 140412
139674 137981 138855 139057 140289 138754 139613 139054 140089 139161 140431 140435 140437 139040 140600 139017 140702
136709 135905 139840 138176"""
GATES = """StorageCapacityScoring VolumeLimitScaling DRADeviceTaintRules DRADeviceTaints DRAExtendedResource
DRAPrioritizedList DRAResourceClaimDeviceStatus NodeDeclaredFeatures DRAFractionalCapacityRange GenericWorkload
GangScheduling WorkloadAwarePreemption DRAWorkloadResourceClaims TopologyAwareWorkloadScheduling CompositePodGroup
PodGroupPreemptionPolicy InPlacePodVerticalScalingSchedulerPreemption InterPodAffinityHostnameFastPath
SchedulerPreQueueingHints DRADerivedAttributes DRADeviceCompatibilityGroups DRAOptionalNodeOperations"""


def test_every_change_of_v1_37_is_declared_once() -> None:
    sources = " ".join(each.source for each in (*VERSION_RULES, *UPSTREAM_CHANGES))
    declared = re.findall(r"#(\d+)", sources)
    assert {number: declared.count(number) for number in UNGATED.split()} == dict.fromkeys(UNGATED.split(), 1)
    assert set(GATES.split()) <= {gate.name for gate in FEATURE_GATES}


def test_rules_of_earlier_versions_lack_nothing() -> None:
    assert Rules.from_settings({}).missing == ()


@pytest.mark.parametrize("version", ["v1.36", "v1.37"])
def test_a_pod_with_allocated_and_other_claims_is_scored(version: str) -> None:
    """#139017: an allocation that exists is not among those that the search makes."""
    results = [{"request": "r", "driver": DRIVER, "pool": "shared", "device": "s"}]
    status = {"allocation": {"devices": {"results": results}}}
    alternatives = {"name": "q", "firstAvailable": [{"name": "one", "deviceClassName": "gpu", "count": 1}]}
    objects = [claim("c", exactly("r"), status=status), claim("d", alternatives), slice_on("n2", device("b"))]
    decided = decide(version, pod("c", "d"), *objects)
    assert decided.result.message == ""
    assert decided.outcome()["scores"]["DynamicResources"]["raw"] == {"n1": 8, "n2": 8}
