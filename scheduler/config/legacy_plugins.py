"""Translation of a profile's plugin sets from a beta version to v1.

v1beta1 and v1beta2 enable plugins at each extension point, in an order that no MultiPoint list gives: v1 disables
MultiPoint and lists every plugin at its points. v1beta3 has v1's form; only what v1 enables in addition is disabled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from scheduler.config.document import Document
from scheduler.config.legacy_versions import (
    ADDED_POINTS,
    IN_TREE_LIMITS,
    PREFER_AVOID_PODS,
    SCORERS,
    V1BETA1,
    LegacyVersion,
    Weighted,
)
from scheduler.config.profiles import merge_plugin_set
from scheduler.config.types import PluginRef, Plugins, PluginSet, sets_by_point
from scheduler.engine.objects.problems import Problem, invalid
from scheduler.engine.plugins import DEFAULT

_EVERY = "*"
_COUNTS_ALL = "NodeVolumeLimits"


@dataclass
class Translation:
    """The translation of one file: its version, notes on what was left out, and settings without equivalent."""

    version: LegacyVersion
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def translate_plugins(plugins: Plugins, path: str, translation: Translation) -> Document:
    """Return the v1 `plugins` field of a profile. What v1 does not have is added to `translation`."""
    by_point = "multiPoint" not in translation.version.defaults
    return (_list_plugins_at_points if by_point else _disable_new_plugins)(plugins, path, translation)


def _list_plugins_at_points(plugins: Plugins, path: str, translation: Translation) -> Document:
    """Translate a v1beta1 or v1beta2 profile: list every plugin at its extension points."""
    version, notes = translation.version, translation.notes
    sets = sets_by_point(plugins)
    points: dict[str, list[PluginRef]] = {}
    for point, own in sets.items():
        where = f"{path}.{point}"
        enabled = _merged(own, point, version)
        if point == "score" and version is V1BETA1:
            translation.problems += _scorer_problems(own, enabled, where)
        _note_disabled(own, where, notes)
        points[point] = _renamed(enabled, own, where, notes)
    for point, served, names in ADDED_POINTS:
        disabled = _names(sets[point].disabled)
        at_served, present = _names(points[served]), _names(points[point])
        added = at_served & set(names) - present - disabled
        if _EVERY not in disabled:
            points[point] += [PluginRef(name=name) for name in names if name in added]
    v1: Document = {"multiPoint": {"disabled": [{"name": _EVERY}]}}
    return v1 | {point: {"enabled": _written(refs)} for point, refs in points.items() if refs}


def _disable_new_plugins(plugins: Plugins, path: str, translation: Translation) -> Document:
    """Translate a v1beta3 profile: disable the plugins that only v1 enables by default."""
    version, notes = translation.version, translation.notes
    v1: Document = {}
    for point, own in sets_by_point(plugins).items():
        where = f"{path}.{point}"
        _note_disabled(own, where, notes)
        present = _names(own.enabled) | ({_COUNTS_ALL} if _counted(plugins, own, point, version) else set())
        enabled = _without_limits(own.enabled, present, where, notes)
        disabled = [ref for ref in own.disabled if ref.name not in IN_TREE_LIMITS]
        if point == "multiPoint" and _EVERY not in _names(own.disabled):
            known = _names(disabled) | {name for name, _ in version.defaults["multiPoint"]}
            disabled += [PluginRef(name=name) for name, _ in DEFAULT if name not in known]
        written = {"enabled": _written(enabled), "disabled": [{"name": ref.name} for ref in disabled]}
        if any(written.values()):
            v1[point] = {key: refs for key, refs in written.items() if refs}
    return v1


def find_scorer(plugins: Plugins, version: LegacyVersion) -> str | None:
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
    """Return a problem if several plugins are enabled that would all become NodeResourcesFit in v1.

    NodeResourcesFit has only one scoring strategy.
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
    """Return the plugins under v1's names, without plugins that v1 does not have. Append a note for each change."""
    if PREFER_AVOID_PODS in _names(own.enabled):
        notes.append(f"{where}: {PREFER_AVOID_PODS} left out, the annotation that it read is no more")
    kept = [ref for ref in enabled if ref.name != PREFER_AVOID_PODS]
    kept = [msgspec.structs.replace(r, name="NodeResourcesFit") if r.name in SCORERS else r for r in kept]
    return _without_limits(kept, _names(kept), where, notes)


def _without_limits(
    enabled: list[PluginRef] | tuple[PluginRef, ...], present: set[str], where: str, notes: list[str]
) -> list[PluginRef]:
    """Return the plugins with the volume limits of in-tree drivers (such as EBSLimits) replaced by NodeVolumeLimits.

    If `present` contains NodeVolumeLimits, they are only removed. Append a note for each change.
    """
    kept: list[PluginRef] = []
    for ref in enabled:
        if ref.name not in IN_TREE_LIMITS:
            kept.append(ref)
        elif _COUNTS_ALL in present | _names(kept):
            notes.append(f"{where}: {ref.name} left out, {_COUNTS_ALL} counts its volumes")
        else:
            notes.append(f"{where}: {ref.name} becomes {_COUNTS_ALL}, which counts the volumes of every driver")
            kept.append(PluginRef(name=_COUNTS_ALL))
    return kept


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
