"""StorageCapacityScoring: VolumeBinding's scores. The numbers of the first two tables are those of upstream's tests."""

from typing import Any

import msgspec
import pytest

from herodotus_record.kubernetes_version import KubernetesVersion
from herodotus_record.model import Code
from scheduler.config.document import ConfigError
from scheduler.config.load import parse_config
from scheduler.engine.framework.state import CycleState
from scheduler.engine.plugins.volume_binding import VolumeBinding, VolumeBindingArgs
from scheduler.engine.rules import Rules
from tests.scheduler.builders import Json, columns_of, make_node
from tests.scheduler.storage import (
    HOST,
    ClusterWithObjects,
    capacity,
    claim,
    claiming,
    driver,
    on_host,
    storage_class,
    volume,
)

SCORING = Rules.from_settings({"StorageCapacityScoring": True})
NODES = columns_of([make_node(name).label(HOST, name) for name in ("n1", "n2", "n3")])
PREFERS_USED = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
STEPS = [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 3}, {"utilization": 100, "score": 5}]


def score(*objects: Any, claims: tuple[str, ...] = ("c",), shape: list[Json] | None = None) -> list[int]:
    """Return the score of each node for a pod with these claims."""
    args = msgspec.convert({} if shape is None else {"shape": shape}, VolumeBindingArgs)
    plugin = VolumeBinding(args, ClusterWithObjects(storage_class(), storage_class("slow"), driver(), *objects))
    plugin.rules = SCORING
    state, pod = CycleState(), claiming(*claims).info()
    if plugin.pre_filter(state, pod, NODES).verdict.code is Code.SUCCESS:
        plugin.filter(state, pod, NODES)
    assert plugin.pre_score(state, pod, NODES, NODES.live).code is Code.SUCCESS
    return [int(points) for points in plugin.score(state, pod, NODES, NODES.live)]


def pool(node: str, size: str, storage_class: str = "fast", **fields: Any) -> Any:
    """Return the free capacity of a storage class on one node."""
    topology = {"matchLabels": {HOST: node}}
    return capacity(f"{storage_class}-{node}", storage_class, nodeTopology=topology, capacity=size, **fields)


def pools(*sizes: str, storage_class: str = "fast") -> list[Any]:
    return [pool(f"n{i}", size, storage_class) for i, size in enumerate(sizes, 1)]


def local(name: str, node: str, size: str, storage_class: str = "fast") -> Any:
    return volume(name, size=size, storage_class=storage_class, within=on_host(node))


@pytest.mark.parametrize(
    ("shape", "sizes", "expected"),
    [
        (PREFERS_USED, ("100Gi", "50Gi", "10Gi"), [10, 20, 100]),
        (PREFERS_USED, ("100Gi", "20Gi", "10Gi"), [10, 50, 100]),
        (None, ("100Gi", "20Gi", "10Gi"), [90, 50, 0]),
        ([], ("100Gi", "20Gi", "10Gi"), [90, 50, 0]),
        (STEPS, ("100Gi", "20Gi", "10Gi"), [6, 30, 50]),
    ],
    ids=["used", "used-2", "default-prefers-free", "empty-is-default", "three-points"],
)
def test_a_volume_to_be_provisioned_scores_by_the_share_of_the_capacity_that_it_takes(
    shape: list[Json] | None, sizes: tuple[str, ...], expected: list[int]
) -> None:
    assert score(claim("c"), *pools(*sizes), shape=shape) == expected


@pytest.mark.parametrize(
    ("hdd", "ssd", "expected"),
    [(0, 30, 15), (30, 30, 30), (30, 60, 45), (50, 100, 75), (100, 100, 100), (50, 51, 51)],
)
def test_the_score_is_the_rounded_mean_over_storage_classes(hdd: int, ssd: int, expected: int) -> None:
    objects = (
        claim("hdd", size=f"{hdd}Gi"),
        claim("ssd", size=f"{ssd}Gi", storage_class="slow"),
        *pools("100Gi"),
        *pools("100Gi", storage_class="slow"),
    )
    assert score(*objects, claims=("hdd", "ssd"), shape=PREFERS_USED)[0] == expected


