"""Settings of the service and of each agent, from a typed file and the environment variables of the original agents.

Owns: where settings come from and which source wins. Does not own: their meaning (each agent's `AgentSettings`).

Precedence, highest first: environment, the agent's legacy file, the configuration file, defaults. The configuration
file is strict: an unknown key or a wrong value is an error with its path. As in the original agents, a wrong value in a
variable or in a line of a legacy file is ignored with a warning.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec
import yaml

from herodotus_agents.agent import Agent, AgentSettings
from herodotus_record.typed_decoding import convert

_log: Final = logging.getLogger(__name__)

LEVELS: Final = {  # the names of the original agents' levels
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "ALERT": logging.CRITICAL,
}
ALL: Final = "all"
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]  # 0: any free port

S = TypeVar("S", bound=AgentSettings)


@dataclass(frozen=True)
class _SettingsSource:
    """A source of settings, such as the environment. `values` maps keys to texts, `fields` maps keys to fields."""

    values: Mapping[str, str]
    fields: Mapping[str, str]


class SettingsError(Exception):
    """A configuration file or a setting cannot be used; the message says where and why."""


class ExtenderServiceSettings(AgentSettings, frozen=True):
    """Settings of the extender service as a whole.

    `threads` is the number of requests that are processed at the same time. `settings` holds each agent's settings, by
    the agent's name. With `watch_nodes` the service caches all nodes, so that schedulers may send only their names.
    """

    variables: ClassVar[Mapping[str, str]] = {"HTTP_PORT": "http_port", "LOG_LEVEL": "log_level"}

    http_port: Port = 80
    address: str = "0.0.0.0"
    log_level: str = "INFO"
    threads: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    agents: tuple[str, ...] = (ALL,)
    watch_nodes: bool = False
    settings: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


def load_extender_service_settings(file: Path | None, environment: Mapping[str, str]) -> ExtenderServiceSettings:
    """Return the extender service's settings from a file and the environment. Raises SettingsError for a wrong file."""
    return _merge_layers(
        ExtenderServiceSettings,
        _read_document(file),
        [_SettingsSource(environment, ExtenderServiceSettings.variables)],
        str(file),
    )


def load_agent_settings(
    name: str, agent: Agent, section: Mapping[str, Any], environment: Mapping[str, str]
) -> AgentSettings:
    """Return an agent's settings from its section of the configuration file, its legacy file and the environment.

    The environment wins over the legacy file, and that over the section. Raises SettingsError if the section is
    invalid.
    """
    wire_names = dict(_wire_names(agent.settings))
    own = _SettingsSource(
        _read_pairs(Path(agent.legacy_file)) if agent.legacy_file else {},
        {wire: name for name, wire in wire_names.items()},
    )
    for key in own.values.keys() - own.fields.keys():
        _log.warning("%s: %s is not a setting, ignored", agent.legacy_file, key)
    layers = [own, _SettingsSource(environment, agent.settings.variables)]
    return _merge_layers(agent.settings, dict(section), layers, f"settings.{name}")


def load_from_environment(kind: type[S], environment: Mapping[str, str]) -> S:
    """Return settings of the given type from environment variables; fields without a variable have their defaults."""
    return _merge_layers(kind, {}, [_SettingsSource(environment, kind.variables)], "")


def flag_type(kind: Any) -> Callable[[str], Any]:
    """Return a parser for argparse's `type` that converts text to the annotated type `kind` and enforces its bounds."""

    def parse(text: str) -> Any:
        try:
            return convert(text, kind, strict=False)
        except msgspec.ValidationError as e:
            raise argparse.ArgumentTypeError(f"{text!r}: {e}") from e

    return parse


def parse_log_level(name: str) -> int:
    """Return logging's level for a name such as DEBUG. For an unknown name, log a warning and return INFO."""
    if name not in LEVELS:
        _log.warning("LOG_LEVEL %s is not one of %s, using INFO", name, ", ".join(LEVELS))
    return LEVELS.get(name, logging.INFO)


def _read_document(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        document = yaml.safe_load(file.read_text())
    except (OSError, ValueError, yaml.YAMLError) as e:
        raise SettingsError(f"{file}: {' '.join(str(e).split())}") from e
    if not isinstance(document, dict):
        raise SettingsError(f"{file}: expected a mapping of settings")
    return document


def _merge_layers(kind: type[S], section: dict[str, Any], layers: Sequence[_SettingsSource], where: str) -> S:
    """Return settings of type `kind` from a file's section and the layers, of which later ones win.

    `where` names the section in errors. Raises SettingsError if the section is invalid; a wrong value in a layer is
    ignored with a warning.
    """
    try:
        convert(section, kind)
    except msgspec.ValidationError as e:
        raise SettingsError(f"{where}: {e}") from e
    wire_names = dict(_wire_names(kind))
    merged = dict(section)
    for layer in layers:
        for key in layer.fields.keys() & layer.values.keys():
            setting = {wire_names[layer.fields[key]]: layer.values[key]}
            try:
                convert(setting, kind, strict=False)
                merged |= setting
            except msgspec.ValidationError as e:
                _log.warning("%s=%s ignored: %s", key, layer.values[key], e)
    return convert(merged, kind, strict=False)


def _wire_names(kind: type[AgentSettings]) -> Iterator[tuple[str, str]]:
    yield from zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)


def _read_pairs(file: Path) -> dict[str, str]:
    """Return the keys and values of a file of `key = value` lines, or {} if there is no file. # starts a comment."""
    try:
        text = file.read_text()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as e:
        raise SettingsError(f"{file}: {e}") from e
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.lstrip().startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}
