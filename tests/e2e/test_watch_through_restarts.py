"""`kubectl herodotus watch` goes on through restarts and idle connections, and prints each decision once."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from herodotus_record import codec
from tests.builders import INSUFFICIENT_CPU, a_decision, a_table
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import NO_BINARIES, own_address
from tests.e2e.control_plane import TOKEN, ControlPlane, assets
from tests.endpoint.service import rows
from tests.processes import ROOT, Process, eventually, free_port, python

IDLE_LIMIT_S = 11.0  # above the time after which the plugin takes a stream for a working one
NODES = ("worker-1", "worker-2")
SERVICE = "herodotus/http:herodotus-endpoint:plain-http"


class IdleProxy:
    """A TCP proxy in front of the decisions service that closes connections without traffic, as load balancers do."""

    def __init__(self, host: str, service_port: int) -> None:
        self.watches = self.closed = 0
        self.idle_limit_s = 3600.0
        self._service_port = service_port
        self._listener = socket.create_server((host, 0))
        self.address, self.port = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            service = socket.create_connection(("127.0.0.1", self._service_port))
        except OSError:
            client.close()
            return
        used_at = [time.monotonic()]

        def copy(source: socket.socket, target: socket.socket) -> None:
            with suppress(OSError):
                while data := source.recv(65_536):
                    used_at[0] = time.monotonic()
                    self.watches += source is client and b"watch=true" in data
                    target.sendall(data)
            for end in (source, target):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

        threads = [
            threading.Thread(target=copy, args=pair, daemon=True) for pair in ((client, service), (service, client))
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.1)
            if time.monotonic() - used_at[0] > self.idle_limit_s:
                self.closed += 1
                break
        for end in (client, service):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class RestartableApiServer:
    """A simulated or a real API server that can be restarted."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind, self.directory = kind, directory
        self.host = "127.0.0.1" if kind == "simulated" else own_address()
        self.kubeconfig = directory / "kubeconfig"
        user, server = {}, {}
        if kind == "simulated":
            self._port = free_port()
            self._manifest = directory / "service.yaml"
            server["server"] = f"http://127.0.0.1:{self._port}"
        else:
            binaries = assets()
            if binaries is None:
                pytest.skip(NO_BINARIES)
            self._plane = ControlPlane(binaries, directory)
            user["token"] = TOKEN
            server = {"server": self._plane.url, "certificate-authority": str(self._plane.ca)}
        self._url = server["server"]
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": server}],
                    "users": [{"name": "u", "user": user}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
                    "current-context": "c",
                }
            )
        )

    def publish(self, port: int) -> None:
        """Start the API server with the Service of the decisions service, which listens on `port` of this host."""
        meta = {"namespace": "herodotus", "name": "herodotus-endpoint"}
        ports = [{"name": "plain-http", "port": port}]
        subset = {"addresses": [{"ip": self.host, "targetRef": {"kind": "Pod"} | meta}], "ports": ports}
        running = {"nodeName": "worker-1", "containers": [{"name": "endpoint", "image": "endpoint"}]}
        objects: dict[str, dict[str, Any]] = {
            "/api/v1/namespaces": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "herodotus"}},
            "/api/v1/namespaces/herodotus/services": {
                "apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": ports}
            },
            "/api/v1/namespaces/herodotus/endpoints": {
                "apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": [subset]
            },
        }  # fmt: skip
        if self.kind == "simulated":
            self._manifest.write_text(yaml.safe_dump_all(objects.values()))
            self.start()
            return
        self._plane.wait_until_ready()
        cluster = Cluster(self.kind, self._url, {"Authorization": f"Bearer {TOKEN}"}, self.kubeconfig)
        pods = "/api/v1/namespaces/herodotus/pods"  # a real API server forwards to addresses of pods only
        objects[pods] = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": running}
        for path, body in objects.items():
            cluster.create(path, body)
        cluster.patch(
            f"{pods}/herodotus-endpoint/status", {"status": {"podIP": self.host, "podIPs": [{"ip": self.host}]}}
        )
        cluster.close()

    def start(self) -> None:
        if self.kind == "simulated":
            command = python("herodotus_sim", "--port", str(self._port), str(self._manifest))
            self._sim = Process("sim", command, self.directory / "sim.log")
            eventually(lambda: answers(f"{self._url}/version"), "the simulated API server")
        else:
            self._plane.start_apiserver()
            self._plane.wait_until_ready()

    def stop(self) -> None:
        """Stop the API server; what a real one stores stays."""
        if self.kind == "simulated":
            self._sim.stop()
        else:
            self._plane.stop_apiserver()

    def close(self) -> None:
        if self.kind == "simulated":
            self._sim.stop()
        else:
            self._plane.stop()


