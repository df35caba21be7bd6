"""From a file to a Configuration, or to one line that says what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from scheduler.config import durations, extenders
from scheduler.config.errors import ConfigError, duplicate, invalid, required
from scheduler.config.types import API_VERSION, DEFAULT_NAME, KIND, Configuration, PluginConfig, ProfileConfig


def load(path: Path, *, default_name: str = DEFAULT_NAME) -> Configuration:
    """The configuration in a file. ConfigError (one line, naming the file) when there is none to be had."""
    try:
        text = path.read_text()
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror or e}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path}: not UTF-8 text: {e}") from e
    try:
        return read(text, default_name=default_name)
    except ConfigError as e:
        raise ConfigError(f"{path}: {e}") from e


def read(text: str, *, default_name: str = DEFAULT_NAME) -> Configuration:
    """The configuration in a text. ConfigError when it is malformed or says what it may not."""
    document = _parse(text)
    if not isinstance(document, dict):
        raise ConfigError("expected a mapping with apiVersion and kind")
    if document.get("apiVersion") != API_VERSION or document.get("kind") != KIND:
        found = f"{document.get('apiVersion')} {document.get('kind')}"
        raise ConfigError(f"expected apiVersion {API_VERSION} and kind {KIND}, found {found}")
    try:
        config = msgspec.convert(_defaulted(document, default_name), Configuration)
    except msgspec.ValidationError as e:
        raise ConfigError(_in_field_order(str(e))) from e
    problems = list(_problems(config))
    if problems:
        raise ConfigError.all_of(problems)
    return _ignoring_managed(config)


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that is set twice, as kube-scheduler's strict decoding does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise ConfigError(f'line {line}: key "{key}" already set in map')
            seen.add(key)
        return super().construct_mapping(node, deep)


def _parse(text: str) -> Any:
    try:
        return yaml.load(text, _StrictLoader)
    except yaml.MarkedYAMLError as e:
        line = f"line {e.problem_mark.line + 1}: " if e.problem_mark else ""
        raise ConfigError(f"{line}{e.problem or 'not YAML'}") from e
    except ConfigError:
        raise
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as e:  # 2026-13-45 looks like a date, and is none
        raise ConfigError(f"not YAML: {' '.join(str(e).split())}") from e


def _in_field_order(message: str) -> str:
    """msgspec's `DETAIL - at `$.PATH`` as `PATH: DETAIL`."""
    match = re.fullmatch(r"(?s)(.*) - at `(?:key in )?\$\.?(.*)`", message)
    detail, path = (match[1], match[2]) if match else (message, "")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", detail)
    if unknown:
        return f'unknown field "{path + "." if path else ""}{unknown[1]}"'
    missing = re.fullmatch(r"Object missing required field `(.*)`", detail)
    if missing:
        return required(f"{path + '.' if path else ''}{missing[1]}")
    return f"{path}: {detail}" if path else detail


def _defaulted(document: dict[str, Any], default_name: str) -> dict[str, Any]:
    """The document with null and, for the Lease, empty values left out, and a single nameless profile named."""
    document = _without_null(document)
    profiles, election = document.get("profiles"), document.get("leaderElection")
    if isinstance(election, dict):
        document["leaderElection"] = {key: value for key, value in election.items() if value != ""}
    if isinstance(profiles, list) and len(profiles) == 1 and isinstance(profiles[0], dict):
        profiles[0].setdefault("schedulerName", default_name)
    elif not profiles and isinstance(profiles, list | None):
        document["profiles"] = [{"schedulerName": default_name}]
    return document


def _without_null(value: Any) -> Any:
    """Null means absent, as in Go's decoding; plugin arguments, which plugins decode themselves, included."""
    if isinstance(value, dict):
        return {key: _without_null(v) for key, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_null(v) for v in value]
    return value


def _ignoring_managed(config: Configuration) -> Configuration:
    """Resources that an extender counts itself replace NodeResourcesFit's ignored ones in every profile."""
    ignored = [r.name for e in config.extenders for r in e.managed_resources if r.ignored_by_scheduler]
    if not ignored:
        return config
    profiles = []
    for profile in config.profiles:
        others = tuple(p for p in profile.plugin_config if p.name != "NodeResourcesFit")
        own = next((p.args or {} for p in profile.plugin_config if p.name == "NodeResourcesFit"), {})
        fit = PluginConfig(name="NodeResourcesFit", args={**own, "ignoredResources": ignored})
        profiles.append(msgspec.structs.replace(profile, plugin_config=(*others, fit)))
    return msgspec.structs.replace(config, profiles=tuple(profiles))


def _problems(config: Configuration) -> Iterator[str]:
    if config.parallelism <= 0:
        yield invalid("parallelism", config.parallelism, "should be an integer value greater than zero")
    yield from _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    if config.pod_initial_backoff_seconds <= 0:
        yield invalid("podInitialBackoffSeconds", config.pod_initial_backoff_seconds, "must be greater than 0")
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", config.pod_max_backoff_seconds, detail)
    if config.client_connection.burst < 0:
        yield invalid("clientConnection.burst", config.client_connection.burst, "must be non-negative")
    if config.leader_election.leader_elect:
        yield from _leader_election(config)
    yield from _profiles(config.profiles)
    yield from extenders.problems(config.extenders)


def _percentage(path: str, value: int | None) -> Iterator[str]:
    if value is not None and not 0 <= value <= 100:
        yield invalid(path, value, "not in valid range [0-100]")


def _leader_election(config: Configuration) -> Iterator[str]:
    election, parsed = config.leader_election, {}
    for field in ("lease_duration", "renew_deadline", "retry_period"):
        path = "leaderElection." + re.sub(r"_(.)", lambda m: m[1].upper(), field)
        text = getattr(election, field)
        try:
            parsed[field] = durations.seconds(text)
        except ValueError as e:
            yield invalid(path, text, str(e))
            continue
        if parsed[field] <= 0:
            yield invalid(path, text, "must be greater than zero")
    if len(parsed) == 3 and parsed["lease_duration"] <= parsed["renew_deadline"]:
        yield invalid("leaderElection.leaseDuration", election.lease_duration, "must be greater than `RenewDeadline`")
    if election.resource_lock != "leases":
        yield invalid("leaderElection.resourceLock", election.resource_lock, 'resourceLock value must be "leases"')
    if not election.resource_name:
        yield required("leaderElection.resourceName")
    if not election.resource_namespace:
        yield required("leaderElection.resourceNamespace")


def _profiles(profiles: tuple[ProfileConfig, ...]) -> Iterator[str]:
    seen: dict[str, int] = {}
    first = profiles[0].plugins.queue_sort
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        yield from _percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
        if profile.plugins.queue_sort != first:
            yield invalid(f"{path}.plugins.queueSort", None, "must be the same for all profiles")
        if not profile.scheduler_name:
            yield required(f"{path}.schedulerName")
        elif profile.scheduler_name in seen:
            yield duplicate(f"{path}.schedulerName", profile.scheduler_name)
        seen.setdefault(profile.scheduler_name, i)
        configured: set[str] = set()
        for j, plugin in enumerate(profile.plugin_config):
            if plugin.name in configured:
                yield duplicate(f"{path}.pluginConfig[{j}]", plugin.name)
            configured.add(plugin.name)
