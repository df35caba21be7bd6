"""Where settings come from, which wins, and what is said of wrong ones."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from herodotus_agents import settings
from herodotus_agents.agents.safe import KIND, SafeSettings
from herodotus_agents.commands import Annotating
from herodotus_agents.settings import Service, SettingsError


def test_the_environment_beats_the_file_which_beats_defaults(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(
        "httpPort: 5401\nlogLevel: DEBUG\nagents: [safe]\nsettings: {safe: {percentile: 20, utilization: 80}}\n"
    )
    service = settings.service(file, {"HTTP_PORT": "5402"})
    expected = {"safe": {"percentile": 20, "utilization": 80}}
    assert service == Service(http_port=5402, log_level="DEBUG", agents=("safe",), settings=expected)
    of_safe = settings.of_agent("safe", KIND, service.settings["safe"], {"SAFEPERCENTILE": "10"})
    assert of_safe == SafeSettings(percentile=10, utilization=80)


def test_defaults_are_the_originals() -> None:
    service = settings.service(None, {})
    assert (service.http_port, service.log_level, service.agents) == (80, "INFO", ("all",))
    assert Annotating() == settings.from_environment(Annotating, {})
    assert (Annotating().prom_ip, Annotating().prom_port, Annotating().node_exp_port) == ("127.0.0.1", 9090, 9100)
    assert (Annotating().annotate_freq, Annotating().use_forecast, Annotating().use_req) == (60, False, False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("httpPort: many", "Expected `int`, got `str` - at `$.httpPort`"),
        ("port: 80", "Object contains unknown field `port`"),
        ("[1]", "expected a mapping of settings"),
        ("{", "while parsing a flow node"),
    ],
    ids=["wrong type", "unknown key", "no mapping", "no YAML"],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=f"agents.yaml: {why.split(' - ')[0].split('[')[0]}"):
        settings.service(file, {})


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        settings.service(tmp_path / "agents.yaml", {})


def test_a_wrong_variable_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert settings.service(None, {"HTTP_PORT": "eighty"}).http_port == 80
    assert caplog.messages == ["HTTP_PORT=eighty ignored: Expected `int`, got `str` - at `$.httpPort`"]


@pytest.mark.parametrize(
    ("name", "level"),
    [("TRACE", logging.DEBUG), ("DEBUG", logging.DEBUG), ("ALERT", logging.CRITICAL), ("LOUD", logging.INFO)],
)
def test_levels_are_the_originals(name: str, level: int, caplog: pytest.LogCaptureFixture) -> None:
    assert settings.level(name) == level
    assert bool(caplog.messages) is (name == "LOUD")
