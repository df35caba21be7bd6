"""Builds profiles: merges plugin sets with the defaults and constructs the plugins in kube-scheduler's order.

Source: pkg/scheduler/apis/config/v1/default_plugins.go (mergePluginSet) and framework/runtime/framework.go
(expandMultiPointPlugins, NewFramework) v1.36.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from scheduler.config.arguments import Registry, decode_arguments
from scheduler.config.document import ConfigError
from scheduler.config.rules import resolve_rules
from scheduler.config.types import Configuration, PluginRef, Plugins, PluginSet, ProfileConfig
from scheduler.engine.framework.failing import compute_state_for_score, replace_failing
from scheduler.engine.framework.interface import EXTENSION_POINTS
from scheduler.engine.framework.per_node import PerNodePlugin, adapt_filter, adapt_score
from scheduler.engine.framework.plugin import BasePlugin, DependsOn, Handle
from scheduler.engine.framework.profile import Profile
from scheduler.engine.plugins import list_default_plugins
from scheduler.engine.rules import Rules


def build_profile(
    config: Configuration, index: int, registry: Registry, handle: Handle, rules: Rules | None = None
) -> Profile:
    """Return the profile at position `index` of the configuration, with its plugins constructed.

    Each plugin receives its arguments and `handle`. `rules` replace those of the configuration. Raise ConfigError if a
    plugin does not exist, fails in its constructor or does not implement an extension point.
    """
    profile = resolve_plugin_names(config.profiles[index], registry)
    path = f"profiles[{index}]"
    rules = rules or resolve_rules(config)
    multi_point = merge_multi_point(profile.plugins.multi_point, rules)
    plugins = _PluginObjects(profile, path, registry, handle, rules)
    points: dict[str, tuple[Any, ...]] = {}
    enabled: dict[str, frozenset[str]] = {}
    for point, protocol in EXTENSION_POINTS.items():
        explicit: PluginSet = getattr(profile.plugins, _snake(point))
        for ref in explicit.enabled:
            plugins.require(ref.name, point)
        names = _expand(path, point, explicit, [r.name for r in multi_point if plugins.extends(r.name, point)])
        enabled[point] = frozenset(names)
        named = (plugins.get(name, point) for name in names)
        points[_snake(point)] = tuple(
            replace_failing(point, each, enabled) for each in named if isinstance(each, protocol)
        )
    plugins.check_dependencies()
    points["pre_score"] += tuple(compute_state_for_score(points["score"], enabled["preScore"]))
    points["filter"] = tuple(adapt_filter(plugin) for plugin in points["filter"])
    points["score"] = tuple(adapt_score(plugin) for plugin in points["score"])
    _check_cardinality(path, profile, points)
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = config.percentage_of_nodes_to_score or 0
    return Profile(
        scheduler_name=profile.scheduler_name,
        weights=_weights(path, profile.plugins.score, multi_point, points["score"]),
        placement_weights=_weights(path, profile.plugins.placement_score, multi_point, points["placement_score"]),
        percentage_of_nodes_to_score=0 if percentage == 100 else percentage,
        rules=rules,
        **points,
    )


class _PluginObjects:
    """The plugins of a profile. Each is constructed when it is first needed."""

    def __init__(self, profile: ProfileConfig, path: str, registry: Registry, handle: Handle, rules: Rules) -> None:
        self._path, self._registry, self._handle, self._rules = path, registry, handle, rules
        self._args = decode_arguments(profile, path, registry, rules)
        self._objects: dict[str, Any] = {}

    def get(self, name: str, point: str) -> Any:
        """Return a plugin that the profile names at an extension point.

        Raise ConfigError if it does not exist or fails in its constructor.
        """
        if name not in self._objects:
            factory = self._registry.get(name)
            if factory is None:
                raise ConfigError(f'{self._path}: {_interface(point)} "{name}" does not exist')
            try:
                self._objects[name] = factory(self._args.get(name, factory.args_type()), self._handle)
            except Exception as e:  # an out-of-tree plugin's constructor may raise anything
                raise ConfigError(f'{self._path}: initializing plugin "{name}": {type(e).__name__}: {e}') from e
            self._objects[name].rules = self._rules
        return self._objects[name]

    def extends(self, name: str, point: str, named_at: str = "multiPoint") -> bool:
        """Return whether a plugin that the profile names at `named_at` implements an extension point, or idles there.

        A plugin may implement a point by one rule only, and does not without that rule.
        """
        plugin: BasePlugin = self.get(name, named_at)
        rule = plugin.rule_at.get(point)
        is_implemented = isinstance(plugin, EXTENSION_POINTS[point]) and (rule is None or self._rules.enabled(rule))
        return is_implemented or point in self._registry[name].idle_at

    def require(self, name: str, point: str) -> None:
        """Raise ConfigError if a plugin that the profile names at an extension point does not implement it."""
        if not self.extends(name, point, point):
            raise ConfigError(f'{self._path}: plugin "{name}" does not extend {_interface(point)} plugin')

    def check_dependencies(self) -> None:
        """Raise ConfigError for a plugin that reads annotations, and whose results are cached without them."""
        for name, plugin in self._objects.items():
            is_cached = not isinstance(plugin, PerNodePlugin) and plugin.depends_on is not DependsOn.ANYTHING
            if is_cached and plugin.annotations:
                raise ConfigError(
                    f'{self._path}: plugin "{name}" reads node annotations and must declare DependsOn.ANYTHING,'
                    f" not DependsOn.{plugin.depends_on.name}: a changed annotation does not refresh cached results"
                )


def resolve_plugin_names(profile: ProfileConfig, registry: Registry) -> ProfileConfig:
    """Return the profile with each plugin reference `module:Class` replaced by the plugin's `name` attribute.

    Records use these names.
    """

    def named(ref: Any) -> Any:
        return msgspec.structs.replace(ref, name=registry[ref.name].name) if ":" in ref.name else ref

    def all_named(refs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(named(ref) for ref in refs)

    points = {
        field.name: PluginSet(enabled=all_named(point.enabled), disabled=all_named(point.disabled))
        for field in msgspec.structs.fields(Plugins)
        if (point := getattr(profile.plugins, field.name))
    }
    return msgspec.structs.replace(profile, plugins=Plugins(**points), plugin_config=all_named(profile.plugin_config))


def merge_multi_point(user: PluginSet, rules: Rules) -> tuple[PluginRef, ...]:
    """Return the plugins of `multiPoint`: v1's defaults with the user's enabled and disabled plugins applied."""
    defaults = tuple(PluginRef(name=name, weight=weight) for name, weight in list_default_plugins(rules))
    return merge_plugin_set(defaults, user)


def merge_plugin_set(defaults: tuple[PluginRef, ...], user: PluginSet) -> tuple[PluginRef, ...]:
    """Return the default plugins without those that the user disables, and with those that the user enables.

    A default plugin that the user enables keeps its position and takes the user's weight; other plugins are appended.
    """
    disabled = {ref.name for ref in user.disabled}
    last = {ref.name: i for i, ref in enumerate(user.enabled)}
    refs = [ref for ref in defaults if "*" not in disabled and ref.name not in disabled]
    replaced = [user.enabled[last[ref.name]] if ref.name in last else ref for ref in refs]
    used = {last[ref.name] for ref in refs if ref.name in last}
    # a plugin that is enabled twice stays here and is reported as a duplicate later
    return (*replaced, *(ref for i, ref in enumerate(user.enabled) if i not in used))


def _expand(path: str, point: str, explicit: PluginSet, available: list[str]) -> list[str]:
    """Return the names of the plugins that run at one extension point, in order.

    First come the MultiPoint plugins that `explicit` enables again, then the other MultiPoint plugins, then those that
    only `explicit` enables. `available` names the MultiPoint plugins that implement the point. Raise ConfigError for
    duplicates.
    """
    disabled = {ref.name for ref in explicit.disabled}
    multi = [] if "*" in disabled else [name for name in available if name not in disabled]
    named = [ref.name for ref in explicit.enabled]
    for names in (named, multi):
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise ConfigError(f'{path}: plugin "{twice}" already registered as "{_interface(point)}"')
    overrides = [name for name in named if name in multi]
    return [*overrides, *(n for n in multi if n not in overrides), *(n for n in named if n not in overrides)]


def _weights(
    path: str, explicit: PluginSet, multi_point: tuple[PluginRef, ...], scorers: tuple[Any, ...]
) -> dict[str, int]:
    """Return the weight of each plugin in `scorers`, by name.

    A weight in `explicit`, the set of the extension point, takes precedence over MultiPoint's, and 0 means 1. Raise
    ConfigError for a negative weight.
    """
    weights: dict[str, int] = {}
    for ref in (*explicit.enabled, *multi_point):
        weights.setdefault(ref.name, ref.weight or 1)
    ours = {plugin.name: weights[plugin.name] for plugin in scorers}
    if min(ours.values(), default=0) < 0:  # upstream's check of a sum that cannot be too large: weights are int32
        raise ConfigError(f"{path}: total score of Score plugins could overflow")
    return ours


def _check_cardinality(path: str, profile: ProfileConfig, points: dict[str, tuple[Any, ...]]) -> None:
    name = profile.scheduler_name
    if len(points["queue_sort"]) != 1:
        got = len(points["queue_sort"])
        raise ConfigError(
            f'{path}: only one queue sort plugin required for profile with scheduler name "{name}", but got {got}'
        )
    if len(points["placement_generate"]) > 1:
        raise ConfigError(
            f'{path}: at most one placement generate plugin is allowed for profile with scheduler name "{name}"'
        )
    if not points["bind"]:
        raise ConfigError(f'{path}: at least one bind plugin is needed for profile with scheduler name "{name}"')


def _snake(camel: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda m: "_" + m[1].lower(), camel)


def _interface(point: str) -> str:
    """Return the Go interface of an extension point (FilterPlugin for filter), which kube-scheduler's errors name."""
    return point[0].upper() + point[1:] + ("Plugin" if point != "multiPoint" else "")
