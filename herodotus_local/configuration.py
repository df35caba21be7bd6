"""Find the configuration with which the cluster's scheduler decides, as far as the user may read it.

The sources, in this order: a file that the user names; the ConfigMap that kube-scheduler's pod mounts as its --config;
the default profile. Where the pod or its file cannot be read, the default profile is used, and `origin` says so.
Without a file of the user, the feature gates on kube-scheduler's command line apply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from herodotus_local.cluster_reader import Fetch
from herodotus_local.errors import ReadError, UnusableInputError
from scheduler.config import ConfigError, Configuration, ProfileConfig, load, parse_config
from scheduler.config.rules import override_rules
from scheduler.engine.rules.feature_gates import FeatureGateError, parse_feature_gates, select_declared

Json = dict[str, Any]

_PODS: Final = "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-scheduler&limit=10"
_CONFIG_MAPS: Final = "/api/v1/namespaces/kube-system/configmaps/"
_VERSION: Final = "/version"
RULES_MINOR: Final = 36
_NAME: Final = "default-scheduler"  # of a profile that names no scheduler, as kube-scheduler has it
_DEFAULT: Final = Configuration(profiles=(ProfileConfig(scheduler_name=_NAME),))


@dataclass(frozen=True)
class FoundConfiguration:
    """A scheduler configuration, a phrase that says where it comes from, and sentences on what may differ."""

    configuration: Configuration
    origin: str
    notes: tuple[str, ...] = ()


def find_configuration(fetch: Fetch, file: str = "") -> FoundConfiguration:
    """Return the configuration of `file`, or of the cluster's kube-scheduler, or the default.

    Raises UnusableInputError if `file` is invalid.
    """
    notes = tuple(_compare_version(fetch))
    if file:
        return FoundConfiguration(read_configuration(file), f"configuration: {file}", notes)
    try:
        pods = msgspec.json.decode(fetch(_PODS)).get("items") or ()
    except ReadError:
        pods = ()
    if not pods:
        return FoundConfiguration(
            _DEFAULT, "default profile, because kube-scheduler's configuration is not visible here", notes
        )
    found = _find_pod_configuration(fetch, pods[0])
    try:
        gates = select_declared(parse_feature_gates(",".join(_flag_values(pods[0], "--feature-gates"))))
        changed = override_rules(found.configuration, gates)
    except FeatureGateError as e:
        return replace(found, notes=(*notes, *found.notes, f"note: kube-scheduler's feature gates do not apply ({e})"))
    return replace(found, configuration=changed, notes=(*notes, *found.notes))


def _find_pod_configuration(fetch: Fetch, pod: Json) -> FoundConfiguration:
    """Return the configuration of a kube-scheduler's pod, or the default where it cannot be read."""
    path = next(iter(_flag_values(pod, "--config")), "")
    if not path:
        return FoundConfiguration(_DEFAULT, "kube-scheduler's default profile")
    text = _read_mounted(fetch, pod, path)
    try:
        if text is not None:
            warnings: list[str] = []
            found = parse_config(text, default_name=_NAME, legacy=warnings.append)
            return FoundConfiguration(found, f"kube-scheduler's configuration {path}", tuple(warnings))
        why = "cannot be read from here"
    except ConfigError as e:
        why = f"cannot be used ({e})"
    return FoundConfiguration(
        _DEFAULT,
        f"default profile, because kube-scheduler's --config {path} {why}; name a copy: --config",
    )


def read_configuration(file: str) -> Configuration:
    """Return the configuration in a file, or the default if `file` is "".

    Raises UnusableInputError if the file is invalid.
    """
    if not file:
        return _DEFAULT
    try:
        return load(Path(file), default_name=_NAME)
    except ConfigError as e:
        raise UnusableInputError(str(e)) from e


def _flag_values(pod: Json, flag: str) -> list[str]:
    """Return the values of a flag on kube-scheduler's command line, in order."""
    container = pod["spec"]["containers"][0]
    words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
    found = []
    for i, word in enumerate(words):
        if word.startswith(f"{flag}="):
            found.append(word.partition("=")[2])
        elif word == flag and i + 1 < len(words):
            found.append(words[i + 1])
    return found


def _read_mounted(fetch: Fetch, pod: Json, path: str) -> str | None:
    """Return the text of the file at `path` in the pod if it comes from a ConfigMap that can be read, else None."""
    volumes = {v["name"]: v.get("configMap") for v in pod["spec"].get("volumes") or ()}
    for mount in pod["spec"]["containers"][0].get("volumeMounts") or ():
        config_map, folder = volumes.get(mount["name"]), PurePosixPath(mount["mountPath"])
        if not config_map or not PurePosixPath(path).is_relative_to(folder):
            continue
        key = mount.get("subPath") or str(PurePosixPath(path).relative_to(folder))
        keys = {item["path"]: item["key"] for item in config_map.get("items") or ()}
        try:
            data = msgspec.json.decode(fetch(_CONFIG_MAPS + config_map["name"])).get("data") or {}
        except ReadError:
            return None
        found = data.get(keys.get(key, key))
        return None if found is None else str(found)
    return None


def _compare_version(fetch: Fetch) -> list[str]:
    """Return a sentence if the API server is of another minor version than the rules, or [] if it is not."""
    try:
        version = msgspec.json.decode(fetch(_VERSION))
        minor = int("".join(filter(str.isdigit, version["minor"])))
    except (ReadError, KeyError, ValueError):
        return []
    if minor == RULES_MINOR:
        return []
    return [f"note: the API server is {version['gitVersion']}; what differs from v1.{RULES_MINOR}: docs/local-mode.md"]
