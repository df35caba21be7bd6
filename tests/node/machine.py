"""One real node: containerd and the kubelet beside a control plane, and pods in containers.

Everything is in one directory and ends with the block, also after a failure: containers, their mounts, network
namespaces and cgroups, the bridge and the processes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
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
    """A running node with its control plane. `directory` has the logs of every program, and is the home of kubectl."""

    cluster: Cluster
    directory: Path
    binaries: Path
    node: Node

    def kubectl(self, *arguments: str, stdin: str = "", timeout_s: float = READY_S) -> str:
        """Run kubectl as the administrator and return its output; raise AssertionError if it fails."""
        code, output, error = self.run("kubectl", *arguments, stdin=stdin, timeout_s=timeout_s)
        assert code == 0, f"kubectl {' '.join(arguments)}: {output}{error}{self.describe_pods()}"
        return output

    def run(self, *command: str, stdin: str = "", timeout_s: float = READY_S) -> tuple[int, str, str]:
        """Run a command with only a kubeconfig; return exit code, standard output and standard error."""
        path = f"{self.binaries}:{os.environ['PATH']}"
        environment = {"KUBECONFIG": str(self.cluster.kubeconfig), "HOME": str(self.directory), "PATH": path}
        done = subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def find_process(self, pod: Json, container: str) -> int:
        """Return the process ID of a running container of a pod."""
        name = _container_id(pod, container)
        for line in self.node.ctr("tasks", "list").stdout.splitlines():
            if line.startswith(name):
                return int(line.split()[1])
        raise AssertionError(f"no task of {pod['metadata']['name']}, {container}: {name}")

    def execute(self, pod: Json, container: str, *command: str) -> None:
        """Run a command in a container, with its user, limits and cgroup; wait until it ends, with any result."""
        self.node.ctr(
            "tasks", "exec", "--exec-id", f"exec-{time.monotonic_ns()}", _container_id(pod, container), *command
        )

    def tag_image(self, name: str, new: str) -> None:
        """Give an image of the node another name."""
        done = self.node.ctr("images", "tag", name, new)
        assert done.returncode == 0, done.stderr

    def find_volume(self, pod: Json, volume: str) -> Path:
        """Return the folder of an emptyDir volume of a pod."""
        return self.directory / f"kubelet/pods/{pod['metadata']['uid']}/volumes/kubernetes.io~empty-dir/{volume}"

    def restart_node(self) -> None:
        """End kubelet, containers and containerd at once and start them again, as a node that is switched off and on.

        Disks keep their content; what is in memory, such as an emptyDir of the medium Memory, is gone.
        """
        self.node.stop()
        self.node.start()

    def describe_pods(self) -> str:
        """Return the state of all pods and the latest events, for a failure's message."""
        pods = self.run("kubectl", "get", "pods", "-A", "-o", "wide")[1]
        events = self.run("kubectl", "get", "events", "-A", "--sort-by=.lastTimestamp")[1].splitlines()[-15:]
        return "\n".join(["", pods, *events])


def _container_id(pod: Json, container: str) -> str:
    (status,) = (s for s in pod["status"]["containerStatuses"] if s["name"] == container)
    return str(status["containerID"]).removeprefix("containerd://")


@contextmanager
def run_machine(binaries: Path, directory: Path, archives: Sequence[Path]) -> Iterator[Machine]:
    """Run a control plane and one node that has these images; end and remove everything with the block."""
    with ExitStack() as closing:
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
        node = Node(binaries, directory)
        closing.callback(node.remove_traces, _find_cgroups())
        closing.callback(node.stop)
        node.start(archives)
        machine = Machine(cluster, directory, binaries, node)
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


def _find_cgroups() -> set[Path]:
    """Return the cgroups in which kubelets have their pods: one, or with cgroup v1 one of each controller."""
    return {*CGROUPS.glob("kubepods"), *CGROUPS.glob("*/kubepods")}


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


