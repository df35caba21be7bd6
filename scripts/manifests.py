"""Renders the plain manifests in deploy/ from the chart:  make manifests

Owns: which templates, with which values, make which file, and what each file says of itself. Does not own: the objects
(deploy/chart/herodotus).

Invariant: a rendered file is never edited; tests/deploy/test_chart.py holds the files equal to what this makes.
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
OBSERVER: Final = "system:serviceaccount:herodotus:herodotus-observer"
RENDERED: Final = "# Rendered from deploy/chart by `make manifests`: change it there.\n"

# As a reader wants them: who may do what, what is configured, what runs, who may reach it.
ORDER: Final = ("rbac", "readers", "priorityclass", "configmap", "claim", "certificate", "deployment", "annotators",
                "monitor", "service", "disruption", "network", "alerts")  # fmt: skip


@dataclass(frozen=True)
class Manifest:
    """A file, relative to deploy/, and its first words.

    `parts`: folders of templates, or single ones. `made`: whether it makes its namespace.
    """

    path: str
    says: str
    parts: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = "herodotus"
    made: bool = True


def combination(name: str) -> dict[str, Any]:
    """The values of a file in deploy/chart/values."""
    return dict(yaml.safe_load((VALUES / f"{name}.yaml").read_text()))


def manifests() -> tuple[Manifest, ...]:
    """Every rendered file."""
    measuring = {key: value for key, value in combination("agents").items() if key in ("annotators", "monitor")}
    return (
        Manifest(
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
            # also from the observer's account, for deploy/observer.yaml beside it
            {"endpoint": {"persistence": {"keep": False}, "extraArgs": [f"--ingest-sender={OBSERVER}"]}},
        ),
        Manifest(
            "aggregated-api/herodotus.yaml",
            """
            Herodotus with PostgreSQL, several replicas, and `kubectl get decisions`. See kustomization.yaml beside it.
            """,
            ("scheduler", "endpoint", "monitoring/rbac"),
            combination("postgresql"),
        ),
        Manifest(
            "observer.yaml",
            """
            Explains the decisions of a scheduler that is not ours:  kubectl apply -f deploy/observer.yaml

            Goes with a decisions service (deploy/herodotus-scheduler.yml, whose scheduler may stay without pods, or be
            scaled to 0). Reads the cluster and writes nothing to it.

            The configuration below must be the one that the observed scheduler runs with, as far as it has one: without
            its profiles and plugins' arguments the observer would explain another scheduler's decisions.
            """,
            ("observer",),
            combination("observer"),
            made=False,
        ),
        Manifest(
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
        Manifest(
            "alerts.yaml",
            """
            Alerts for the Prometheus operator:  kubectl apply -f deploy/alerts.yaml
            For another Prometheus: what is under `spec` is a rule file. docs/runbooks.md has a section on each.
            """,
            ("monitoring/alerts",),
            {"monitoring": {"alerts": {"enabled": True}}},
            made=False,
        ),
    )


def rendered(manifest: Manifest) -> str:
    """The file's text."""
    with helm_python.Chart.load(CHART) as chart:
        made = chart.render(dict(manifest.values), name=RELEASE, namespace=manifest.namespace)
    documents = [_namespace(manifest.namespace)] if manifest.made else []
    for part in manifest.parts:
        chosen = [path for path in made if path.startswith(f"{CHART.name}/templates/{part}")]
        for path in sorted(chosen, key=lambda path: ORDER.index(Path(path).stem)):
            documents += _documents(made[path])
    return _comment(manifest.says) + RENDERED + "---\n".join(documents)


def _namespace(name: str) -> str:
    labels = "  labels:\n    pod-security.kubernetes.io/enforce: restricted\n"
    return f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n{labels}"


def _documents(text: str) -> list[str]:
    """Without the empty ones, and without blank lines."""
    split = re.split(r"^---\n", text, flags=re.MULTILINE)
    return [found for found in (re.sub(r"^\s*\n", "", one, flags=re.MULTILINE) for one in split) if found]


def _comment(text: str) -> str:
    lines = (line.removeprefix(" " * 12).rstrip() for line in text.strip("\n ").splitlines())
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def main() -> None:
    """Write what has changed."""
    for manifest in manifests():
        file = DEPLOY / manifest.path
        text = rendered(manifest)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            print(f"written: deploy/{manifest.path}")


if __name__ == "__main__":
    main()
