"""Herodotus on the node as the README installs it, its volume, and what is asked of it."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import helm_python

from scheduler.recorder.recorder import HIGH_WATER_ANNOTATION
from scripts.manifests import CHART, RELEASE
from tests.node.machine import NODE, Machine
from tests.processes import ROOT, eventually

NAMESPACE: Final = "herodotus"
COMPONENTS: Final = ("scheduler", "endpoint")
SERVICE: Final = f"/api/v1/namespaces/{NAMESPACE}/services/https:herodotus-endpoint:8000/proxy"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/herodotus-scheduler"
ANSWER_S: Final = 180.0  # how long a record is waited for; whether it came in time is measured

Json = dict[str, Any]


class Installation:
    """What manifests install on the node: by default scheduler and decisions service, as the README's quick start."""

    def __init__(self, machine: Machine, manifests: Sequence[str] = ("-k", str(ROOT / "deploy"))) -> None:
        """Prepare the installation; `manifests` are the arguments of `kubectl apply` and `kubectl delete`."""
        self.machine = machine
        self._manifests = manifests
        self.volume = machine.directory / "records"

    def install(self) -> None:
        """Apply the manifests and wait until all Deployments are available."""
        self.create_volume()
        self.apply()
        self.wait_until_available()

    def apply(self) -> None:
        self.machine.kubectl("apply", *self._manifests)

    def delete(self) -> None:
        self.machine.kubectl("delete", *self._manifests, "--ignore-not-found")

    def wait_until_available(self) -> None:
        available = ("--for=condition=Available", "deployment", "--all", "--timeout=3m")
        self.machine.kubectl("-n", NAMESPACE, "wait", *available)

    def create_volume(self) -> None:
        """Create an empty volume for the service's claim, owned by root, as a new disk is."""
        shutil.rmtree(self.volume, ignore_errors=True)
        self.volume.mkdir()
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}]
        self.machine.cluster.create(
            "/api/v1/persistentvolumes",
            {
                "metadata": {"name": "records"},
                "spec": {
                    "capacity": {"storage": "6Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "local": {"path": str(self.volume)},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                },
            },
        )

    def uninstall(self) -> None:
        """Delete everything and wait until it is gone; the volume with the records too."""
        self.delete()
        self.machine.kubectl("delete", "persistentvolume", "records", "--ignore-not-found")

    def ask(self, *question: str) -> tuple[int, str, str]:
        """Ask the plugin a question; return exit code, standard output and standard error."""
        return self.machine.run(sys.executable, str(ROOT / "kubectl-herodotus"), *question)

    def measure_first_answer(self, pod: str, scheduler: str = "herodotus-scheduler") -> float:
        """Create a pod for a scheduler, and return after how many seconds the plugin explained it."""
        manifest = (ROOT / "deploy/test/deploy-default-pod.yml").read_text().replace("test-pod-1", pod)
        manifest = manifest.replace("herodotus-scheduler", scheduler)
        began = time.monotonic()
        self.machine.kubectl("apply", "-f", "-", stdin=manifest)
        eventually(lambda: self.explained_node(pod) is not None, f"the record of {pod}", ANSWER_S, 0.1)
        return time.monotonic() - began

    def explained_node(self, pod: str) -> str | None:
        """Return the node that the plugin names for a pod, or None if it has no record."""
        code, output, _ = self.ask("pod", pod, "-o", "json")
        node = json.loads(output)["outcome"]["node"] if code == 0 else None
        return None if node is None else str(node)

    def decisions(self, namespace: str) -> list[Json]:
        """Return every stored decision about pods of a namespace."""
        found: list[Json] = []
        follow = ""
        while True:
            page = self.query(f"namespaces/{namespace}/decisions?limit=500{follow}")
            found += page["items"]
            if not (cursor := page["metadata"].get("continue")):
                return found
            follow = f"&continue={quote(cursor)}"

    def incarnations(self) -> dict[str, Json]:
        """Return what the service knows of each run of a scheduler process, by its UUID."""
        return {each["metadata"]["name"]: each for each in self.query("incarnations")["items"]}

    def missing(self) -> dict[str, int]:
        """Return how many records did not arrive, by incarnation; only of those that miss any."""
        return {name: found["missing"] for name, found in self.incarnations().items() if found["missing"]}

    def query(self, path: str) -> Json:
        """Return a document of the decisions API, by the service proxy."""
        return self.machine.cluster.get(f"{SERVICE}/apis/herodotus.dev/v1alpha1/{path}")

    def lease(self) -> Json:
        return self.machine.cluster.get(LEASE)

    def high_water(self) -> tuple[str, int]:
        """Return the leader's incarnation and the sequence number of its last record, as its Lease says."""
        incarnation, sequence = self.lease()["metadata"]["annotations"][HIGH_WATER_ANNOTATION].split()
        return incarnation, int(sequence)

    def scale(self, component: str, replicas: int) -> None:
        """Set the number of pods of a component, and wait until it has as many, all of them available."""
        name = f"deployment/herodotus-{component}"
        self.machine.kubectl("-n", NAMESPACE, "scale", name, f"--replicas={replicas}")
        eventually(lambda: len(self.pods(component)) == replicas, f"{replicas} {component} pods", ANSWER_S, 0.2)
        self.roll_out(component)

    def roll_out(self, component: str) -> None:
        """Wait until all pods of a component are those of its template, and available."""
        name = f"deployment/herodotus-{component}"
        self.machine.kubectl("-n", NAMESPACE, "rollout", "status", name, "--timeout=3m")

    def pods(self, component: str) -> list[Json]:
        """Return the pods of a component, such as scheduler, that have not ended and are not being deleted."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/name=herodotus-{component}"
        found = self.machine.cluster.items(path)
        alive = [p for p in found if p["status"]["phase"] in ("Pending", "Running")]
        return [p for p in alive if "deletionTimestamp" not in p["metadata"]]

    def wait_for_restart(self, pod: Json, component: str) -> Json:
        """Wait until a pod's container runs again and is ready, and return how it ended."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
        restarts = find_status(pod, component)["restartCount"]

        def restarted() -> Json | None:
            status = find_status(self.machine.cluster.get(path), component)
            return status if status["restartCount"] > restarts and status["ready"] else None

        return dict(eventually(restarted, f"{component} to be started again", ANSWER_S, 0.3)["lastState"]["terminated"])

    def log(self, component: str, *options: str) -> str:
        return self.machine.kubectl("-n", NAMESPACE, "logs", f"deployment/herodotus-{component}", *options)


def find_status(pod: Json, container: str) -> Json:
    """Return the status of a container of a pod."""
    (found,) = (s for s in pod["status"].get("containerStatuses", ()) if s["name"] == container)
    return dict(found)


class ChartInstallation(Installation):
    """What the chart installs with given values, as `helm install` does."""

    def __init__(self, machine: Machine, values: Json) -> None:
        super().__init__(machine)
        self._values = values

    def apply(self) -> None:
        if self.machine.cluster.find(f"/api/v1/namespaces/{NAMESPACE}") is None:
            self.machine.kubectl("create", "namespace", NAMESPACE)
        with self._helm() as config, helm_python.Chart.load(CHART) as chart:
            config.install(chart, RELEASE, self._values, namespace=NAMESPACE)

    def delete(self) -> None:
        with self._helm() as config:
            config.uninstall(RELEASE, ignore_not_found=True)
        self.machine.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")

    def _helm(self) -> helm_python.Config:
        return helm_python.Config(kubeconfig_path=self.machine.cluster.kubeconfig, namespace=NAMESPACE)


@contextmanager
def installed(installation: Installation) -> Iterator[Installation]:
    """Install Herodotus for the block, and remove it afterwards."""
    try:
        installation.install()
        yield installation
    finally:
        installation.uninstall()


KINDS = "namespaces,clusterroles,clusterrolebindings,persistentvolumes,priorityclasses,apiservices"


NAMESPACED_KINDS = "roles,rolebindings,leases,configmaps,secrets,services,deployments,pods,endpointslices"


def list_leftovers(machine: Machine) -> list[str]:
    """Return the names of objects of Herodotus in the cluster."""
    found = machine.kubectl("get", KINDS, "-o", "name").splitlines()
    found += machine.kubectl("get", NAMESPACED_KINDS, "-A", "-o", "name").splitlines()
    return [name for name in found if NAMESPACE in name or name.endswith("/records")]
