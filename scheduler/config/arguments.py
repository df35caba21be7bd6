"""Decoding and validation of each plugin's arguments in a profile's `pluginConfig`.

Invariant: arguments of plugins that the registry does not contain are ignored, as kube-scheduler does with out-of-tree
plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from herodotus_record.typed_decoding import convert
from scheduler.config.document import ConfigError
from scheduler.config.types import API_VERSION, PluginConfig, ProfileConfig
from scheduler.engine.framework.plugin import Args, BasePlugin, NoArgs
from scheduler.engine.objects.problems import Problem, format_decode_error
from scheduler.engine.rules import Rules

Registry = Mapping[str, type[BasePlugin]]  # plugins by the names that a configuration uses


def decode_arguments(profile: ProfileConfig, path: str, registry: Registry, rules: Rules) -> dict[str, Args]:
    """Return the decoded arguments of each plugin in the profile's `pluginConfig`, by plugin name.

    `path` is the profile's field path for error messages. Raise ConfigError if arguments do not decode or are invalid.
    """
    decoded = dict(_decoded(profile, path, registry))
    ConfigError.raise_any(find_argument_problems(profile, path, registry, rules))
    return {profile.plugin_config[j].name: args for j, args in decoded.items()}


def find_argument_problems(profile: ProfileConfig, path: str, registry: Registry, rules: Rules) -> Iterator[Problem]:
    """Yield each validation error of the plugin arguments in the profile's `pluginConfig`, with these feature gates.

    `path` is the profile's field path for error messages. Raise ConfigError if arguments do not decode.
    """
    for j, args in _decoded(profile, path, registry):
        below = f"{path}.pluginConfig[{j}].args"
        yield from (problem.below(below) for problem in args.problems_in(rules))
        entry = profile.plugin_config[j]
        for name, gated in registry[entry.name].gated_args.items():
            if name in (entry.args or {}) and not gated.is_allowed(rules):
                yield gated.build_problem(name, (entry.args or {})[name]).below(below)


def _decoded(profile: ProfileConfig, path: str, registry: Registry) -> Iterator[tuple[int, Args]]:
    for j, entry in enumerate(profile.plugin_config):
        if entry.name in registry:
            yield j, _decode(entry, f"{path}.pluginConfig[{j}]", registry[entry.name])


def _decode(entry: PluginConfig, path: str, plugin: type[BasePlugin]) -> Args:
    written, kind = entry.args or {}, f"{plugin.name}Args"
    args_type = plugin.args_type
    if written and args_type is NoArgs:
        raise ConfigError(f"{path}.args: plugin {entry.name} takes no arguments")
    written_kind, version = written.get("kind", kind), written.get("apiVersion", API_VERSION)
    if version != API_VERSION:
        detail = f'no kind "{written_kind}" is registered for version "{version}"'
        raise ConfigError(f"decoding .{path}: decoding args for plugin {entry.name}: {detail}")
    if written_kind != kind:
        raise ConfigError(
            f"decoding .{path}: args for plugin {entry.name} were not of type"
            f" {kind}.kubescheduler.config.k8s.io, got {written_kind}"
        )
    try:
        return convert(written, args_type)
    except msgspec.ValidationError as e:
        raise ConfigError(
            f"decoding .{path}: decoding args for plugin {entry.name}: {format_decode_error(str(e))}"
        ) from e
