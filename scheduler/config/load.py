"""From a file to a Configuration, or to one line that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from scheduler.config.arguments import Registry
from scheduler.config.document import Document, convert, parse, text_of
from scheduler.config.errors import ConfigError
from scheduler.config.legacy import deprecation, translated
from scheduler.config.legacy_versions import LEGACY
from scheduler.config.types import API_VERSION, DEFAULT_NAME, KIND, Configuration, PluginConfig
from scheduler.config.validation import config_problems
from scheduler.objects import durations
from scheduler.plugins import IN_TREE

_DURATIONS = ("leaseDuration", "renewDeadline", "retryPeriod")

Warn = Callable[[str], None]  # told of each thing that a file of an older version gets a warning for


def load(
    path: Path, *, default_name: str = DEFAULT_NAME, legacy: Warn | None = None, registry: Registry = IN_TREE
) -> Configuration:
    """The configuration in a file. ConfigError (one line, naming the file) when there is none to be had."""
    text = text_of(path)
    try:
        return read(text, default_name=default_name, legacy=legacy, registry=registry)
    except ConfigError as e:
        raise ConfigError(f"{path}: {e}") from e


def read(
    text: str, *, default_name: str = DEFAULT_NAME, legacy: Warn | None = None, registry: Registry = IN_TREE
) -> Configuration:
    """The configuration in a text. ConfigError when it is malformed or says what it may not.

    `legacy`: read kube-scheduler's beta versions too. `registry`: the plugins whose arguments are checked.
    """
    document = checked_version(parse(text), accept_legacy=legacy is not None)
    if legacy is not None and document["apiVersion"] in LEGACY:
        legacy(deprecation(document))
        document, notes = translated(document)
        for note in notes:
            legacy(note)
    config = convert(_defaulted(document, default_name), Configuration)
    ConfigError.raise_any(config_problems(config, registry))
    return _ignoring_managed(config)


def checked_version(document: Document, *, accept_legacy: bool) -> Document:
    """The document, or ConfigError when it is of another kind, or of a version that is not to be read."""
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


def _defaulted(document: Document, default_name: str) -> Document:
    """The document with a single nameless profile named, and without what Go takes for unset: zero and empty."""
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
            return durations.nanoseconds(value) == 0
        return False
    return value == "" or (key in ("qps", "burst") and value == 0)


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
