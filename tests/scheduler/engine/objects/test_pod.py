"""Host ports of a pod, and when two of them conflict."""

import pytest

from scheduler.engine.objects.pod import HostPort
from tests.scheduler.builders import make_pod

ANY, V6 = "0.0.0.0", "::"


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        pytest.param(HostPort(ANY, "TCP", 80), HostPort(ANY, "TCP", 80), True, id="the same"),
        pytest.param(HostPort("10.0.0.1", "TCP", 80), HostPort(ANY, "TCP", 80), True, id="all addresses against one"),
        pytest.param(HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), True, id="the same address"),
        pytest.param(HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), False, id="another address"),
        pytest.param(HostPort(ANY, "TCP", 80), HostPort(ANY, "UDP", 80), False, id="another protocol"),
        pytest.param(HostPort(ANY, "TCP", 80), HostPort(ANY, "TCP", 81), False, id="another port"),
        pytest.param(
            HostPort(V6, "TCP", 80), HostPort("10.0.0.1", "TCP", 80), False, id="IPv6's any is an ordinary string"
        ),
        pytest.param(HostPort(V6, "TCP", 80), HostPort(ANY, "TCP", 80), True, id="but 0.0.0.0 conflicts with it"),
    ],
)
def test_conflicts_both_ways(one: HostPort, other: HostPort, conflict: bool) -> None:
    assert one.conflicts(other) is other.conflicts(one) is conflict


def test_host_ports_of_sidecars_and_containers_with_their_defaults() -> None:
    pod = make_pod().host_port(80).host_port(53, "UDP", "10.0.0.1").host_port(9, sidecar=True)
    pod.container(ports=[{"containerPort": 8080}, {"hostPort": 0}]).container(ports=[{"hostPort": 7}], init=True)
    assert pod.info().host_ports == (HostPort(ANY, "TCP", 9), HostPort(ANY, "TCP", 80), HostPort("10.0.0.1", "UDP", 53))


def test_host_ports_in_words() -> None:
    assert [str(HostPort(ANY, "TCP", 80)), str(HostPort("10.0.0.1", "UDP", 53))] == ["80/TCP", "10.0.0.1:53/UDP"]


def test_derived_values_of_a_pod() -> None:
    plain, full = make_pod().info(), make_pod("p", "shop").label("app", "x").priority(7).terminating().info()
    assert (plain.uid, plain.full_name, plain.labels, plain.priority, plain.terminating) == (
        "uid-p",
        "default/p",
        {},
        0,
        False,
    )
    assert (full.full_name, full.labels, full.priority, full.terminating) == ("shop/p", {"app": "x"}, 7, True)
