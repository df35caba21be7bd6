"""Reports of each kind, of a simulated cluster: complete, readable on a screen, a phone and paper, and as Markdown."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from markdown_it import MarkdownIt

from herodotus_cli.commands.report import build_report
from herodotus_cli.environment import Environment
from herodotus_cli.render.reports import FORMATS, draw
from herodotus_cli.render.reports.cluster import TITLE
from herodotus_sim import SimulatedCluster
from tests.cli.scenes import NOW
from tests.endpoint.pages.browser import chromium

Json = dict[str, Any]
KINDS = {
    "pod": ("pod", "huge"),
    "node": ("node", "worker-1"),
    "workload": ("workload", "rs/web"),
    "pending": ("pending",),
    "drain": ("drain", "worker-1"),
    "capacity": ("capacity", "pod", "huge"),
    "plan": ("plan", "pod", "huge"),
}
MAX_BYTES = 40_000


def manifests() -> Iterator[tuple[str, Json]]:
    """Yield paths and objects: three nodes in two zones, a ReplicaSet with its pods, and a pod that fits nowhere."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    for i in (1, 2, 3):
        metadata: Json = {"name": f"worker-{i}", "labels": {"topology.kubernetes.io/zone": f"zone-{i % 2}"}}
        info = {"allocatable": amounts, "capacity": amounts, "nodeInfo": {"kubeletVersion": f"v1.3{4 + i % 2}.0"}}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        spec = {"unschedulable": True} if i == 3 else {}
        yield "/api/v1/nodes", {"metadata": metadata, "spec": spec, "status": info | ready}
    template: Json = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec("1")}
    replica_set = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    yield (
        "/apis/apps/v1/namespaces/default/replicasets",
        {"metadata": {"name": "web", "uid": "u-web"}, "spec": replica_set, "status": {"replicas": 3}},
    )
    owner: Json = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-web", "controller": True}
    for i in range(3):
        metadata = {"name": f"web-{i}", "labels": {"app": "web"}, "ownerReferences": [owner]}
        spec = pod_spec("1") | {"nodeName": f"worker-{1 + i % 2}"}
        yield "/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": spec}
    yield "/api/v1/namespaces/default/pods", {"metadata": {"name": "huge"}, "spec": pod_spec("40")}


def pod_spec(cpu: str) -> Json:
    container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container], "schedulerName": "default-scheduler"}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a report of each kind in each format."""
    folder = tmp_path_factory.mktemp("reports")
    sim = SimulatedCluster().start()
    try:
        for path, manifest in manifests():
            assert httpx.post(sim.url + path, json=manifest).status_code == 201
        where = ("--local", "--kubeconfig", str(sim.write_kubeconfig(folder / "kubeconfig")))
        environ = {
            "KUBECTL_PATH": str(Path(sys.executable).with_name("kubectl")),
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
        }
        environment = Environment(environ, StringIO(), lambda: NOW, int)
        for kind, (subject, *words) in KINDS.items():
            report = build_report(subject, [*words, *where], environment)
            for format_, end in FORMATS.items():
                (folder / f"{kind}{end}").write_text(draw(report, format_))
        yield folder
    finally:
        sim.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_report_says_how_the_cluster_was(reports: Path, kind: str) -> None:
    text = (reports / f"{kind}.md").read_text()
    section = text.partition(f"## {TITLE}")[2]
    assert "**NODES** 3, 1 cordoned" in section
    assert "**PODS** 3 on nodes" in section
    assert "**REQUESTS** cpu 3 of 12 (25%); memory 0 of 24Gi (0%)" in section
    assert "kubelet v1.34.0 on 1 node, kubelet v1.35.0 on 2 nodes" in section
    assert "| worker-1 | zone-1 | 2 | 2 of 4 | 0 of 8Gi | 50% | – |" in section
    assert "| **worker-3** | zone-1 | 0 | 0 of 4 | 0 of 8Gi | 0% | cordoned |" in section


@pytest.mark.parametrize("kind", KINDS)
def test_markdown_is_read_by_a_standard_library(reports: Path, kind: str) -> None:
    text = (reports / f"{kind}.md").read_text()
    assert len(text.encode()) < MAX_BYTES
    rendered = MarkdownIt("commonmark").enable("table").render(text)
    assert rendered.count("<h1>") == 1
    tables = sum(line.startswith("| ") and "--" in line and not line.strip("| -:") for line in text.splitlines())
    assert rendered.count("<table>") == tables > 0
    assert "<p>|" not in rendered


def test_report_on_pending_pods_has_their_reason_and_fix(reports: Path) -> None:
    rows = (reports / "pending.md").read_text().partition("| PODS | OLDEST | REASON |")[2].splitlines()
    assert "default/huge" in rows[2]
    assert "**FIX " in rows[3]


# The names in tables of few columns that take more than one line.
BROKEN_NAMES = """() => [...document.querySelectorAll("table:not(.wide, .long) .name")].filter((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return range.getClientRects().length > 1;
}).map((cell) => cell.textContent)"""


# The sentences in the last columns of tables that are not whole on a screen before it is scrolled to the right.
CUT_SENTENCES = """() => [...document.querySelectorAll("td:last-child")].filter((cell) =>
  cell.textContent.length > 20 && cell.textContent.includes(" ") && cell.getBoundingClientRect().right > innerWidth
).map((cell) => cell.textContent)"""


def test_pages_fit_screen_phone_and_paper_and_are_accessible(reports: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    wrong: list[tuple[object, ...]] = []
    with chromium() as browser:
        for kind in KINDS:
            file = reports / f"{kind}.html"
            assert file.stat().st_size < MAX_BYTES
            for width, media in ((1440, "screen"), (390, "screen"), (794, "print")):
                page = browser.new_page(viewport={"width": width, "height": 900})
                if media == "print":
                    page.emulate_media(media="print")
                page.goto(file.as_uri())
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    wrong.append((kind, width, media, "overflows"))
                wrong += [(kind, width, media, text) for text in page.evaluate(BROKEN_NAMES)]
                wrong += [(kind, width, media, text) for text in page.evaluate(CUT_SENTENCES)]
                found = Axe().run(page).response["violations"] if media == "screen" else ()
                wrong += [(kind, width, f["id"]) for f in found if f["impact"] in ("serious", "critical")]
                page.close()
    assert wrong == []
