"""Find the configuration with which the cluster's scheduler decides, as far as the user may read it.

The sources, in this order: a file that the user names; the ConfigMap that kube-scheduler's pod mounts as its --config;
the default profile. Where the pod or its file cannot be read, the default profile is assumed, and `origin` says so.
Without a file of the user, the feature gates on kube-scheduler's command line apply. The rules are those of the version
of Kubernetes that `scheduler.config.cluster_version` finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from herodotus_local.cluster_reader import Fetch
from herodotus_local.errors import ReadError, UnusableInputError
from herodotus_record.kubernetes_version import KubernetesVersion
from scheduler.config import ConfigError, Configuration, Registry, parse_config
from scheduler.config.cluster_version import FoundVersion, VersionSource, choose_pod, find_version, list_flag_values
from scheduler.config.document import read_text
from scheduler.config.rules import override_rules, resolve_rules
from scheduler.config.types import API_VERSION, KIND
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.rules import Rules
from scheduler.engine.rules.feature_gates import FeatureGateError, parse_feature_gates, select_declared

Json = Mapping[str, Any]

_CONFIG_MAPS: Final = "/api/v1/namespaces/kube-system/configmaps/"
HEADER: Final = "evaluated now with kube-scheduler {version} rules; {origin}"  # of at most 80 columns
_ASSUMED: Final = "default profile assumed"  # its configuration is not visible
_MAX_ORIGIN: Final = 30  # characters
DEFAULT_NAME: Final = "default-scheduler"  # of a profile that names no scheduler, as kube-scheduler has it
_DEFAULT_TEXT: Final = f"apiVersion: {API_VERSION}\nkind: {KIND}\nprofiles: [{{schedulerName: {DEFAULT_NAME}}}]\n"
_DEFAULT: Final = parse_config(_DEFAULT_TEXT)


@dataclass(frozen=True)
class FoundConfiguration:
    """A scheduler configuration, a phrase that says where it comes from, and sentences on what may differ.

    `rules` says which version's rules apply and where the version comes from, and `header` sums up rules and origin.
    """

    configuration: Configuration
    origin: str
    notes: tuple[str, ...] = ()
    rules: str = ""
    header: str = ""


def find_configuration(fetch: Fetch, file: str = "", version: str = "") -> FoundConfiguration:
    """Return the configuration of `file`, or of the cluster's kube-scheduler, or the default.

    Its rules are those of `version`, of the file, or of the cluster's version, in this order. Raises UnusableInputError
    if `file` or `version` is invalid.
    """

    def read(path: str) -> Any:
        try:
            return msgspec.json.decode(fetch(path))
        except (ReadError, msgspec.DecodeError):
            return None

    found_version = find_version(read, _parse_version(version))
    if file:
        return _with_rules(FoundConfiguration(read_configuration(file), _shorten(file)), found_version)
    pod = choose_pod(read)
    if pod is None:
        return _with_rules(FoundConfiguration(_DEFAULT, _ASSUMED), found_version)
    pod_configuration = _with_rules(_find_pod_configuration(fetch, pod), found_version)
    try:
        gates = select_declared(parse_feature_gates(",".join(list_flag_values(pod, "--feature-gates"))))
        return replace(pod_configuration, configuration=override_rules(pod_configuration.configuration, gates))
    except FeatureGateError as e:
        return replace(
            pod_configuration,
            notes=(*pod_configuration.notes, f"note: kube-scheduler's feature gates do not apply ({e})"),
        )


def _with_rules(found: FoundConfiguration, version: FoundVersion) -> FoundConfiguration:
    """Return the configuration with the rules of a version, unless it states its own version.

    Raises UnusableInputError if the configuration sets a feature gate that the version does not have.
    """
    try:
        changed = override_rules(found.configuration, version=version)
    except ValueError as e:
        raise UnusableInputError(f"{found.origin}: {e}") from e
    rules = resolve_rules(changed)
    used = FoundVersion(rules.version, VersionSource(rules.source), rules.emulated)
    applied = used.emulated.minor_version if used.emulated else used.version
    note = version.note() if used.source is version.source else ""
    return replace(
        found,
        configuration=changed,
        notes=(*filter(None, [note]), *found.notes),
        rules=used.describe(),
        header=HEADER.format(version=applied, origin=found.origin),
    )


def _shorten(file: str) -> str:
    """Return a file's path, or "…" and its end if it is longer than _MAX_ORIGIN, so that the header fits one line."""
    return file if len(file) <= _MAX_ORIGIN else f"…{file[1 - _MAX_ORIGIN :]}"


def _parse_version(text: str) -> KubernetesVersion | None:
    if not text:
        return None
    try:
        version = KubernetesVersion.parse(text)
        Rules.from_settings({}, version)
    except ValueError as e:
        raise UnusableInputError(f"--kubernetes-version: {e}") from e
    return version


def _find_pod_configuration(fetch: Fetch, pod: Json) -> FoundConfiguration:
    """Return the configuration in the file that the flag --config of a kube-scheduler's pod names.

    Without the flag the result is the default. If the file cannot be read or used, it is the default with a note.
    """
    path = next(iter(list_flag_values(pod, "--config")), "")
    if not path:
        return FoundConfiguration(_DEFAULT, "its default profile")
    text = _read_mounted(fetch, pod, path)
    try:
        if text is not None:
            warnings: list[str] = []
            configuration = parse_config(text, default_name=DEFAULT_NAME, legacy=warnings.append)
            return FoundConfiguration(configuration, "its configuration", tuple(warnings))
        why = "cannot be read from here"
    except ConfigError as e:
        why = f"cannot be used ({e})"
    return FoundConfiguration(
        _DEFAULT, _ASSUMED, (f"note: kube-scheduler's --config {path} {why}; name a copy: --config",)
    )


def read_configuration_text(file: str) -> str:
    """Return the text of a configuration, of the default profile if `file` is "". Raises UnusableInputError."""
    try:
        return read_text(Path(file)) if file else _DEFAULT_TEXT
    except ConfigError as e:
        raise UnusableInputError(str(e)) from e


def parse_configuration(text: str, file: str = "", version: str = "", registry: Registry = IN_TREE) -> Configuration:
    """Return the configuration in the text of `file`, with the rules of `version` unless it is "".

    Raises UnusableInputError, which names the file, if the text or the version is invalid.
    """
    asked = _parse_version(version)
    try:
        configuration = parse_config(text, default_name=DEFAULT_NAME, registry=registry)
        return override_rules(configuration, version=FoundVersion(asked, VersionSource.FLAG) if asked else None)
    except (ConfigError, FeatureGateError) as e:
        raise UnusableInputError(f"{file}: {e}" if file else str(e)) from e


def read_configuration(file: str, version: str = "", registry: Registry = IN_TREE) -> Configuration:
    """Return the configuration in a file, or the default if `file` is "", with the rules of `version` unless it is "".

    Raises UnusableInputError if the file or the version is invalid.
    """
    return parse_configuration(read_configuration_text(file), file, version, registry)


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
        value = data.get(keys.get(key, key))
        return None if value is None else str(value)
    return None
