"""The sources of settings, their precedence, and the messages for invalid ones."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from herodotus_agents import settings
from herodotus_agents.agents.safe import AGENT, SafeSettings
from herodotus_agents.commands import AnnotatorSettings
from herodotus_agents.settings import ExtenderServiceSettings, SettingsError


def test_the_environment_overrides_the_file_and_the_file_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(
        "httpPort: 5401\nlogLevel: DEBUG\nagents: [safe]\nsettings: {safe: {percentile: 20, utilization: 80}}\n"
    )
    service = settings.load_extender_service_settings(file, {"HTTP_PORT": "5402"})
    expected = {"safe": {"percentile": 20, "utilization": 80}}
    assert service == ExtenderServiceSettings(http_port=5402, log_level="DEBUG", agents=("safe",), settings=expected)
    of_safe = settings.load_agent_settings("safe", AGENT, service.settings["safe"], {"SAFEPERCENTILE": "10"})
    assert of_safe == SafeSettings(percentile=10, utilization=80)


def test_defaults_equal_those_of_the_original_agents() -> None:
    service = settings.load_extender_service_settings(None, {})
    assert (service.http_port, service.log_level, service.agents) == (80, "INFO", ("all",))
    assert AnnotatorSettings() == settings.load_from_environment(AnnotatorSettings, {})
    assert (AnnotatorSettings().prom_ip, AnnotatorSettings().prom_port, AnnotatorSettings().node_exp_port) == (
        "127.0.0.1",
        9090,
        9100,
    )
    assert (AnnotatorSettings().annotate_freq, AnnotatorSettings().use_forecast, AnnotatorSettings().use_req) == (
        60,
        False,
        False,
    )


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
def test_an_invalid_file_is_rejected_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=f"agents.yaml: {why.split(' - ')[0].split('[')[0]}"):
        settings.load_extender_service_settings(file, {})


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        settings.load_extender_service_settings(tmp_path / "agents.yaml", {})


def test_an_invalid_variable_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert settings.load_extender_service_settings(None, {"HTTP_PORT": "eighty"}).http_port == 80
    assert caplog.messages == ["HTTP_PORT=eighty ignored: Expected `int`, got `str` - at `$.httpPort`"]


@pytest.mark.parametrize(
    ("name", "level"),
    [("TRACE", logging.DEBUG), ("DEBUG", logging.DEBUG), ("ALERT", logging.CRITICAL), ("LOUD", logging.INFO)],
)
def test_log_levels_equal_those_of_the_original_agents(name: str, level: int, caplog: pytest.LogCaptureFixture) -> None:
    assert settings.parse_log_level(name) == level
    assert bool(caplog.messages) is (name == "LOUD")
