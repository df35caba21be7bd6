"""One real node: containerd and the kubelet beside a control plane, and pods in containers.

Everything is in one directory and ends with the block, also after a failure: containers, their mounts, network
namespaces and cgroups, the bridge and the processes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import TOKEN, ControlPlane
from tests.node.images import PAUSE
from tests.node.network import DOMAIN, GATEWAY, ServiceNames, create_network
from tests.node.requirements import CNI_PLUGINS
from tests.processes import Process, eventually, free_port

NODE: Final = "node-1"
CGROUPS: Final = Path("/sys/fs/cgroup")
SOCKET: Final = "containerd.sock"
READY_S: Final = 300.0  # a busy machine starts slowly

Json = dict[str, Any]


@dataclass(frozen=True)
class Machine:
    """A running node with its control plane. `directory` has the logs of every program."""

    cluster: Cluster
    directory: Path
    binaries: Path
    home: Path

    def kubectl(self, *arguments: str, stdin: str = "", timeout_s: float = READY_S) -> str:
        """Run kubectl as the administrator and return its output; raise AssertionError if it fails."""
        code, output, error = self.run("kubectl", *arguments, stdin=stdin, timeout_s=timeout_s)
        assert code == 0, f"kubectl {' '.join(arguments)}: {output}{error}{self.describe_pods()}"
        return output

    def run(self, *command: str, stdin: str = "", timeout_s: float = READY_S) -> tuple[int, str, str]:
        """Run a command with only a kubeconfig; return exit code, standard output and standard error."""
        path = f"{self.binaries}:{os.environ['PATH']}"
        environment = {"KUBECONFIG": str(self.cluster.kubeconfig), "HOME": str(self.home), "PATH": path}
        done = subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def find_process(self, pod: Json, container: str) -> int:
        """Return the process ID of a running container of a pod."""
        (status,) = (s for s in pod["status"]["containerStatuses"] if s["name"] == container)
        name = status["containerID"].removeprefix("containerd://")
        for line in _ctr(self.directory / SOCKET, "tasks", "list").stdout.splitlines():
            if line.startswith(name):
                return int(line.split()[1])
        raise AssertionError(f"no task of {pod['metadata']['name']}: {status}")

    def describe_pods(self) -> str:
        """Return the state of all pods and the latest events, for a failure's message."""
        pods = self.run("kubectl", "get", "pods", "-A", "-o", "wide")[1]
        events = self.run("kubectl", "get", "events", "-A", "--sort-by=.lastTimestamp")[1].splitlines()[-15:]
        return "\n".join(["", pods, *events])


@contextmanager
def run_machine(binaries: Path, directory: Path, archives: Sequence[Path]) -> Iterator[Machine]:
    """Run a control plane and one node that has these images; end and remove everything with the block."""
    with ExitStack() as closing:
        closing.callback(_remove_mounts, directory)
        plane = ControlPlane(binaries, directory, "--bind-address=0.0.0.0", disabled_admission=["NodeRestriction"])
        closing.callback(plane.stop)
        plane.wait_until_ready()
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(plane.kubeconfig()))
        cluster = Cluster("real", plane.url, {"Authorization": f"Bearer {TOKEN}"}, kubeconfig)
        closing.callback(cluster.close)
        create_network(plane.port, directory / "cni", closing)
        names = ServiceNames(lambda namespace, service: _find_addresses(cluster, namespace, service))
        closing.callback(names.close)
        _start_controllers(binaries, directory, kubeconfig, closing)
        closing.callback(_remove_cgroups, set(CGROUPS.glob("*/kubepods")))  # when the containers have ended
        socket = _start_containerd(directory, archives, closing)
        _start_kubelet(binaries, directory, socket, closing)
        machine = Machine(cluster, directory, binaries, directory)
        eventually(lambda: _is_ready(cluster), f"the node to be ready: {directory / 'kubelet.log'}", READY_S, 0.5)
        yield machine


def _find_addresses(cluster: Cluster, namespace: str, service: str) -> list[str] | None:
    """Return the addresses of the ready pods of a Service, or None if there is no such Service."""
    if cluster.find(f"/api/v1/namespaces/{namespace}/services/{service}") is None:
        return None
    slices = cluster.items(
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        f"?labelSelector=kubernetes.io/service-name={service}"
    )
    endpoints = [endpoint for each in slices for endpoint in each["endpoints"] or ()]
    return [address for e in endpoints if e["conditions"].get("ready") for address in e["addresses"]]


def _is_ready(cluster: Cluster) -> bool:
    node = cluster.find(f"/api/v1/nodes/{NODE}")
    if node is None or node["spec"].get("taints"):
        return False
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))


