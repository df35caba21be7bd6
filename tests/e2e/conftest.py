"""The same suite on the simulated API server and on a real one."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e import control_plane
from tests.e2e.cluster import Cluster, Herodotus
from tests.processes import Process, python

NO_BINARIES = (
    "NOT RUN AGAINST A REAL kube-apiserver: no etcd and kube-apiserver in KUBEBUILDER_ASSETS,"
    " /usr/local/kubebuilder/bin or setup-envtest's store"
)


def own_address() -> str:
    """Return an address of this machine that is not loopback, because an EndpointSlice may not hold loopback ones."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.254", 9))  # nothing is sent
        except OSError:
            pytest.skip("THIS MACHINE HAS NO ADDRESS BESIDE LOOPBACK")
        return str(probe.getsockname()[0])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark a test on the simulated API server as slow if the same test runs on a real one."""
    if control_plane.assets() is None:
        return
    ids = {item.nodeid for item in items}
    for item in items:
        if "simulated" in item.nodeid and item.nodeid.replace("simulated", "real") in ids:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", params=["simulated", pytest.param("real", marks=pytest.mark.e2e)])
def api_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp(request.param)
    kubeconfig = directory / "kubeconfig"
    stop: Callable[[], object]
    headers: dict[str, str] = {}
    user: dict[str, str] = {}
    if request.param == "simulated":
        sim = Process("sim", python("herodotus_sim", "--port", "0"), directory / "sim.log")
        url = sim.wait_for(r"http://127\.0\.0\.1:\d+")[0]
        stop, server = sim.stop, {"server": url}
    else:
        binaries = control_plane.assets()
        if binaries is None:
            pytest.skip(NO_BINARIES)
        plane = control_plane.ControlPlane(binaries, directory)
        plane.wait_until_ready()
        url, user = plane.url, {"token": control_plane.TOKEN}
        headers = {"Authorization": f"Bearer {control_plane.TOKEN}"}
        stop, server = plane.stop, {"server": url, "certificate-authority": str(plane.ca)}
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "e2e", "cluster": server}],
                "users": [{"name": "admin", "user": user}],
                "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
                "current-context": "e2e",
            }
        )
    )
    cluster = Cluster(request.param, url, headers, kubeconfig)
    yield cluster
    cluster.close()
    stop()


@pytest.fixture
def cluster(api_server: Cluster) -> Iterator[Cluster]:
    """Return the API server without nodes, pods and scheduler Leases of earlier tests."""
    yield api_server
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    for lease in api_server.items(leases):
        if "herodotus" in lease["metadata"]["name"]:
            api_server.delete(f"{leases}/{lease['metadata']['name']}")
    for ns in api_server.items("/api/v1/namespaces"):
        if ns["metadata"]["name"].startswith("e2e-"):
            for pod in api_server.items(f"/api/v1/namespaces/{ns['metadata']['name']}/pods"):
                api_server.delete(f"/api/v1/namespaces/{ns['metadata']['name']}/pods/{pod['metadata']['name']}")
    for node in api_server.items("/api/v1/nodes"):
        api_server.delete(f"/api/v1/nodes/{node['metadata']['name']}")


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """Create a namespace for one test and return its name."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    cluster.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def herodotus(cluster: Cluster, tmp_path: Path) -> Iterator[Herodotus]:
    """Run the scheduler and the decisions service on this cluster."""
    running = Herodotus(cluster, tmp_path)
    yield running
    running.stop()
