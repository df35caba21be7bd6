"""From a beta version of KubeSchedulerConfiguration to v1, such that v1 gives the same profiles.

Owns: the translation, and saying what it could not carry over. Does not own: the facts about each version
(`legacy_versions`), what v1 means. What has no equivalent is refused by its field's path; what makes no difference is
left out, with a note.

Invariant: the translated document is a plain v1 document. Reading a beta file is reading what `convert-config` writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import yaml

from scheduler.config.document import Document, convert
from scheduler.config.errors import ConfigError
from scheduler.config.legacy_plugins import multi_point_plugins, point_plugins, scorer
from scheduler.config.legacy_versions import AVOID, GONE, LEGACY, LIMITS, REMOVED_IN_V1BETA2, SCORERS, V1BETA1, Version
from scheduler.config.types import API_VERSION, Configuration, PluginConfig, ProfileConfig
from scheduler.objects.problems import Problem, invalid

_LOCKS = ("endpointsleases", "configmapsleases")  # two locks at once, the second of which is today's only one


def translated(document: Document) -> tuple[Document, list[str]]:
    """(The v1 document, notes on what was left out.) ConfigError when there is no such document."""
    version = LEGACY[str(document["apiVersion"])]
    notes: list[str] = []
    _refuse_later_fields(document, version)
    new = {**document, "apiVersion": API_VERSION}
    dropped = [name for name in version.dropped_fields if new.pop(name, None) is not None]
    notes += [f"{name}: left out, v1 has no such field" for name in dropped]
    config = convert(new, Configuration)  # from here on, the document has the right shape
    if config.leader_election.resource_lock in _LOCKS:
        notes.append(f"leaderElection.resourceLock: {config.leader_election.resource_lock} becomes leases")
        new["leaderElection"] = {**new["leaderElection"], "resourceLock": "leases"}
    problems: list[Problem] = []
    written = new.get("profiles") or [{}]
    new["profiles"] = [
        _profile(profile, convert(profile, ProfileConfig), f"profiles[{i}]", version, notes, problems)
        for i, profile in enumerate(written)
    ]
    ConfigError.raise_any(problems)
    return new, notes


def deprecation(document: Document) -> str:
    """The warning that a file of this version gets, once."""
    old = str(document["apiVersion"])
    return (
        f"{old} is deprecated: kube-scheduler removed it in {LEGACY[old].removed_in};"
        " `python -m scheduler convert-config FILE` writes v1 from it"
    )


def to_yaml(document: Document) -> str:
    """The document as text, in the order it has."""
    return yaml.safe_dump(document, sort_keys=False)


def _refuse_later_fields(document: Document, version: Version) -> None:
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


def _profile(
    written: Document, profile: ProfileConfig, path: str, version: Version, notes: list[str], problems: list[Problem]
) -> Document:
    problems += _removed(profile, path, version)
    make = multi_point_plugins if "multiPoint" in version.defaults else point_plugins
    plugins = make(profile.plugins, f"{path}.plugins", version, notes, problems)
    configs = list(_plugin_configs(profile, path, version, notes))
    answer = {key: value for key, value in written.items() if key not in ("plugins", "pluginConfig")}
    answer["plugins"] = plugins
    if configs:
        answer["pluginConfig"] = configs
    return answer


def _removed(profile: ProfileConfig, path: str, version: Version) -> Iterable[Problem]:
    """Plugins that are enabled or configured, and that kube-scheduler had removed by this version or ever since."""
    places = [
        (f"{path}.plugins.{field.encode_name}.enabled[{k}]", ref.name)
        for field in msgspec.structs.fields(profile.plugins)
        for k, ref in enumerate(getattr(profile.plugins, field.name).enabled)
    ]
    configured = [(f"{path}.pluginConfig[{j}]", entry.name) for j, entry in enumerate(profile.plugin_config)]
    for place, name in places:
        if name in REMOVED_IN_V1BETA2 and version is not V1BETA1:
            yield invalid(place, name, _was_invalid(version))
        elif name in GONE:
            yield invalid(place, name, f"has no equivalent in v1: {GONE[name]}")
    for place, name in configured:
        if name in REMOVED_IN_V1BETA2 and version is not V1BETA1:
            yield invalid(place, name, _was_invalid(version))


def _was_invalid(version: Version) -> str:
    group = API_VERSION.partition("/")[0]
    return f'was invalid in version "{group}/v1beta2" (KubeSchedulerConfiguration is version "{group}/{version.name}")'


def _plugin_configs(profile: ProfileConfig, path: str, version: Version, notes: list[str]) -> Iterable[Document]:
    """The arguments of plugins that v1 has; a scorer's become NodeResourcesFit's strategy."""
    active = scorer(profile.plugins, version)
    strategy = _strategy(profile, active) if active else None
    for j, entry in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{j}]"
        if entry.name in (*SCORERS, AVOID, *LIMITS, *GONE):
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
    """The scoring strategy that a scorer of v1beta1 and its arguments stand for."""
    args = next((entry.args or {} for entry in profile.plugin_config if entry.name == active), {})
    strategy: Document = {"type": SCORERS[active]}
    if args.get("resources"):
        strategy["resources"] = args["resources"]
    if active == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": args.get("shape", [])}
    return strategy


def _arguments(entry: PluginConfig, where: str, version: Version) -> dict[str, Any]:
    """Arguments as v1 reads them, with the version's own defaults where v1's differ."""
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
