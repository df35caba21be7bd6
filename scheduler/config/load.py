"""Loads a scheduler configuration from a file or text into a validated Configuration, or raises a one-line error."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from scheduler.config.arguments import Registry
from scheduler.config.document import ConfigError, Document, convert, parse_document, read_text
from scheduler.config.legacy import format_deprecation, to_yaml, translate
from scheduler.config.legacy_versions import LEGACY
from scheduler.config.types import API_VERSION, DEFAULT_NAME, KIND, Configuration, PluginConfig
from scheduler.config.validation import find_config_problems
from scheduler.engine.objects import times
from scheduler.engine.plugins import IN_TREE

_DURATIONS = ("leaseDuration", "renewDeadline", "retryPeriod")

Warn = Callable[[str], None]  # receives each warning about a file of an older version


def load(
    path: Path, *, default_name: str = DEFAULT_NAME, legacy: Warn | None = None, registry: Registry = IN_TREE
) -> Configuration:
    """Return the configuration in the file `path`. Raise ConfigError (one line that names the file) if it is invalid.

    The arguments are those of `parse_config`.
    """
    text = read_text(path)
    try:
        return parse_config(text, default_name=default_name, legacy=legacy, registry=registry)
    except ConfigError as e:
        raise ConfigError(f"{path}: {e}") from e


def parse_config(
    text: str, *, default_name: str = DEFAULT_NAME, legacy: Warn | None = None, registry: Registry = IN_TREE
) -> Configuration:
    """Return the configuration in a YAML text. Raise ConfigError if it is malformed or invalid.

    `default_name` is the scheduler name of a single profile without one. Beta versions are accepted only if `legacy`,
    the function that receives warnings, is given. `registry` holds the plugins whose arguments are validated.
    """
    document = check_version(parse_document(text), accept_legacy=legacy is not None)
    if legacy is not None and document["apiVersion"] in LEGACY:
        legacy(format_deprecation(document))
        document, notes = translate(document)
        for note in notes:
            legacy(note)
    config = convert(_fill_defaults(document, default_name), Configuration)
    ConfigError.raise_any(find_config_problems(config, registry))
    return _ignore_managed_resources(config)


def check_version(document: Document, *, accept_legacy: bool) -> Document:
    """Return the document unchanged, or raise ConfigError if its kind or apiVersion is not supported.

    Beta versions are supported only with `accept_legacy`.
    """
    version, kind = document.get("apiVersion"), document.get("kind")
    legacy = isinstance(version, str) and version in LEGACY
    if kind == KIND and (version == API_VERSION or (accept_legacy and legacy)):
        return document
    if kind == "Policy" and version in (None, "v1"):
        raise ConfigError(
            "this is a scheduler Policy (policy.cfg), which kube-scheduler read until v1.22, and no"
            f" {KIND}: Policy files are not read"
        )
    hint = ""
    if kind == KIND and legacy:
        hint = "; --accept-legacy-config reads that version, convert-config writes v1 from it"
    raise ConfigError(f"expected apiVersion {API_VERSION} and kind {KIND}, found {version} {kind}{hint}")


def _fill_defaults(document: Document, default_name: str) -> Document:
    """Return a copy of the document with a profile name, and without the values that Go treats as unset.

    `default_name` becomes the name of a single unnamed profile. Zero and empty values of `leaderElection` and
    `clientConnection` are removed, so that the defaults apply.
    """
    document = dict(document)
    for group in ("leaderElection", "clientConnection"):
        if isinstance(written := document.get(group), dict):
            document[group] = {key: value for key, value in written.items() if not _unset(key, value)}
    if document.get("enableProfiling") is False:
        document.setdefault("enableContentionProfiling", False)
    profiles = document.get("profiles")
    if isinstance(profiles, list) and len(profiles) == 1 and isinstance(profiles[0], dict):
        document["profiles"] = [{"schedulerName": default_name, **profiles[0]}]
    elif not profiles and isinstance(profiles, list | None):
        document["profiles"] = [{"schedulerName": default_name}]
    return document


def _unset(key: str, value: object) -> bool:
    if key in _DURATIONS and isinstance(value, str):
        with suppress(ValueError):
            return times.parse_nanoseconds(value) == 0
        return False
    return value == "" or (key in ("qps", "burst") and value == 0)


def _ignore_managed_resources(config: Configuration) -> Configuration:
    """Return the configuration with NodeResourcesFit set to ignore the resources that only an extender counts.

    These are the managed resources of extenders with `ignoredByScheduler`.
    """
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


def convert_file(path: Path, warn: Warn) -> str:
    """Return the file's content as v1 YAML, unchanged if it is v1 already, for the command `convert-config`.

    Call `warn` with each note. Raise ConfigError, which names the file, if it is invalid or has no equivalent in v1.
    """
    text = read_text(path)
    try:
        document = check_version(parse_document(text), accept_legacy=True)
        if document["apiVersion"] != API_VERSION:
            document, notes = translate(document)
            for note in notes:
                warn(note)
            text = to_yaml(document)
        parse_config(text)
    except ConfigError as e:
        raise ConfigError(f"{path}: {e}") from e
    return text
