"""Another scheduler's KubeSchedulerConfiguration, limited to the plugins that this process has. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from scheduler.config import Configuration, Registry
from scheduler.config.types import Plugins, PluginSet, ProfileConfig
from scheduler.offline.observe.agreement import ObservedScheduler


def for_pods_of(names: Sequence[str], config: Configuration) -> Configuration:
    """Return the configuration with exactly one profile for each of these scheduler names.

    A name without a profile in `config` gets a copy of the first profile.
    """
    own = {profile.scheduler_name: profile for profile in config.profiles}
    first = config.profiles[0]
    profiles = [own.get(name) or msgspec.structs.replace(first, scheduler_name=name) for name in names]
    return msgspec.structs.replace(config, profiles=tuple(profiles))


def drop_unknown_plugins(
    config: Configuration, registry: Registry
) -> tuple[Configuration, dict[str, ObservedScheduler]]:
    """Return the configuration without extenders, without plugins that `registry` lacks, and without sampling of nodes.

    Also return, by scheduler name, the plugins, extenders and sampling that were dropped.
    """
    extenders = tuple(extender.url_prefix for extender in config.extenders)
    profiles, theirs = [], {}
    for profile in config.profiles:
        known_only, unknown = _drop_unknown_plugins(profile, registry)
        share = profile.percentage_of_nodes_to_score
        share = config.percentage_of_nodes_to_score if share is None else share
        profiles.append(
            msgspec.structs.replace(known_only, percentage_of_nodes_to_score=100)
        )  # every node is evaluated
        theirs[profile.scheduler_name] = ObservedScheduler(share or 0, unknown, extenders)
    return msgspec.structs.replace(config, profiles=tuple(profiles), extenders=()), theirs


def _drop_unknown_plugins(profile: ProfileConfig, registry: Registry) -> tuple[ProfileConfig, tuple[str, ...]]:
    unknown: list[str] = []

    def kept(point: PluginSet) -> PluginSet:
        unknown.extend(ref.name for ref in point.enabled if ref.name not in registry)
        return msgspec.structs.replace(point, enabled=tuple(ref for ref in point.enabled if ref.name in registry))

    points: dict[str, Any] = {
        field.name: kept(getattr(profile.plugins, field.name)) for field in msgspec.structs.fields(Plugins)
    }
    args = tuple(entry for entry in profile.plugin_config if entry.name in registry)
    changed = msgspec.structs.replace(profile, plugins=Plugins(**points), plugin_config=args)
    return changed, tuple(dict.fromkeys(unknown))
