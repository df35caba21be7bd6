"""A pod as somebody wrote it becomes what the API server would store, as far as scheduling reads it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.engine.manifests.defaults import apply_pod_defaults
from scheduler.engine.objects.pod import HostPort, PodInfo
from scheduler.engine.objects.types import Pod

GIB = 1 << 30


def info(**spec: Any) -> PodInfo:
    return PodInfo(apply_pod_defaults(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)))


def container(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}}


def test_the_scheduler() -> None:
    assert info().pod.spec.scheduler_name == "default-scheduler"
    assert info(schedulerName="mine").pod.spec.scheduler_name == "mine"


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        ({"containers": [container({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})]}, {"cpu": 1000, "memory": GIB}),
        ({"initContainers": [container(None, {"cpu": "3"})]}, {"cpu": 3000}),
        ({"containers": [container({"cpu": "1"})]}, {"cpu": 1000}),
        (
            {"containers": [container({"cpu": "1"})], "resources": {"limits": {"cpu": "4", "memory": "2Gi"}}},
            {"cpu": 1000, "memory": 2 * GIB},
        ),
        (
            {"containers": [container({"cpu": "500m"})] * 2, "resources": {"limits": {"memory": "1Gi"}}},
            {"cpu": 1000, "memory": GIB},
        ),
        (
            {"containers": [container({"cpu": "1"})], "resources": {"requests": {"memory": "2Gi"}}},
            {"cpu": 1000, "memory": 2 * GIB},
        ),
        (
            {
                "containers": [container(None, {"hugepages-2Mi": "4Mi"})] * 2,
                "resources": {"requests": {"cpu": "2"}},
            },
            {"cpu": 2000, "hugepages-2Mi": 8 << 20},
        ),
        ({"containers": [container(None, {"cpu": "1"})], "resources": {}}, {"cpu": 1000}),
    ],
    ids=[
        "a container's limits where it requests nothing",
        "an init container's",
        "nothing without limits",
        "the pod's own: from its containers, then from its limits",
        "the pod's own: containers are summed",
        "the pod's own requests alone take nothing from its containers",
        "the pod's huge pages are its containers'",
        "empty pod-level resources are none",
    ],
)
def test_requests(spec: dict[str, Any], requests: dict[str, int]) -> None:
    assert info(**spec).requests == requests


def test_ports_on_the_nodes_own_network() -> None:
    ports = {"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]}
    containers = [{"name": "c", **ports}]
    assert info(containers=containers).host_ports == (HostPort("0.0.0.0", "TCP", 8081),)
    on_the_node = info(containers=containers, hostNetwork=True).host_ports
    assert on_the_node == (HostPort("0.0.0.0", "TCP", 80), HostPort("0.0.0.0", "TCP", 8081))


def test_a_pod_that_has_its_defaults_stays_as_it_is() -> None:
    written = info(containers=[container(None, {"cpu": "1"})], resources={"limits": {"memory": "1Gi"}}).pod
    assert apply_pod_defaults(written) == written
