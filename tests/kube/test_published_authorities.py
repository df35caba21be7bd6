"""Published authorities are read again; the decisions service's reaches a file when it is published or changes."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from herodotus_kube import published_authorities
from herodotus_kube.delegated_auth import FrontProxy
from herodotus_kube.http import ApiError
from herodotus_kube.published_authorities import (
    PeriodicReader,
    refresh_service_authority,
    watch_client_authorities,
    watch_front_proxy,
    watch_service_authority,
)
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
    api = api_of(script)
    published = [refresh_service_authority(api, NAME, file) for _ in range(2)]
    assert (published, file.exists()) == ([False, False], False)
    assert {request.url.path for request in script.requests} == {
        "/api/v1/namespaces/herodotus/configmaps/herodotus-endpoint-ca"
    }
    assert {request.method for request in script.requests} == {"GET"}


def test_a_changed_authority_replaces_the_file(file: Path) -> None:
    first, second = pem(), pem()
    script = Script(*(config_map(**{"ca.crt": value}) for value in (first, second)))
    api = api_of(script)
    assert refresh_service_authority(api, NAME, file)
    assert file.read_text() == first
    assert refresh_service_authority(api, NAME, file)
    assert file.read_text() == second
    assert [each.name for each in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (config_map(**{"ca.crt": "no certificate"}), OSError),
        (httpx.Response(200, text="[]"), ApiError),
        (httpx.Response(200, text="no JSON"), ApiError),
        (status(403, "Forbidden"), ApiError),
        (status(404, "NotFound"), ApiError),
    ],
    ids=["no certificate", "no object", "no JSON", "forbidden", "absent"],
)
def test_an_answer_without_a_certificate_leaves_the_file_as_it_is(
    file: Path, answer: httpx.Response, error: type[Exception]
) -> None:
    first = pem()
    api = api_of(Script(config_map(**{"ca.crt": first}), answer))
    refresh_service_authority(api, NAME, file)
    with pytest.raises(error):
        refresh_service_authority(api, NAME, file)
    assert file.read_text() == first


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, file: Path) -> Iterator[tuple[Script, list[str]]]:
    """Run the thread on an API server that publishes, after an error and an empty answer, one authority and another."""
    monkeypatch.setattr(published_authorities, "UNPUBLISHED_EVERY_S", 0.01)
    monkeypatch.setattr(published_authorities, "PUBLISHED_EVERY_S", 0.01)
    both = [pem(), pem()]
    answers = [config_map(**{"ca.crt": each}) for each in both]
    script = Script(status(500), config_map(), httpx.Response(200, text="[]"), *answers)
    reader = watch_service_authority(api_of(script), NAME, file)
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


class Pauses(threading.Event):
    """An event that records for how long a thread would wait, and is set after so many pauses."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._number = number

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        if len(self.seconds) == self._number:
            self.set()
        return self.is_set()


def read_until_the_end(
    monkeypatch: pytest.MonkeyPatch, reader: PeriodicReader[Any], readings: Sequence[Any]
) -> list[float]:
    """Let a reader have these readings, of which exceptions are raised, and return its pauses."""
    script = iter(readings)

    def read() -> Any:
        reading = next(script)
        if isinstance(reading, Exception):
            raise reading
        return reading

    pauses = Pauses(len(readings) + bool(reader.value))
    monkeypatch.setattr(reader, "_read", read)
    monkeypatch.setattr(reader, "_stop", pauses)
    reader._run()
    return pauses.seconds


def test_client_authorities_are_read_again_soon_until_they_are_known(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = watch_client_authorities(api_of(Script()))
    readings = [OSError("away"), OSError("away"), "", "pem", ApiError(403, "Forbidden", "forbidden"), OSError("away")]
    assert read_until_the_end(monkeypatch, reader, readings) == [2.0, 4.0, 8.0, 60.0, 60.0, 60.0]
    assert reader.value == "pem"
    assert re.findall(r'err="(\w+)"', capfd.readouterr().err) == ["away", "forbidden", "away"], "each problem once"


def test_front_proxy_settings_are_kept_while_they_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = watch_front_proxy(cast("Any", None), FrontProxy("first"))
    readings = [ApiError(0, "NoAnswer", "away"), OSError("away"), FrontProxy("second"), ApiError(503, "", "away")]
    assert read_until_the_end(monkeypatch, reader, readings) == [60.0, 5.0, 5.0, 60.0, 5.0]
    assert reader.value == FrontProxy("second")
    assert [record.message for record in caplog.records] == [
        "cannot read how the front proxy is known, trying again: away"
    ] * 2


def test_an_unpublished_authority_is_looked_for_each_second_and_reported_once(
    monkeypatch: pytest.MonkeyPatch, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = watch_service_authority(api_of(Script()), NAME, file)
    assert read_until_the_end(monkeypatch, reader, [False, False, True, True, False]) == [1.0, 1.0, 10.0, 10.0, 1.0]
    assert capfd.readouterr().err.count("it has no ca.crt yet") == 2
