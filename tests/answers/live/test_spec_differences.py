"""Which fields of two pods differ, with the values of both."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.live.pods.spec_differences import add_spec_differences, compare_specs

ZONE = "topology.kubernetes.io/zone"
GPU = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
DEFAULT = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
TERM = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]}


def pod(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": labels or {}}, "spec": {"containers": [], **spec}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"tolerations": [GPU, DEFAULT]}, "tolerations none → dedicated=gpu:NoSchedule"),
        ({"tolerations": [{"operator": "Exists"}]}, "tolerations none → every taint"),
        ({"nodeSelector": {"disk": "ssd"}}, "nodeSelector none → disk=ssd"),
        (
            {
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
                }
            },
            "required nodeAffinity none → disk In (ssd, nvme)",
        ),
        (
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 5,
                                "podAffinityTerm": {
                                    "topologyKey": ZONE,
                                    "labelSelector": {"matchLabels": {"app": "web"}},
                                },
                            }
                        ]
                    }
                }
            },
            f"preferred podAntiAffinity none → weight 5: app=web by {ZONE}",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
            f"topologySpreadConstraints none → {ZONE} maxSkew 1 DoNotSchedule",
        ),
        ({"containers": [{"ports": [{"hostPort": 80}]}]}, "host ports none → 80/TCP"),
        ({"volumes": [{"persistentVolumeClaim": {"claimName": "a"}}]}, "claims none → 1"),
    ],
)
def test_names_the_field_with_both_values(spec: dict[str, Any], expected: str) -> None:
    assert compare_specs(pod(), pod(**spec)) == [expected]


def test_leaves_out_what_controllers_and_admission_set() -> None:
    one = pod({"app": "web", "pod-template-hash": "1"}, tolerations=[DEFAULT])
    assert compare_specs(one, pod({"app": "web", "pod-template-hash": "2"})) == []


def test_replaces_the_entry_without_a_value() -> None:
    sides = [{"attempt": {"startedAt": at}} for at in ("2026-01-02", "2026-01-01")]
    changes = [{"what": "pod", "text": "labels, affinity or other fields"}, {"what": "room", "text": "more cpu"}]
    document = {"pods": sides, "differences": {"from": "b", "to": "a", "changes": changes}}
    pods = [pod(nodeSelector={"disk": "ssd"}), pod()]
    found = add_spec_differences(document, pods)["differences"]["changes"]
    assert [change["text"] for change in found] == ["nodeSelector none → disk=ssd", "more cpu"]
