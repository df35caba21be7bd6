"""Taints that no pod should be made to tolerate: the system's own, and those whose words say what they are for."""

from __future__ import annotations

import pytest

from herodotus_record.node_taints import TaintKind, find_taint_against


@pytest.mark.parametrize(
    ("taint", "offered", "requested", "kind"),
    [
        (("node.kubernetes.io/unreachable", ""), (), (), TaintKind.CLEARS),
        (("kubernetes.io/arch", "arm64"), (), (), TaintKind.RESERVED),
        (("node.kubernetes.io/os", "windows"), (), (), TaintKind.RESERVED),
        (("node-role.kubernetes.io/control-plane", ""), (), (), TaintKind.RESERVED),
        (("maintenance", "firmware"), (), (), TaintKind.MAINTAINED),
        (("ops.example.com/state", "quarantined"), (), (), TaintKind.MAINTAINED),
        (("example.com/draining", ""), (), (), TaintKind.LEAVES),
        (("nvidia.com/gpu", "present"), ("cpu", "nvidia.com/gpu"), ("cpu",), TaintKind.FOR_DEVICES),
        (("sku", "gpu"), ("nvidia.com/mig-1g.5gb", "amd.com/gpu"), ("cpu",), TaintKind.FOR_DEVICES),
        (("nvidia.com/gpu", ""), ("nvidia.com/mig-1g.5gb",), ("nvidia.com/mig-1g.5gb",), None),
        (("nvidia.com/gpu", ""), ("cpu",), ("cpu",), None),
        (("dedicated", "batch"), ("nvidia.com/gpu",), ("cpu",), None),
        (("example.com/team", "a"), ("example.com/gpu",), ("cpu",), TaintKind.FOR_DEVICES),
    ],
)
def test_a_taint_is_declared_by_its_key_its_words_or_the_devices_of_its_node(
    taint: tuple[str, str], offered: tuple[str, ...], requested: tuple[str, ...], kind: TaintKind | None
) -> None:
    declared = find_taint_against(*taint, offered, requested)
    assert (declared and declared.kind) is kind


def test_a_pod_with_resource_claims_may_be_for_the_devices_of_a_node() -> None:
    assert find_taint_against("nvidia.com/gpu", "", ["nvidia.com/gpu"], ["cpu"], claims_devices=True) is None
