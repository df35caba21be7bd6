"""Reports of the plugin disclose no more than the answers: they are made with the reader's rights.

The records hold canaries (`canaries`); each reader's plugin asks a service that masks for that reader.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from herodotus_cli import transport
from herodotus_cli.command_line import run
from herodotus_cli.commands.report import build_report
from herodotus_cli.environment import Environment
from herodotus_cli.errors import CliError, from_service_error
from herodotus_cli.render.reports import FORMATS, AnswerReport, draw
from herodotus_client.responses import ServiceError, parse_response
from tests.cli.scenes import NOW
from tests.endpoint.access.canaries import NODES, find_canaries
from tests.endpoint.access.canary_scene import Scene, open_scene
from tests.endpoint.reviewer import bearer

Json = dict[str, Any]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with open_scene(tmp_path_factory.mktemp("service")) as opened:
        yield opened


class ReaderTransport:
    """A transport that asks the scene's service as one reader."""

    def __init__(self, scene: Scene, reader: str) -> None:
        self._client, self._headers = scene.service.client, bearer(reader)

    def get(self, path: str) -> Json:
        response = self._client.get(path, headers=self._headers)
        try:
            return parse_response(response.data, response.status_code)
        except ServiceError as e:
            raise from_service_error(e) from e

    def post(self, path: str, document: Json) -> Json:
        raise AssertionError(path)

    def stream(self, path: str) -> Generator[Json, None, None]:
        raise AssertionError(path)


def list_questions(scene: Scene) -> Iterator[list[str]]:
    """Yield the words after `report` of each kind of report about the records of the tenant's namespace."""
    pods = list(dict.fromkeys(d.pod.name for d in scene.decisions_in("shop")))
    for pod in pods[:4]:
        yield ["pod", pod, "-n", "shop"]
    yield ["pod", pods[0], "-n", "shop", "--node", NODES[0]]
    yield ["compare", "pod", pods[0], pods[1], "-n", "shop"]
    yield ["compare", "pod", pods[0], "--nodes", NODES[0], NODES[1], "-n", "shop"]
    yield ["workload", "rs/plain", "-n", "shop"]
    yield ["pending", "-n", "shop"]
    yield ["preemptions", "-n", "shop"]
    yield ["node", NODES[0]]
    yield ["balance"]


def report(words: list[str]) -> AnswerReport | None:
    """Return a report, or None where the reader gets none."""
    environment = Environment({}, StringIO(), lambda: NOW, lambda: 0)
    try:
        return build_report(words[0], [*words[1:], "--endpoint", "http://127.0.0.1:1"], environment)
    except CliError:
        return None


def draw_all(made: AnswerReport, *, as_picture: bool) -> str:
    """Return the report in all formats, one after the other; the slow picture only if it is asked for."""
    return "\n".join(draw(made, format_) for format_ in FORMATS if as_picture or format_ != "svg")


def test_reports_disclose_no_more_than_the_answers(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, set[str]] = {}
    made = set[str]()
    for reader in ("tenant", "node-reader", "admin"):
        monkeypatch.setattr(transport, "connect", lambda *_, reader=reader: ReaderTransport(scene, reader))
        for words in list_questions(scene):
            answer = report(words)
            if answer is None:
                continue
            text = draw_all(answer, as_picture=reader == "tenant" and f"tenant {words[0]}" not in made)
            made.add(f"{reader} {words[0]}")
            asked = find_canaries(" ".join(words))
            found.setdefault(reader, set()).update(find_canaries(text) - asked)
    hidden = {word for word in found["admin"] if not scene.may_see("tenant", word)}
    assert len(hidden) > 5, "there is something to hide"
    for reader in ("tenant", "node-reader"):
        assert sorted(word for word in found[reader] if not scene.may_see(reader, word)) == [], reader
    expected = {f"tenant {kind}" for kind in ("pod", "compare", "workload", "pending", "preemptions")}
    assert made >= expected | {"node-reader node", "node-reader balance"}


def test_a_report_asks_the_service_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []

    class Counting(ReaderTransport):
        def get(self, path: str) -> Json:
            paths.append(path)
            return super().get(path)

    monkeypatch.setattr(transport, "connect", lambda *_: Counting(scene, "tenant"))
    name = scene.decisions_in("shop")[0].pod.name
    assert report(["pod", name, "-n", "shop"])
    assert [path.partition("?")[2] for path in paths] == ["all=true"]


def test_no_file_is_left_behind(scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(transport, "connect", lambda *_: ReaderTransport(scene, "outsider"))
    file = tmp_path / "report.html"
    words = ["report", "node", NODES[0], "--to", str(file), "--endpoint", "http://127.0.0.1:1"]
    assert run(words, Environment({}, StringIO(), lambda: NOW, lambda: 0)) == 1
    assert not file.exists()
