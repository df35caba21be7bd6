"""Credentials: kubeconfig, `--master`, and the surrounding cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from herodotus_kube.credentials import KubeconfigError, find_credentials
from tests.processes import ROOT
from tests.support.kubeconfigs import write_kubeconfig


def test_reads_a_kubeconfig(tmp_path: Path) -> None:
    credentials = find_credentials(kubeconfig=write_kubeconfig(tmp_path), context="x", master=None)
    assert (credentials.url, credentials.tls, credentials.headers()) == ("http://127.0.0.1:9", None, {})


def test_master_overrides_the_server_of_the_kubeconfig(tmp_path: Path) -> None:
    credentials = find_credentials(kubeconfig=write_kubeconfig(tmp_path), context=None, master="http://10.0.0.1:1/")
    assert credentials.url == "http://10.0.0.1:1"


def test_master_alone_needs_no_kubeconfig() -> None:
    credentials = find_credentials(kubeconfig=None, context=None, master="http://127.0.0.1:8001/")
    assert (credentials.url, credentials.tls, credentials.headers()) == ("http://127.0.0.1:8001", None, {})


@pytest.mark.parametrize("server", ["https://exa mple:x", "127.0.0.1:1", "ftp://a", "http://"])
def test_rejects_a_server_that_is_no_url(tmp_path: Path, server: str) -> None:
    path = Path(write_kubeconfig(tmp_path))
    path.write_text(path.read_text().replace("http://127.0.0.1:9", server))
    with pytest.raises(KubeconfigError, match="is not a URL such as"):
        find_credentials(kubeconfig=str(path), context=None, master=None)


def test_rejects_binary_data(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(KubeconfigError, match="is not a kubeconfig"):
        find_credentials(kubeconfig=str(path), context=None, master=None)


@pytest.mark.parametrize("text", ["", "[", "- a", "clusters: 3", "current-context: x"], ids=repr)
def test_rejects_a_malformed_kubeconfig_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(KubeconfigError) as raised:
        find_credentials(kubeconfig=str(path), context=None, master=None)
    assert str(raised.value).startswith((f"kubeconfig {path}: ", f"{path} is not a kubeconfig: "))
    assert "\n" not in str(raised.value)


def test_in_cluster_ignores_a_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="Service host"):
        find_credentials(kubeconfig=write_kubeconfig(tmp_path), in_cluster=True)


def test_the_service_account_is_read_without_the_readers_of_kubeconfigs() -> None:
    code = (
        "import json, sys; from herodotus_kube.credentials import KubeconfigError, find_credentials\n"
        "try:\n    find_credentials()\n"
        "except KubeconfigError as e:\n    failed = str(e)\n"
        "imported = sorted(sys.modules)\n"
        "from kubernetes.config import load_kube_config\n"
        "print(json.dumps([failed, imported, callable(load_kube_config)]))"
    )
    environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "9"}
    inherited = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    failed, imported, is_whole_later = json.loads(run.stdout)
    assert "Service token file does not exist" in failed
    assert {"kubernetes.config.kube_config", "requests", "pydantic"} & set(imported) == set()
    assert is_whole_later, "who imports the package afterwards gets the whole"
