"""What `top` reads from the API server, page by page."""

from __future__ import annotations

import json
from typing import Any

import pytest

from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.errors import CliError
from herodotus_cli.top import reader as reader_module
from herodotus_cli.top.reader import NodeReader

EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "The continue token is too old"}


class ScriptedProxy:
    """Answers requests in turn, and keeps their paths."""

    def __init__(self, answers: list[tuple[int, Any]]) -> None:
        self.answers, self.paths = answers, list[str]()

    def get(self, path: str) -> tuple[int, bytes]:
        self.paths.append(path)
        code, document = self.answers.pop(0)
        return code, json.dumps(document).encode()

    def close(self) -> None:
        pass


def a_page(names: list[str], more: str = "") -> Any:
    return {"metadata": {"continue": more}, "items": [{"metadata": {"name": name}} for name in names]}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    def read_from(*answers: tuple[int, Any]) -> tuple[list[str], list[str]]:
        proxy = ScriptedProxy(list(answers))
        monkeypatch.setattr(reader_module, "KubectlProxy", lambda _: proxy)
        state = NodeReader(ConnectionSettings(), {"PATH": ""}).read("")
        return [row.name for row in state.nodes], proxy.paths

    return read_from


def test_a_list_whose_token_expires_goes_on_with_the_one_of_the_answer(read: Any) -> None:
    expired = EXPIRED | {"metadata": {"continue": "late"}}
    pages = (200, a_page(["n1"], "early")), (410, expired), (200, a_page(["n2"]))
    nodes, paths = read(*pages, (200, a_page([])))
    assert nodes == ["n1", "n2"]
    assert [path.partition("continue=")[2] for path in paths[:3]] == ["", "early", "late"]


def test_a_list_that_cannot_go_on_is_an_error_and_not_half_of_the_cluster(read: Any) -> None:
    with pytest.raises(CliError, match="too old"):
        read((200, a_page(["n1"], "early")), (410, EXPIRED))
