"""The decisions service's authority reaches a file as soon as the service publishes it, and again when it changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from herodotus_kube import published_authority
from herodotus_kube.http import ApiError
from herodotus_kube.published_authority import PublishedAuthority
from herodotus_serving.certificates import create_self_signed
from tests.kube.servers import Script, api_of, status
from tests.processes import eventually

NAME = ("herodotus", "herodotus-endpoint-ca")


def pem() -> str:
    return create_self_signed(["service"], timedelta(days=1))[1].decode()


def config_map(**data: str) -> httpx.Response:
    return httpx.Response(200, json={"kind": "ConfigMap", "data": data} if data else {"kind": "ConfigMap"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "spool" / "endpoint-ca.crt"


def test_an_unpublished_authority_leaves_no_file(file: Path) -> None:
    script = Script(config_map(), config_map(other="x"))
    reader = PublishedAuthority(api_of(script), NAME, file)
    assert (reader.refresh(), reader.refresh(), file.exists()) == (False, False, False)
    assert {request.url.path for request in script.requests} == {
        "/api/v1/namespaces/herodotus/configmaps/herodotus-endpoint-ca"
    }
    assert {request.method for request in script.requests} == {"GET"}


def test_a_changed_authority_replaces_the_file(file: Path) -> None:
    first, second = pem(), pem()
    script = Script(*(config_map(**{"ca.crt": value}) for value in (first, second)))
    reader = PublishedAuthority(api_of(script), NAME, file)
    assert reader.refresh()
    assert file.read_text() == first
    assert reader.refresh()
    assert file.read_text() == second
    assert [each.name for each in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (config_map(**{"ca.crt": "no certificate"}), OSError),
        (httpx.Response(200, text="[]"), AttributeError),
        (httpx.Response(200, text="no JSON"), ValueError),
        (status(403, "Forbidden"), ApiError),
        (status(404, "NotFound"), ApiError),
    ],
    ids=["no certificate", "no object", "no JSON", "forbidden", "absent"],
)
def test_an_answer_without_a_certificate_leaves_the_file_as_it_is(
    file: Path, answer: httpx.Response, error: type[Exception]
) -> None:
    known = pem()
    reader = PublishedAuthority(api_of(Script(config_map(**{"ca.crt": known}), answer)), NAME, file)
    reader.refresh()
    with pytest.raises(error):
        reader.refresh()
    assert file.read_text() == known


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, file: Path) -> Iterator[tuple[Script, list[str]]]:
    """Run the thread on an API server that publishes, after an error and an empty answer, one authority and another."""
    monkeypatch.setattr(published_authority, "UNPUBLISHED_EVERY_S", 0.01)
    monkeypatch.setattr(published_authority, "PUBLISHED_EVERY_S", 0.01)
    both = [pem(), pem()]
    answers = [config_map(**{"ca.crt": each}) for each in both]
    script = Script(status(500), config_map(), httpx.Response(200, text="[]"), *answers)
    reader = PublishedAuthority(api_of(script), NAME, file)
    reader.start()
    yield script, both
    reader.close()


def test_the_thread_survives_errors_and_follows_the_config_map(
    running: tuple[Script, list[str]], file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script, (_, last) = running
    eventually(lambda: file.exists() and file.read_text() == last, "the last authority")
    seen = len(script.requests)
    eventually(lambda: len(script.requests) > seen, "another look")
    assert file.read_text() == last
