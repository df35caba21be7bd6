"""Translation of beta versions of KubeSchedulerConfiguration to v1 with the same profiles.

A setting without equivalent is an error with its field's path; a setting without effect is left out with a note.

Invariant: the result is a plain v1 document, the same that `convert-config` writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from scheduler.config.document import ConfigError, Document, convert
from scheduler.config.legacy_plugins import Translation, find_scorer, translate_plugins
from scheduler.config.legacy_versions import (
    IN_TREE_LIMITS,
    LEGACY,
    PREFER_AVOID_PODS,
    REMOVED_IN_V1BETA2,
    SCORERS,
    UNREPLACED_PLUGINS,
    V1BETA1,
    LegacyVersion,
)
from scheduler.config.types import API_VERSION, Configuration, PluginConfig, ProfileConfig, list_enabled
from scheduler.engine.objects.problems import Problem, invalid

# two locks at once; `leases`, the second, is the only one that remains
_LOCKS = ("endpointsleases", "configmapsleases")


def translate(document: Document) -> tuple[Document, list[str]]:
    """Return the v1 form of a beta configuration, and one note for each setting that was left out or changed.

    Raise ConfigError if v1 has no equivalent of a setting.
    """
    version = LEGACY[str(document["apiVersion"])]
    translation = Translation(version)
    notes = translation.notes
    _refuse_later_fields(document, version)
    new = {**document, "apiVersion": API_VERSION}
    dropped = [name for name in version.dropped_fields if new.pop(name, None) is not None]
    notes += [f"{name}: left out, v1 has no such field" for name in dropped]
    config = convert(new, Configuration)  # from here on, the document has the right shape
    if config.leader_election.resource_lock in _LOCKS:
        notes.append(f"leaderElection.resourceLock: {config.leader_election.resource_lock} becomes leases")
        new["leaderElection"] = {**new["leaderElection"], "resourceLock": "leases"}
    written = new.get("profiles") or [{}]
    new["profiles"] = [
        _profile(profile, convert(profile, ProfileConfig), f"profiles[{i}]", translation)
        for i, profile in enumerate(written)
    ]
    ConfigError.raise_any(translation.problems)
    return new, notes


def format_deprecation(document: Document) -> str:
    """Return the warning that the configuration's beta version is deprecated."""
    old = str(document["apiVersion"])
    return (
        f"{old} is deprecated: kube-scheduler removed it in {LEGACY[old].removed_in};"
        " `python -m scheduler convert-config FILE` writes v1 from it"
    )


def to_yaml(document: Document) -> str:
    """Return a configuration document as YAML text, with its keys in their present order."""
    return yaml.safe_dump(document, sort_keys=False)


def _refuse_later_fields(document: Document, version: LegacyVersion) -> None:
    for field in version.later_fields:
        group, _, rest = field.partition(".")
        if not rest:
            if group in document:
                raise ConfigError(f'unknown field "{field}"')
            continue
        profiles = document.get(group)
        for i, profile in enumerate(profiles if isinstance(profiles, list) else ()):
            if _has(profile, rest.split(".")):
                raise ConfigError(f'unknown field "{group}[{i}].{rest}"')


def _has(value: object, keys: list[str]) -> bool:
    return isinstance(value, dict) and keys[0] in value and (len(keys) == 1 or _has(value[keys[0]], keys[1:]))


def _profile(written: Document, profile: ProfileConfig, path: str, translation: Translation) -> Document:
    translation.problems += _removed(profile, path, translation.version)
    plugins = translate_plugins(profile.plugins, f"{path}.plugins", translation)
    configs = list(_plugin_configs(profile, path, translation.version, translation.notes))
    answer = {key: value for key, value in written.items() if key not in ("plugins", "pluginConfig")}
    answer["plugins"] = plugins
    if configs:
        answer["pluginConfig"] = configs
    return answer


def _removed(profile: ProfileConfig, path: str, version: LegacyVersion) -> Iterable[Problem]:
    """Yield a problem for each plugin that the profile enables or configures and that kube-scheduler has removed."""
    group = API_VERSION.partition("/")[0]
    removed = () if version is V1BETA1 else REMOVED_IN_V1BETA2
    detail = (
        f'was invalid in version "{group}/v1beta2" (KubeSchedulerConfiguration is version "{group}/{version.name}")'
    )
    for place, name in list_enabled(profile.plugins, path):
        if name in removed:
            yield invalid(place, name, detail)
        elif name in UNREPLACED_PLUGINS:
            yield invalid(place, name, f"has no equivalent in v1: {UNREPLACED_PLUGINS[name]}")
    for j, entry in enumerate(profile.plugin_config):
        if entry.name in removed:
            yield invalid(f"{path}.pluginConfig[{j}]", entry.name, detail)


def _plugin_configs(profile: ProfileConfig, path: str, version: LegacyVersion, notes: list[str]) -> Iterable[Document]:
    """Yield the profile's `pluginConfig` entries for v1. Add a note for each entry that is left out.

    The arguments of an enabled v1beta1 scoring plugin become the scoring strategy of NodeResourcesFit.
    """
    active = find_scorer(profile.plugins, version)
    strategy = _strategy(profile, active) if active else None
    for j, entry in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{j}]"
        if entry.name in (*SCORERS, PREFER_AVOID_PODS, *IN_TREE_LIMITS, *UNREPLACED_PLUGINS):
            if entry.name != active:
                notes.append(f"{where}: left out, {entry.name} is not used")
            continue
        args = _arguments(entry, where, version)
        if entry.name == "NodeResourcesFit" and strategy:
            args, strategy = {**args, "scoringStrategy": strategy}, None
        yield {"name": entry.name, **({"args": args} if args else {})}
    if strategy:
        yield {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}


def _strategy(profile: ProfileConfig, active: str) -> Document:
    """Return the scoring strategy of NodeResourcesFit that is equivalent to the v1beta1 plugin `active`."""
    args = next((entry.args or {} for entry in profile.plugin_config if entry.name == active), {})
    strategy: Document = {"type": SCORERS[active]}
    if args.get("resources"):
        strategy["resources"] = args["resources"]
    if active == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": args.get("shape", [])}
    return strategy


def _arguments(entry: PluginConfig, where: str, version: LegacyVersion) -> dict[str, Any]:
    """Return the arguments of one `pluginConfig` entry for v1, with the old version's defaults where v1's differ.

    Raise ConfigError if they contain a field that v1beta1 does not have.
    """
    args = dict(entry.args or {})
    if args.get("apiVersion") in LEGACY:
        args["apiVersion"] = API_VERSION
    if version is V1BETA1:
        if entry.name == "NodeResourcesFit" and "scoringStrategy" in args:
            raise ConfigError(
                f'decoding .{where}: decoding args for plugin {entry.name}: unknown field "scoringStrategy"'
            )
        if entry.name == "PodTopologySpread" and args.get("defaultConstraints"):
            args.setdefault("defaultingType", "List")
    return args