class Node:
    """containerd and the kubelet. They can be stopped and started again; their files are in one directory."""

    def __init__(self, binaries: Path, directory: Path) -> None:
        """Write the configuration of both."""
        self._binaries, self._directory = binaries, directory
        self._socket = directory / SOCKET
        self._state = directory / "containerd-state"
        self._running: list[Process] = []
        (directory / "containerd.toml").write_text(self._containerd_configuration())
        (directory / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet_configuration()))

    def start(self, archives: Sequence[Path] = ()) -> None:
        """Start containerd, import images, and start the kubelet."""
        directory = self._directory
        self._run("containerd", "containerd", f"--config={directory / 'containerd.toml'}")
        eventually(lambda: self.ctr("version").returncode == 0, "containerd to serve", every_s=0.3)
        for archive in archives:
            done = self.ctr("images", "import", str(archive))
            assert done.returncode == 0, done.stderr
        command = [str(self._binaries / "kubelet"), f"--config={directory / 'kubelet.yaml'}", "--v=2"]
        command += [f"--kubeconfig={directory / 'kubeconfig'}", f"--hostname-override={NODE}", f"--node-ip={GATEWAY}"]
        command += [f"--root-dir={directory / 'kubelet'}", f"--cert-dir={directory / 'kubelet-pki'}"]
        self._run("kubelet", *command)

    def stop(self) -> None:
        """Kill the kubelet, all containers and containerd, and unmount what they have mounted."""
        while self._running:
            process = self._running.pop()
            if process.name == "containerd":
                self._kill_containers()
            process.kill()
        self._unmount()
        shutil.rmtree(self._state, ignore_errors=True)

    def ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of containerd's client on the kubelet's containers."""
        command = ["ctr", "--address", str(self._socket), "--namespace", "k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    def remove_traces(self, cgroups_before: set[Path]) -> None:
        """Remove what a stopped kubelet leaves outside its directory: links to logs, a socket, and cgroups."""
        for link in Path("/var/log/containers").glob("*.log"):
            if str(link.readlink()).startswith(str(self._directory)):
                link.unlink()
        Path("/var/lib/kubelet/device-plugins/kubelet.sock").unlink(missing_ok=True)
        for left in ("/var/log/containers", "/var/lib/kubelet/device-plugins", "/var/lib/kubelet"):
            with suppress(OSError):  # it has other content, or is not there
                Path(left).rmdir()
        for top in _find_cgroups() - cgroups_before:
            for path in sorted((p for p in [top, *top.rglob("*")] if p.is_dir()), reverse=True):  # deepest first
                with suppress(OSError):
                    path.rmdir()

    def _run(self, name: str, *command: str) -> None:
        self._running.append(Process(name, [*command], self._directory / f"{name}.log"))

    def _kill_containers(self) -> None:
        """Kill all containers, so that containerd leaves no shim and no mount."""
        for task in self.ctr("tasks", "list", "--quiet").stdout.split():
            self.ctr("tasks", "delete", "--force", task)
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if b"containerd-shim" in (line := command.read_bytes()) and str(self._socket).encode() in line:
                    os.kill(int(command.parent.name), signal.SIGKILL)

    def _unmount(self) -> None:
        """Unmount everything below the directory."""
        mounted = subprocess.run(["findmnt", "--json", "--list"], capture_output=True, text=True, check=True)
        targets = [m["target"] for m in json.loads(mounted.stdout)["filesystems"]]
        for target in sorted((t for t in targets if t.startswith(f"{self._directory}/")), reverse=True):
            subprocess.run(["umount", "--lazy", target], capture_output=True, check=False)

    def _containerd_configuration(self) -> str:
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        return f"""
version = 2
root = "{self._directory}/containerd"
state = "{self._state}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
address = "{self._socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{self._directory}/opt"
[{cri}]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true # where this process may not lower it, containers would not start
[{cri}.cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = "{self._directory}/cni"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""

    def _kubelet_configuration(self) -> Json:
        return {
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
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "podLogsDir": str(self._directory / "pod-logs"),
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "volumeStatsAggPeriod": "5s",  # by default a minute, which an eviction waits for
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "resolvConf": "",
            "makeIPTablesUtilChains": False,  # it would leave them
        }
