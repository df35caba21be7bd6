"""Translation of beta versions of KubeSchedulerConfiguration to v1 with the same profiles.

A setting without equivalent is an error with its field's path; a setting without effect is left out with a note.
v1beta1 and v1beta2 enable plugins at each extension point, in an order that no MultiPoint list gives: v1 disables
MultiPoint and lists every plugin at its points. v1beta3 has v1's form; only what v1 enables in addition is disabled.

Invariant: the result is a plain v1 document, the same that `convert-config` writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from scheduler.config.document import ConfigError, Document, convert
from scheduler.config.legacy_versions import (
    ADDED_POINTS,
    IN_TREE_LIMITS,
    LEGACY,
    PREFER_AVOID_PODS,
    REMOVED_IN_V1BETA2,
    SCORERS,
    UNREPLACED_PLUGINS,
    V1BETA1,
    LegacyVersion,
    Weighted,
)
from scheduler.config.profiles import merge_plugin_set
from scheduler.config.types import (
    API_VERSION,
    Configuration,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
    ProfileConfig,
    list_enabled,
    sets_by_point,
)
from scheduler.engine.objects.problems import Problem, invalid
from scheduler.engine.plugins import DEFAULT

# two locks at once; `leases`, the second, is the only one that remains
_LOCKS = ("endpointsleases", "configmapsleases")
_EVERY = "*"
_COUNTS_ALL = "NodeVolumeLimits"


@dataclass
class Translation:
    """The translation of one file: its version, notes on what was left out, and settings without equivalent."""

    version: LegacyVersion
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


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
    for path in version.later_fields:
        group, _, rest = path.partition(".")
        if not rest:
            if group in document:
                raise ConfigError(f'unknown field "{path}"')
            continue
        profiles = document.get(group)
        for i, profile in enumerate(profiles if isinstance(profiles, list) else ()):
            if _has(profile, rest.split(".")):
                raise ConfigError(f'unknown field "{group}[{i}].{rest}"')


def _has(value: object, keys: list[str]) -> bool:
    return isinstance(value, dict) and keys[0] in value and (len(keys) == 1 or _has(value[keys[0]], keys[1:]))


def _profile(written: Document, profile: ProfileConfig, path: str, translation: Translation) -> Document:
    translation.problems += _removed(profile, path, translation.version)
    plugins = _translate_plugins(profile.plugins, f"{path}.plugins", translation)
    configs = list(_plugin_configs(profile, path, translation.version, translation.notes))
    answer = {key: value for key, value in written.items() if key not in ("plugins", "pluginConfig")}
    answer["plugins"] = plugins
    if configs:
        answer["pluginConfig"] = configs
    return answer


def _removed(profile: ProfileConfig, path: str, version: LegacyVersion) -> Iterable[Problem]:
    """Yield a problem for each plugin that the profile enables or configures and that v1 does not have any more."""
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
    active = _find_scorer(profile.plugins, version)
    strategy = _strategy(profile, active) if active else None
    for j, entry in enumerate(profile.plugin_config):
        entry_path = f"{path}.pluginConfig[{j}]"
        if entry.name in (*SCORERS, PREFER_AVOID_PODS, *IN_TREE_LIMITS, *UNREPLACED_PLUGINS):
            if entry.name != active:
                notes.append(f"{entry_path}: left out, {entry.name} is not used")
            continue
        args = _arguments(entry, entry_path, version)
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


def _translate_plugins(plugins: Plugins, path: str, translation: Translation) -> Document:
    """Return the v1 `plugins` field of a profile.

    Notes on left out plugins, and problems, are appended to `translation`. `path` is the profile's path in messages.
    """
    by_point = "multiPoint" not in translation.version.defaults
    return (_list_plugins_at_points if by_point else _disable_new_plugins)(plugins, path, translation)


def _list_plugins_at_points(plugins: Plugins, path: str, translation: Translation) -> Document:
    """Return the v1 `plugins` field of a v1beta1 or v1beta2 profile, with every plugin listed at its extension points.

    Notes on left out plugins, and problems, are appended to `translation`. `path` is the profile's path in messages.
    """
    version, notes = translation.version, translation.notes
    sets = sets_by_point(plugins)
    points: dict[str, list[PluginRef]] = {}
    for point, own in sets.items():
        point_path = f"{path}.{point}"
        enabled = _merged(own, point, version)
        if point == "score" and version is V1BETA1:
            translation.problems += _scorer_problems(own, enabled, point_path)
        _note_disabled(own, point_path, notes)
        points[point] = _renamed(enabled, own, point_path, notes)
    for point, served, names in ADDED_POINTS:
        disabled = _names(sets[point].disabled)
        at_served, present = _names(points[served]), _names(points[point])
        added = at_served & set(names) - present - disabled
        if _EVERY not in disabled:
            points[point] += [PluginRef(name=name) for name in names if name in added]
    v1: Document = {"multiPoint": {"disabled": [{"name": _EVERY}]}}
    return v1 | {point: {"enabled": _written(refs)} for point, refs in points.items() if refs}


def _disable_new_plugins(plugins: Plugins, path: str, translation: Translation) -> Document:
    """Return the v1 `plugins` field of a v1beta3 profile, which disables the plugins that only v1 enables by default.

    Notes on left out plugins are appended to `translation`. `path` is the profile's path in messages.
    """
    version, notes = translation.version, translation.notes
    v1: Document = {}
    for point, own in sets_by_point(plugins).items():
        point_path = f"{path}.{point}"
        _note_disabled(own, point_path, notes)
        present = _names(own.enabled) | ({_COUNTS_ALL} if _counted(plugins, own, point, version) else set())
        enabled = _without_limits(own.enabled, present, point_path, notes)
        disabled = [ref for ref in own.disabled if ref.name not in IN_TREE_LIMITS]
        if point == "multiPoint" and _EVERY not in _names(own.disabled):
            listed = _names(disabled) | {name for name, _ in version.defaults["multiPoint"]}
            disabled += [PluginRef(name=name) for name, _ in DEFAULT if name not in listed]
        written = {"enabled": _written(enabled), "disabled": [{"name": ref.name} for ref in disabled]}
        if any(written.values()):
            v1[point] = {key: refs for key, refs in written.items() if refs}
    return v1


def _find_scorer(plugins: Plugins, version: LegacyVersion) -> str | None:
    """Return the name of the profile's enabled v1beta1 scoring plugin that v1 replaces by a NodeResourcesFit strategy.

    Return None if none is enabled. Profiles of later versions have none.
    """
    if "score" not in version.defaults:
        return None
    enabled = (ref.name for ref in _merged(plugins.score, "score", version))
    return next((name for name in enabled if name in SCORERS), None)


def _merged(own: PluginSet, point: str, version: LegacyVersion) -> list[PluginRef]:
    defaults = _refs(version.defaults.get(point, ()))
    if version.replaces_in_place:
        return list(merge_plugin_set(defaults, own))
    disabled = _names(own.disabled)
    return [ref for ref in defaults if not disabled & {_EVERY, ref.name}] + list(own.enabled)


def _scorer_problems(own: PluginSet, enabled: list[PluginRef], where: str) -> list[Problem]:
    """Return a problem if several of the `enabled` score plugins would become NodeResourcesFit in v1, and [] otherwise.

    NodeResourcesFit has only one scoring strategy. `own` is the profile's plugin set, which locates the problem at
    `where`.
    """
    rivals = list(dict.fromkeys(ref.name for ref in enabled if ref.name in (*SCORERS, "NodeResourcesFit")))
    if len(rivals) < 2:
        return []
    last = rivals[-1]
    places = [f"{where}.enabled[{k}]" for k, ref in enumerate(own.enabled) if ref.name == last]
    others = ", ".join(f'"{name}"' for name in rivals[:-1])
    detail = f"was conflict with {others}: v1 has one scoring strategy, so disable all of these but one"
    return [invalid((places or [where])[-1], last, detail)]


def _renamed(enabled: list[PluginRef], own: PluginSet, where: str, notes: list[str]) -> list[PluginRef]:
    """Return the `enabled` plugins under v1's names, without plugins that v1 does not have.

    `own` is the profile's own plugin set, and `where` its path. A note is appended for each plugin that is left out.
    """
    if PREFER_AVOID_PODS in _names(own.enabled):
        notes.append(f"{where}: {PREFER_AVOID_PODS} left out, the annotation that it read is no more")
    refs = [ref for ref in enabled if ref.name != PREFER_AVOID_PODS]
    refs = [msgspec.structs.replace(r, name="NodeResourcesFit") if r.name in SCORERS else r for r in refs]
    return _without_limits(refs, _names(refs), where, notes)


def _without_limits(
    enabled: list[PluginRef] | tuple[PluginRef, ...], present: set[str], where: str, notes: list[str]
) -> list[PluginRef]:
    """Return the plugins with the volume limits of in-tree drivers (such as EBSLimits) replaced by NodeVolumeLimits.

    If `present` contains NodeVolumeLimits, they are only removed. Append a note for each change.
    """
    refs: list[PluginRef] = []
    for ref in enabled:
        if ref.name not in IN_TREE_LIMITS:
            refs.append(ref)
        elif _COUNTS_ALL in present | _names(refs):
            notes.append(f"{where}: {ref.name} left out, {_COUNTS_ALL} counts its volumes")
        else:
            notes.append(f"{where}: {ref.name} becomes {_COUNTS_ALL}, which counts the volumes of every driver")
            refs.append(PluginRef(name=_COUNTS_ALL))
    return refs


def _counted(plugins: Plugins, own: PluginSet, point: str, version: LegacyVersion) -> bool:
    """Return whether MultiPoint enables NodeVolumeLimits at the extension point `point` of a v1beta3 profile."""
    everywhere = _names(merge_plugin_set(_refs(version.defaults["multiPoint"]), plugins.multi_point))
    here = set() if point == "multiPoint" else _names(own.disabled)
    return _COUNTS_ALL in everywhere and not here & {_EVERY, _COUNTS_ALL}


def _note_disabled(own: PluginSet, where: str, notes: list[str]) -> None:
    disabled = [ref.name for ref in own.disabled]
    if _COUNTS_ALL not in disabled and _EVERY not in disabled:
        words = f"is disabled, but {_COUNTS_ALL}, which counts its volumes too, is not"
        notes += [f"{where}: {name} {words}" for name in disabled if name in IN_TREE_LIMITS]


def _refs(defaults: Weighted) -> tuple[PluginRef, ...]:
    return tuple(PluginRef(name=name, weight=weight) for name, weight in defaults)


def _names(refs: list[PluginRef] | tuple[PluginRef, ...]) -> set[str]:
    return {ref.name for ref in refs}


def _written(refs: list[PluginRef]) -> list[Document]:
    return [{"name": ref.name, **({"weight": ref.weight} if ref.weight else {})} for ref in refs]