def answers(url: str) -> bool:
    """Return whether a server answers a GET with 200."""
    with suppress(httpx.HTTPError):
        return httpx.get(url).status_code == 200
    return False


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.e2e)])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RestartableApiServer]:
    found = RestartableApiServer(request.param, tmp_path)
    yield found
    found.close()


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_prints_each_decision_once_through_restarts_and_idle_times(api: RestartableApiServer, tmp_path: Path) -> None:
    """The service and the API server are restarted, and a load balancer closes the idle connection."""
    kubectl = shutil.which("kubectl", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if kubectl is None:
        pytest.skip("NO KUBECTL, neither in the virtual environment nor on PATH")
    port = free_port()

    def start_service() -> Process:
        command = python("herodotus_endpoint", "--bind", f"127.0.0.1:{port}", "--data", str(tmp_path / "data"))
        started = Process("endpoint", command, tmp_path / "endpoint.log")
        eventually(lambda: answers(f"http://127.0.0.1:{port}/readyz"), "the decisions service")
        return started

    def store(number: int) -> None:
        rejected = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES}
        frames = [a_decision(pod=f"pod-{number}", sequence=number, nodes=NODES, rejected=rejected)]
        content = b"".join(codec.encode(frame) for frame in ([rows(a_table(NODES))] if number == 1 else []) + frames)
        url, headers = f"http://127.0.0.1:{port}/ingest/v1/frames", {"Content-Type": codec.CONTENT_TYPE}
        response = httpx.post(url, content=content, headers=headers)
        assert response.status_code == 200, response.text

    service = start_service()
    proxy = IdleProxy(api.host, port)
    api.publish(proxy.port)
    printed, said = tmp_path / "out", tmp_path / "err"
    environ = {"KUBECTL_PATH": kubectl, "KUBECONFIG": str(api.kubeconfig), "HOME": str(tmp_path)}
    with printed.open("wb") as out, said.open("wb") as err:
        watching = subprocess.Popen(
            [sys.executable, str(ROOT / "kubectl-herodotus"), "watch", "--service", SERVICE, "--last=0", "-oname"],
            stdout=out, stderr=err, env=environ,
        )  # fmt: skip

    def wait_for_lines(count: int) -> None:
        eventually(lambda: len(printed.read_text().split()) >= count, f"{count} lines: {said.read_text()}", 60)

    try:
        eventually(lambda: proxy.watches == 1, "the watch to begin")
        store(1)
        wait_for_lines(1)
        service.kill()
        eventually(lambda: "reconnecting" in said.read_text(), "the notice of the outage", 60)
        service = start_service()
        store(2)  # before the plugin has connected again
        wait_for_lines(2)
        store(3)
        wait_for_lines(3)

        proxy.idle_limit_s = IDLE_LIMIT_S
        watches = proxy.watches
        eventually(lambda: proxy.closed and proxy.watches > watches, "the idle connection to be replaced", 60)
        proxy.idle_limit_s = 3600.0
        store(4)
        wait_for_lines(4)

        api.stop()
        store(5)
        api.start()
        store(6)
        wait_for_lines(6)
        time.sleep(1.5)  # another line would be a repetition
        assert watching.poll() is None, said.read_text()
        assert printed.read_text().split() == [f"pod/pod-{number}" for number in range(1, 7)]
    finally:
        watching.kill()
        watching.wait()
        service.kill()
        proxy.stop()
