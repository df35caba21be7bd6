"""What to do when the decisions service or the API server does not answer.

Owns: these hints. Does not own: errors (`kubectl`), the programs of the demo (install.sh).

In the demo of install.sh no pod runs the decisions service, so its hints name install.sh instead. The demo is
recognized by its kubeconfig, which is in the folder `demo` of an installation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herodotus_cli import kubeconfig
from herodotus_cli.connection import ConnectionSettings
from herodotus_record.installation import find_installer

_CLUSTER = (
    "which cluster is it?  kubectl cluster-info; KUBECONFIG, --kubeconfig and --context name another",
    "or ask the decisions service directly: --endpoint URL",
)


def describe_service_check(connection: ConnectionSettings, environ: Mapping[str, str]) -> str:
    """Return how to see whether the decisions service runs; in the demo, how to start it again."""
    installer = _find_demo(connection, environ)
    if installer is not None:
        return f"the demo's service may have ended; start it again: {installer} --demo-restart endpoint"
    return f"is it running?  kubectl -n {connection.service.namespace} get pods"


def describe_cluster_check(connection: ConnectionSettings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return how to see which API server was asked; in the demo, how to start its cluster again."""
    installer = _find_demo(connection, environ)
    return _CLUSTER if installer is None else (f"the demo may have ended; start it again: {installer} --demo",)


def _find_demo(connection: ConnectionSettings, environ: Mapping[str, str]) -> str | None:
    """Return the command line of install.sh if the demo's cluster is asked, and None otherwise."""
    files = kubeconfig.files(environ, connection.kubeconfig)
    if len(files) != 1 or (folder := Path(files[0]).absolute().parent).name != "demo":
        return None
    return find_installer(folder.parent)
