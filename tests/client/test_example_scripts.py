"""The scripts of docs/examples ask a decisions service and plot what it answers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest

from herodotus_client import Client
from tests.builders import bound
from tests.endpoint.service import Service, a_service, rows
from tests.processes import ROOT
from tests.support.client_records import NOWHERE, POINTS, TABLE, decided

EXAMPLES = ROOT / "docs/examples"
SCRIPTS = {
    "pending_reasons": [],
    "placement_balance": ["--hours", "1000000"],
    "score_distributions": ["shop", "web-1"],
}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = a_service(tmp_path)
    placed, other, waits = (
        decided("web-1", 1, points=POINTS),
        decided("web-3", 3, points=POINTS),
        decided("web-2", 5, rejected=NOWHERE),
    )
    outcomes = bound(placed, TABLE, sequence=2), bound(other, TABLE, sequence=4)
    made.stored(rows(TABLE), placed, outcomes[0], other, outcomes[1], waits)
    yield made
    made.store.close()


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client("http://service.test", transport=httpx.WSGITransport(service.client.application)) as made:
        yield made


def load(name: str) -> Any:
    """Return the module of a script."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_script_is_tested() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == SCRIPTS.keys()


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_writes_a_picture(service: Service, tmp_path: Path, name: str) -> None:
    picture = tmp_path / "plot.png"
    with make_server("127.0.0.1", 0, service.client.application, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            command = [sys.executable, str(EXAMPLES / f"{name}.py"), url, *SCRIPTS[name], "--output", str(picture)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
        finally:
            server.shutdown()
            thread.join()
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(PNG)


def test_reasons_have_a_bar_each(client: Client) -> None:
    (axes,) = load("pending_reasons").plot(client, "shop").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Insufficient cpu"]
    assert [bar.get_width() for bar in axes.patches] == [1]


def test_balance_plots_placements_over_time_and_by_node(client: Client) -> None:
    over_time, by_node = load("placement_balance").plot(client, 1_000_000).axes
    placed, most = (line.get_ydata() for line in over_time.lines)
    assert sum(placed) == 2
    assert all(most <= placed)
    assert [bar.get_height() for bar in by_node.patches] == [2, 0, 0]


def test_scores_have_a_box_for_each_plugin_and_a_point_for_the_chosen_node(client: Client) -> None:
    (axes,) = load("score_distributions").plot(client, "shop", "web-1").axes
    plugins = [label.get_text() for label in axes.get_yticklabels()]
    (chosen,) = (line for line in axes.lines if line.get_label() == "chosen: worker-2")
    assert dict(zip(plugins, chosen.get_xdata(), strict=True))["NodeResourcesFit"] == 90


def test_a_pod_without_scores_is_refused_with_the_reason(client: Client) -> None:
    with pytest.raises(ValueError, match="no node was scored for shop/web-2"):
        load("score_distributions").plot(client, "shop", "web-2")