def _start_controllers(binaries: Path, directory: Path, kubeconfig: Path, closing: ExitStack) -> None:
    """Start kube-controller-manager with all of its controllers, and kube-scheduler."""
    ports = ("--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={directory / 'certs-s'}")
    command = [str(binaries / "kube-scheduler"), f"--kubeconfig={kubeconfig}", "--leader-elect=false", *ports]
    closing.callback(Process("kube-scheduler", command, directory / "kube-scheduler.log").stop)
    command = [str(binaries / "kube-controller-manager"), f"--kubeconfig={kubeconfig}", "--leader-elect=false"]
    command += ["--secure-port=0", f"--service-account-private-key-file={directory / 'sa.key'}"]
    command += [f"--root-ca-file={directory / 'certs/apiserver.crt'}", "--pvclaimbinder-sync-period=1s"]
    closing.callback(Process("kube-controller-manager", command, directory / "controllers.log").stop)


def _start_containerd(directory: Path, archives: Sequence[Path], closing: ExitStack) -> Path:
    """Start containerd, import the images, and return its socket."""
    socket = directory / SOCKET
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    (directory / "containerd.toml").write_text(
        f"""
version = 2
root = "{directory}/containerd"
state = "{directory}/containerd-state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{directory}/opt"
[{cri}]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true # where this process may not lower it, containers would not start
[{cri}.cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = "{directory}/cni"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""
    )
    process = Process(
        "containerd", ["containerd", "--config", str(directory / "containerd.toml")], directory / "containerd.log"
    )
    closing.callback(process.stop)
    closing.callback(_remove_containers, socket)
    eventually(lambda: _ctr(socket, "version").returncode == 0, "containerd to serve", every_s=0.3)
    for archive in archives:
        done = _ctr(socket, "images", "import", str(archive))
        assert done.returncode == 0, done.stderr
    return socket


def _ctr(socket: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["ctr", "--address", str(socket), "--namespace", "k8s.io", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def _start_kubelet(binaries: Path, directory: Path, socket: Path, closing: ExitStack) -> None:
    root = directory / "kubelet"
    configuration = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": free_port(),
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},  # on loopback alone
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [GATEWAY],
        "clusterDomain": DOMAIN,
        "containerRuntimeEndpoint": f"unix://{socket}",
        "podLogsDir": str(directory / "pod-logs"),
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "resolvConf": "",
        "makeIPTablesUtilChains": False,  # it would leave them
    }
    (directory / "kubelet.yaml").write_text(yaml.safe_dump(configuration))
    command = [str(binaries / "kubelet"), f"--config={directory / 'kubelet.yaml'}", f"--root-dir={root}"]
    command += [f"--kubeconfig={directory / 'kubeconfig'}", f"--hostname-override={NODE}", "--v=2"]
    command += [f"--node-ip={GATEWAY}", f"--cert-dir={directory / 'kubelet-pki'}"]
    closing.callback(_remove_kubelet_traces, directory)
    closing.callback(Process("kubelet", command, directory / "kubelet.log").stop)


def _remove_kubelet_traces(directory: Path) -> None:
    """Remove what the kubelet leaves outside its root directory: links to logs and a socket."""
    for link in Path("/var/log/containers").glob("*.log"):
        if str(link.readlink()).startswith(str(directory)):
            link.unlink()
    Path("/var/lib/kubelet/device-plugins/kubelet.sock").unlink(missing_ok=True)
    for left in ("/var/log/containers", "/var/lib/kubelet/device-plugins", "/var/lib/kubelet"):
        with suppress(OSError):  # it has other content, or is not there
            Path(left).rmdir()


def _remove_containers(socket: Path) -> None:
    """Kill and remove all containers with their sandboxes, so that containerd leaves no shim and no mount."""
    for task in _ctr(socket, "tasks", "list", "--quiet").stdout.split():
        _ctr(socket, "tasks", "delete", "--force", task)
    for container in _ctr(socket, "containers", "list", "--quiet").stdout.split():
        _ctr(socket, "containers", "delete", container)
    shims = re.compile(re.escape(str(socket)).encode())
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if b"containerd-shim" in (line := command.read_bytes()) and shims.search(line):
                os.kill(int(command.parent.name), signal.SIGKILL)


def _remove_mounts(directory: Path) -> None:
    """Unmount everything below a directory, and the network namespaces of the pods' sandboxes, which nobody uses."""
    mounted = subprocess.run(["findmnt", "--json", "--list"], capture_output=True, text=True, check=True)
    targets = [m["target"] for m in json.loads(mounted.stdout)["filesystems"]]
    for target in sorted((t for t in targets if t.startswith(f"{directory}/")), reverse=True):
        subprocess.run(["umount", "--lazy", target], capture_output=True, check=False)


def _remove_cgroups(before: set[Path]) -> None:
    """Remove the kubelet's cgroups, whose processes have ended, deepest first."""
    for top in set(CGROUPS.glob("*/kubepods")) - before:
        for path in sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True):
            with suppress(OSError):
                path.rmdir()
        with suppress(OSError):
            top.rmdir()
