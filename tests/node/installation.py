"""Herodotus on the node as the README installs it, its volume, and what is asked of it."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import helm_python

from scripts.manifests import CHART, RELEASE
from tests.node.machine import NODE, Machine
from tests.processes import ROOT, eventually

NAMESPACE: Final = "herodotus"
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

    def pods(self, component: str) -> list[Json]:
        """Return the pods of a component, such as scheduler, that are not being deleted."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/name=herodotus-{component}"
        return [pod for pod in self.machine.cluster.items(path) if "deletionTimestamp" not in pod["metadata"]]

    def log(self, component: str, *options: str) -> str:
        return self.machine.kubectl("-n", NAMESPACE, "logs", f"deployment/herodotus-{component}", *options)


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
