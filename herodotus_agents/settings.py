"""Settings of the service and of each agent: a typed file, and the environment variables of the original agents.

Owns: where settings come from and which wins. Does not own: what they mean (each agent's `Settings`).

Environment before an agent's own file before the configuration file before defaults. The configuration file is strict:
an unknown key or a wrong value is an error with its path. A variable or a line of an agent's own file with a wrong
value is ignored with a warning, as it always was.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec
import yaml

from herodotus_agents.agent import Kind, Settings

_log: Final = logging.getLogger(__name__)

LEVELS: Final = {  # the original agents' levels
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "ALERT": logging.CRITICAL,
}
ALL: Final = "all"

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class _Layer:
    """Text by key, and the field that each key sets."""

    values: Mapping[str, str]
    fields: Mapping[str, str]


class SettingsError(Exception):
    """A configuration file that cannot be used: where and why."""


class Service(Settings, frozen=True):
    """Of the service as a whole. `threads`: requests answered at the same time.

    `settings`: each agent's own, by its name. `watch_nodes`: keep nodes, so that schedulers may send names alone.
    """

    variables: ClassVar[Mapping[str, str]] = {"HTTP_PORT": "http_port", "LOG_LEVEL": "log_level"}

    http_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 80
    address: str = "0.0.0.0"
    log_level: str = "INFO"
    threads: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    agents: tuple[str, ...] = (ALL,)
    watch_nodes: bool = False
    settings: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


def service(file: Path | None, environment: Mapping[str, str]) -> Service:
    """The service's settings. SettingsError when the file is wrong."""
    return _layered(Service, _document(file), [_Layer(environment, Service.variables)], str(file))


def of_agent(name: str, kind: Kind, section: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """An agent's settings from its section of the file. SettingsError when that is wrong."""
    wire_names = dict(_wire_names(kind.settings))
    own = _Layer(
        _lines(Path(kind.own_file)) if kind.own_file else {}, {wire: name for name, wire in wire_names.items()}
    )
    for key in own.values.keys() - own.fields.keys():
        _log.warning("%s: %s is no setting, ignored", kind.own_file, key)
    layers = [own, _Layer(environment, kind.settings.variables)]
    return _layered(kind.settings, dict(section), layers, f"settings.{name}")


def from_environment(kind: type[S], environment: Mapping[str, str]) -> S:
    """Settings that no file has a section for."""
    return _layered(kind, {}, [_Layer(environment, kind.variables)], "")


def level(name: str) -> int:
    """A level of the logging module; an unknown one warns and is INFO."""
    if name not in LEVELS:
        _log.warning("LOG_LEVEL %s is none of %s, using INFO", name, ", ".join(LEVELS))
    return LEVELS.get(name, logging.INFO)


def _document(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        found = yaml.safe_load(file.read_text())
    except (OSError, ValueError, yaml.YAMLError) as e:
        raise SettingsError(f"{file}: {' '.join(str(e).split())}") from e
    if not isinstance(found, dict):
        raise SettingsError(f"{file}: expected a mapping of settings")
    return found


def _layered(kind: type[S], section: dict[str, Any], layers: Sequence[_Layer], where: str) -> S:
    """A section of the file with layers above it, the last on top."""
    try:
        msgspec.convert(section, kind)
    except msgspec.ValidationError as e:
        raise SettingsError(f"{where}: {e}") from e
    wire_names = dict(_wire_names(kind))
    merged = dict(section)
    for layer in layers:
        for key in layer.fields.keys() & layer.values.keys():
            given = {wire_names[layer.fields[key]]: layer.values[key]}
            try:
                msgspec.convert(given, kind, strict=False)
                merged |= given
            except msgspec.ValidationError as e:
                _log.warning("%s=%s ignored: %s", key, layer.values[key], e)
    return msgspec.convert(merged, kind, strict=False)


def _wire_names(kind: type[Settings]) -> Iterator[tuple[str, str]]:
    yield from zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)


def _lines(file: Path) -> dict[str, str]:
    """`key = value` lines; what begins with # is a comment. Empty where there is no such file."""
    try:
        text = file.read_text()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as e:
        raise SettingsError(f"{file}: {e}") from e
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.lstrip().startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}
