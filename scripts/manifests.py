"""Renders the plain manifests in deploy/ from the chart: `make manifests`.

Owns: which templates and values make which file, and the comment at its top. Does not own: the objects
(deploy/chart/herodotus).

Invariant: a rendered file is never edited. tests/deploy/test_chart.py compares the files with the output of this
module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import helm_python
import yaml

DEPLOY: Final = Path(__file__).parents[1] / "deploy"
CHART: Final = DEPLOY / "chart" / "herodotus"
VALUES: Final = DEPLOY / "chart" / "values"
RELEASE: Final = "herodotus"
ACCOUNT: Final = "system:serviceaccount:herodotus:herodotus-{}"
RENDERED: Final = "# Rendered from deploy/chart by `make manifests`: change it there.\n"

# The order for readers: access rights, configuration, workloads, network access.
ORDER: Final = ("rbac", "readers", "priorityclass", "configmap", "claim", "certificate", "deployment", "archive",
                "annotators", "monitor", "service", "disruption", "network", "alerts")  # fmt: skip


@dataclass(frozen=True)
class ManifestFile:
    """A rendered file, relative to deploy/, with the comment at its top.

    `parts` are template folders or single templates. With `creates_namespace` it includes its namespace.
    """

    path: str
    header: str
    parts: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = "herodotus"
    creates_namespace: bool = True


def load_values(name: str) -> dict[str, Any]:
    """Return the values of a file in deploy/chart/values."""
    return dict(yaml.safe_load((VALUES / f"{name}.yaml").read_text()))


def build_service_values(other_sender: str) -> dict[str, Any]:
    """Return the values of a service that also accepts records from `other_sender`, a component of another file.

    With these values the two files can be applied in either order.
    """
    arguments = [f"--ingest-sender={ACCOUNT.format(other_sender)}"]
    return {"endpoint": {"persistence": {"keep": False}, "extraArgs": arguments}}


def manifests() -> tuple[ManifestFile, ...]:
    """Return every rendered file."""
    measuring = {key: value for key, value in load_values("agents").items() if key in ("annotators", "monitor")}
    return (
        ManifestFile(
            "herodotus-scheduler.yml",
            """
            Herodotus in a cluster:  kubectl apply -f deploy/herodotus-scheduler.yml

            The scheduler herodotus-scheduler, beside the cluster's own: it schedules the pods that name it
            (spec.schedulerName) and no others. The decisions service herodotus-endpoint, which keeps its records and
            answers `kubectl herodotus`. To use other images without changing this file: deploy/kustomization.yaml.

            To remove it: first see to the pods that name the scheduler, for they would stay Pending
              kubectl get pods -A --field-selector spec.schedulerName=herodotus-scheduler
            then  kubectl delete -f deploy/herodotus-scheduler.yml  (the volume with the records goes with its claim).
            """,
            ("scheduler", "endpoint", "monitoring/rbac"),
            build_service_values("observer"),
        ),
        ManifestFile(
            "aggregated-api/herodotus.yaml",
            """
            Herodotus with PostgreSQL, several replicas, and `kubectl get decisions`. See kustomization.yaml beside it.
            """,
            ("scheduler", "endpoint", "monitoring/rbac"),
            load_values("postgresql"),
        ),
        ManifestFile(
            "observer.yaml",
            """
            Explains the decisions of the cluster's own scheduler:  kubectl apply -f deploy/observer.yaml

            The observer herodotus-observer, which reads the cluster and writes nothing to it, and the decisions service
            herodotus-endpoint, which keeps its records and answers `kubectl herodotus`. Nothing else is needed.

            The configuration below must be the one that the observed scheduler runs with, as far as it has one: without
            its profiles and plugins' arguments the observer would explain another scheduler's decisions.

            To remove it:  kubectl delete -f deploy/observer.yaml  (the volume with the records goes with its claim).
            Beside deploy/herodotus-scheduler.yml, which has the same service and namespace, delete only the rest:
              kubectl -n herodotus delete deployment,networkpolicy,configmap,serviceaccount herodotus-observer
              kubectl -n herodotus delete role,rolebinding herodotus-observer-ca
              kubectl delete clusterrole,clusterrolebinding herodotus-observer
            """,
            ("observer", "endpoint", "monitoring/rbac"),
            load_values("observer") | build_service_values("scheduler"),
        ),
        ManifestFile(
            "agents/measuring.yaml",
            """
            What measures nodes for the agents: three annotators and the monitor.
              kubectl apply -f deploy/agents/measuring.yaml

            Take out what is not needed. --prometheus says where Prometheus is.
            """,
            ("measuring",),
            measuring,
            namespace="herodotus-agents",
        ),
        ManifestFile(
            "alerts.yaml",
            """
            Alerts for the Prometheus operator:  kubectl apply -f deploy/alerts.yaml
            For another Prometheus: what is under `spec` is a rule file. docs/alerts.md has a section on each.
            """,
            ("monitoring/alerts",),
            {"monitoring": {"alerts": {"enabled": True}}},
            creates_namespace=False,
        ),
    )


def render(manifest: ManifestFile) -> str:
    """Return the text of a rendered file, with its comment."""
    with helm_python.Chart.load(CHART) as chart:
        templates = chart.render(dict(manifest.values), name=RELEASE, namespace=manifest.namespace)
    documents = [_namespace(manifest.namespace)] if manifest.creates_namespace else []
    for part in manifest.parts:
        chosen = [path for path in templates if path.startswith(f"{CHART.name}/templates/{part}")]
        for path in sorted(chosen, key=lambda path: ORDER.index(Path(path).stem)):
            documents += _split_documents(templates[path])
    return _comment(manifest.header) + RENDERED + "---\n".join(documents)


def _namespace(name: str) -> str:
    labels = "  labels:\n    pod-security.kubernetes.io/enforce: restricted\n"
    return f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n{labels}"


def _split_documents(text: str) -> list[str]:
    """Return the YAML documents of a text, without empty documents and blank lines."""
    split = re.split(r"^---\n", text, flags=re.MULTILINE)
    documents = (re.sub(r"^\s*\n", "", part, flags=re.MULTILINE) for part in split)
    return [document for document in documents if document]


def _comment(text: str) -> str:
    lines = (line.removeprefix(" " * 12).rstrip() for line in text.strip("\n ").splitlines())
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def main() -> None:
    """Render every file, and write those whose text changed."""
    for manifest in manifests():
        file = DEPLOY / manifest.path
        text = render(manifest)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            print(f"written: deploy/{manifest.path}")


if __name__ == "__main__":
    main()
