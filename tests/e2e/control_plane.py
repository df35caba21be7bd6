"""A real etcd and kube-apiserver, found by the envtest convention."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.processes import PATIENCE_S, Process, eventually, free_port

TOKEN = "e2e-admin"
# No controller creates service accounts, removes the taint of a new node or the finalizer of a volume.
WITHOUT_CONTROLLERS = ("ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection")


def assets() -> Path | None:
    """Return the folder with etcd and kube-apiserver: KUBEBUILDER_ASSETS, its default, or setup-envtest's newest."""
    data = Path(os.environ.get("XDG_DATA_HOME", str(Path.home() / ".local/share")))
    store = sorted((data / "kubebuilder-envtest/k8s").glob("*/"), reverse=True)
    named = os.environ.get("KUBEBUILDER_ASSETS")
    for folder in [Path(named)] if named else [Path("/usr/local/kubebuilder/bin"), *store]:
        if (folder / "etcd").exists() and (folder / "kube-apiserver").exists():
            return folder
    return None


class ControlPlane:
    """An etcd and a kube-apiserver with RBAC, without controllers and kubelets."""

    def __init__(
        self, binaries: Path, directory: Path, *flags: str, disabled_admission: Sequence[str] = WITHOUT_CONTROLLERS
    ) -> None:
        """Start both; `flags` are further flags of kube-apiserver, `disabled_admission` its disabled plugins."""
        self.directory = directory
        etcd, peer, self.port = free_port(), free_port(), free_port()
        url, peer_url = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        self.url = f"https://127.0.0.1:{self.port}"
        self.ca = directory / "certs/apiserver.crt"
        key = directory / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        subprocess.run(
            ["openssl", "rsa", "-in", key, "-pubout", "-out", directory / "sa.pub"], check=True, capture_output=True
        )
        (directory / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        self._etcd = Process(
            "etcd",
            [
                str(binaries / "etcd"),
                f"--data-dir={directory / 'etcd'}",
                f"--listen-client-urls={url}",
                f"--advertise-client-urls={url}",
                f"--listen-peer-urls={peer_url}",
                f"--initial-advertise-peer-urls={peer_url}",
                f"--initial-cluster=default={peer_url}",
                "--unsafe-no-fsync",
            ],
            directory / "etcd.log",
        )
        self._command = [
            str(binaries / "kube-apiserver"),
            f"--etcd-servers={url}",
            f"--cert-dir={directory / 'certs'}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--service-account-issuer={self.url}/",
            f"--service-account-key-file={directory / 'sa.pub'}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            f"--disable-admission-plugins={','.join(disabled_admission)}",
            "--shutdown-watch-termination-grace-period=1s",
            "--endpoint-reconciler-type=none",
            f"--token-auth-file={directory / 'tokens.csv'}",
            *flags,
        ]
        self.start_apiserver()

    def start_apiserver(self) -> None:
        """Start kube-apiserver, with the data that etcd holds."""
        self._apiserver = Process("kube-apiserver", self._command, self.directory / "apiserver.log")

    def stop_apiserver(self) -> None:
        """Stop kube-apiserver and leave etcd running."""
        self._apiserver.stop(90.0)

    @property
    def apiserver_pid(self) -> int:
        return self._apiserver.pid

    @property
    def etcd_pid(self) -> int:
        return self._etcd.pid

    def wait_until_ready(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait for /readyz; raise AssertionError if a process exits or the time is over."""

        def ready() -> bool:
            if not self._apiserver.running:
                raise AssertionError(f"kube-apiserver ended:\n{self._apiserver.output()[-2000:]}")
            try:
                return httpx.get(f"{self.url}/readyz", verify=False).status_code == 200
            except httpx.HTTPError:
                return False

        eventually(ready, "kube-apiserver to be ready", timeout_s, every_s=0.2)

    def kubeconfig(self) -> dict[str, Any]:
        """Return a kubeconfig of the administrator."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {"server": self.url, "certificate-authority": str(self.ca)}}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
            "current-context": "e2e",
        }

    def stop(self) -> None:
        self._apiserver.stop(90.0)
        self._etcd.stop()
