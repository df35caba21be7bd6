"""A scheduler configuration with all defaults filled in, in kube-scheduler's format.

The command `validate` prints it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.config.arguments import Registry, decode_arguments
from scheduler.config.profiles import merge_multi_point, resolve_plugin_names
from scheduler.config.rules import resolve_rules
from scheduler.config.types import API_VERSION, Configuration, PluginRef, PluginSet, ProfileConfig, sets_by_point
from scheduler.engine.framework.plugin import BasePlugin, NoArgs
from scheduler.engine.rules import Rules

Json = dict[str, Any]


def fill_defaults(config: Configuration, registry: Registry) -> Json:
    """Return the whole KubeSchedulerConfiguration as a JSON object, with every default filled in.

    Raise ConfigError if a profile's plugin arguments do not decode or are invalid.
    """
    document: Json = msgspec.json.decode(msgspec.json.encode(config))  # lists, where to_builtins keeps tuples
    rules = resolve_rules(config)
    document["profiles"] = [_profile(config.profiles[i], i, registry, rules) for i in range(len(config.profiles))]
    document["percentageOfNodesToScore"] = config.percentage_of_nodes_to_score or 0
    for name in ("extenders", "featureGates", "kubernetesVersion", "emulatedVersion", "versionSource"):
        if not document[name]:
            del document[name]
    return document


def _profile(profile: ProfileConfig, index: int, registry: Registry, rules: Rules) -> Json:
    multi_point = merge_multi_point(profile.plugins.multi_point, rules)
    enabled = {ref.name for ref in multi_point} | {
        ref.name for point in sets_by_point(profile.plugins).values() for ref in point.enabled
    }
    # keyed by the plugins' own names, which pluginConfig uses even if a plugin is enabled as module:Class
    by_name = {plugin.name: plugin for plugin in (registry[name] for name in enabled & registry.keys())}
    args = decode_arguments(resolve_plugin_names(profile, registry), f"profiles[{index}]", registry, rules)
    answer: Json = {
        "schedulerName": profile.scheduler_name,
        "pluginConfig": [
            {"name": name, "args": _written(plugin, args.get(name, plugin.args_type()), rules)}
            for name, plugin in sorted(by_name.items())
            if plugin.args_type is not NoArgs
        ],
        "plugins": {point: _plugin_set(plugins) for point, plugins in sets_by_point(profile.plugins).items()},
    }
    merged = PluginSet(enabled=multi_point, disabled=profile.plugins.multi_point.disabled)
    answer["plugins"]["multiPoint"] = _plugin_set(merged)
    if profile.percentage_of_nodes_to_score is not None:
        answer["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    return answer


def _plugin_set(plugins: PluginSet) -> Json:
    def refs(group: tuple[PluginRef, ...]) -> list[Json]:
        return [{"name": ref.name, "weight": ref.weight} for ref in group]

    listed = {"enabled": refs(plugins.enabled), "disabled": refs(plugins.disabled)}
    return {key: value for key, value in listed.items() if value}


def _written(plugin: type[BasePlugin], args: Any, rules: Rules) -> Json:
    """Return a plugin's arguments as a JSON object with `kind` and `apiVersion`, and without unset fields.

    Arguments that require a disabled feature gate are omitted.
    """
    off = {name for name, gated in plugin.gated_args.items() if not gated.is_allowed(rules)}
    written = {name: value for name, value in _without_empty(msgspec.to_builtins(args)).items() if name not in off}
    return {**written, "apiVersion": API_VERSION, "kind": f"{plugin.name}Args"}


def _without_empty(value: Any) -> Any:
    """Return a JSON value without nulls, empty strings, lists and objects inside, as Go's `omitempty` writes it."""
    if isinstance(value, dict):
        return {k: _without_empty(v) for k, v in value.items() if v not in (None, "", (), [], {})}
    if isinstance(value, list | tuple):
        return [_without_empty(v) for v in value]
    return value