def test_claims_of_one_class_share_its_capacity() -> None:
    two = (claim("a", size="50Gi"), claim("b", size="50Gi"))
    assert score(*two, *pools("100Gi", "200Gi", "90Gi"), claims=("a", "b"), shape=PREFERS_USED) == [100, 50, 100]


def test_where_a_claim_gets_an_existing_volume_only_existing_volumes_count() -> None:
    objects = (
        claim("static", size="50Gi", storage_class="slow"),
        claim("dynamic", size="10Gi"),
        local("v1", "n1", "100Gi", "slow"),
        local("v2", "n2", "50Gi", "slow"),
        *pools("100Gi", "50Gi", "40Gi"),
        *pools("1Gi", "1Gi", "500Gi", storage_class="slow"),
    )
    assert score(*objects, claims=("static", "dynamic"), shape=PREFERS_USED) == [50, 100, round((10 + 25) / 2)]


def test_existing_volumes_score_without_any_csi_driver() -> None:
    objects = (claim("a", size="10Gi"), claim("b", size="20Gi"))
    volumes = [local(f"v{i}{node}", node, size) for node, size in (("n1", "40Gi"), ("n2", "20Gi")) for i in range(2)]
    assert score(*objects, *volumes, claims=("a", "b"), shape=PREFERS_USED)[:2] == [30 * 100 // 80, 75]


@pytest.mark.parametrize(
    "objects",
    [
        (claim("c", volume="v"), volume("v", within=on_host("n1", "n2", "n3"))),
        (claim("c"), driver(storage_capacity=False), *pools("100Gi", "100Gi", "100Gi")),
        (claim("c"), driver(storage_capacity=None)),
    ],
    ids=["bound", "driver-does-not-track", "driver-does-not-say"],
)
def test_no_points_without_storage_to_compare(objects: tuple[Any, ...]) -> None:
    assert score(*objects) == [0, 0, 0]


def test_no_points_for_a_pod_without_claims() -> None:
    assert score(claims=()) == [0, 0, 0]


def test_an_unknown_capacity_counts_as_full() -> None:
    unknown = capacity("p", nodeTopology={"matchLabels": {HOST: "n1"}}, maximumVolumeSize="50Gi")
    assert score(claim("c"), unknown, shape=PREFERS_USED) == [100, 0, 0]


def test_of_several_sufficient_capacities_the_first_by_name_counts() -> None:
    both = [
        capacity(name, nodeTopology={"matchLabels": {HOST: "n1"}}, capacity=size)
        for name, size in (("b", "100Gi"), ("a", "20Gi"), ("0-too-small", "5Gi"))
    ]
    assert score(claim("c"), *both, shape=PREFERS_USED)[0] == 50


def test_a_shape_is_refused_while_the_feature_is_off() -> None:
    def text(gates: str) -> str:
        return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
featureGates: {{{gates}}}
profiles: [{{pluginConfig: [{{name: VolumeBinding, args: {{shape: [{{utilization: 50, score: 5}}]}}}}]}}]
"""

    parse_config(text("StorageCapacityScoring: true"))
    with pytest.raises(ConfigError) as raised:
        parse_config(text(""))
    detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
    value = '[{"utilization":50,"score":5}]'
    assert str(raised.value).endswith(f"profiles[0].pluginConfig[0].args.shape: Invalid value: {value}: {detail}")


@pytest.mark.parametrize(("version", "points"), [("v1.36", Code.SKIP), ("v1.37", Code.SUCCESS)], ids=["v1.36", "v1.37"])
def test_the_version_decides_whether_storage_scores(version: str, points: Code) -> None:
    plugin = VolumeBinding(VolumeBindingArgs(), ClusterWithObjects())
    plugin.rules = Rules.from_settings({}, KubernetesVersion.parse(version))
    assert plugin.pre_score(CycleState(), claiming("c").info(), NODES, NODES.live).code is points
