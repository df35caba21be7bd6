"""VolumeZone: labels of bound volumes against labels of nodes."""

from typing import Any

import pytest

from scheduler.engine.framework.plugin import NoArgs
from scheduler.engine.plugins.volume_zone import VolumeZone
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.storage import (
    IMMEDIATE,
    ClusterWithObjects,
    claim,
    claiming,
    codes,
    storage_class,
    tried,
    volume,
    with_volumes,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def plugin(*objects: Any) -> VolumeZone:
    return VolumeZone(NoArgs(), ClusterWithObjects(*objects))


NODES = columns_of(
    [
        make_node("a").label(ZONE, "a").label(REGION, "r"),
        make_node("b").label(ZONE, "b").label(REGION, "r"),
        make_node("beta").label(BETA_ZONE, "a").label(BETA_REGION, "r"),
        make_node("region").label(REGION, "r"),
        make_node("bare"),
    ]
)


def row(*rejected: str) -> dict[str, str]:
    return {name: "volume-zone" if name in rejected else "" for name in ("a", "b", "beta", "region", "bare")}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({}, "skip", id="no label"),
        pytest.param({"other": "x"}, "skip", id="other labels"),
        pytest.param({ZONE: "a"}, row("b", "beta", "region"), id="a zone; a node without any label passes"),
        pytest.param({ZONE: "a__b"}, row("beta", "region"), id="several zones"),
        pytest.param({ZONE: " a __b "}, row("beta", "region"), id="with spaces around them"),
        pytest.param({ZONE: "a__"}, "skip", id="an empty zone makes the label void"),
        pytest.param({ZONE: ""}, "skip", id="an empty label"),
        pytest.param({BETA_ZONE: "a"}, row("b", "region"), id="the beta label falls back to the general one"),
        pytest.param({REGION: "r"}, row("beta"), id="a region"),
        pytest.param({REGION: "q"}, row("a", "b", "beta", "region"), id="another region"),
        pytest.param({ZONE: "a", REGION: "q"}, row("a", "b", "beta", "region"), id="all labels must match"),
    ],
)
def test_labels(labels: dict[str, str], expected: Any) -> None:
    by = plugin(claim("c", volume="v"), volume("v", labels=labels))
    assert codes(tried(by, claiming("c"), NODES)) == expected


def test_every_claim_counts() -> None:
    by = plugin(
        claim("c", volume="v"), volume("v", labels={ZONE: "a"}), claim("d", volume="w"), volume("w", labels={ZONE: "b"})
    )
    assert codes(tried(by, claiming("c", "d"), NODES)) == row("a", "b", "beta", "region")


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([], "claim-not-found", id="no claim"),
        pytest.param([claim("c", volume="v")], "volume-not-found", id="no volume"),
        pytest.param([claim("c", storage_class=None)], "claim-without-class", id="unbound, without a class"),
        pytest.param([claim("c")], "class-not-found", id="unbound, and the class is missing"),
        pytest.param([claim("c"), storage_class(mode=None)], "class-without-mode", id="a class without a mode"),
        pytest.param(
            [claim("c"), storage_class(mode=IMMEDIATE)], "claim-without-volume", id="bound at once, but not yet"
        ),
        pytest.param([claim("c"), storage_class()], "skip", id="waits for its consumer"),
    ],
)
def test_claims_that_say_no_zone(objects: list[Any], expected: str) -> None:
    assert codes(tried(plugin(*objects), claiming("c"), NODES)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"persistentVolumeClaim": {"claimName": ""}}, "claim-unnamed", id="a claim without a name"),
        pytest.param({"emptyDir": {}}, "skip", id="another kind of volume"),
        pytest.param({"ephemeral": {"volumeClaimTemplate": {}}}, "skip", id="an ephemeral volume is not looked at"),
    ],
)
def test_volumes(given: dict[str, Any], expected: str) -> None:
    assert codes(tried(plugin(), with_volumes(make_pod(), given), NODES)) == expected


def test_a_cluster_without_such_labels_takes_every_volume() -> None:
    by = plugin(claim("c", volume="v"), volume("v", labels={ZONE: "a"}))
    assert codes(tried(by, claiming("c"), columns_of([make_node("n")]))) == {"n": ""}
