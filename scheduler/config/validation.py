"""Validation of a configuration that was decoded, in kube-scheduler's order and words.

Source: pkg/scheduler/apis/config/validation and k8s.io/component-base/config/validation v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler.config.arguments import Registry, find_argument_problems
from scheduler.config.extenders import find_extender_problems
from scheduler.config.rules import resolve_rules
from scheduler.config.types import (
    API_VERSION,
    Configuration,
    LeaderElectionConfiguration,
    PluginSet,
    ProfileConfig,
    list_enabled,
)
from scheduler.engine.objects import times
from scheduler.engine.objects.problems import Problem, duplicate, invalid, required
from scheduler.engine.rules import Rules

# v1 had them until 1.31; now NodeVolumeLimits
REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")

_SAME = "must be the same for all profiles"


def find_config_problems(config: Configuration, registry: Registry) -> Iterator[Problem]:
    """Yield each validation error of the configuration. Raise ConfigError if a plugin's arguments do not decode."""
    if config.client_connection.burst < 0:
        yield invalid("clientConnection.burst", config.client_connection.burst, "must be non-negative")
    if config.leader_election.leader_elect:
        yield from (problem.below("leaderElection") for problem in _election_problems(config.leader_election))
    if config.parallelism <= 0:
        yield invalid("parallelism", config.parallelism, "should be an integer value greater than zero")
    yield from _profiles_problems(config.profiles, registry, resolve_rules(config))
    yield from _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    if config.pod_initial_backoff_seconds <= 0:
        yield invalid("podInitialBackoffSeconds", config.pod_initial_backoff_seconds, "must be greater than 0")
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", config.pod_max_backoff_seconds, detail)
    yield from find_extender_problems(config.extenders)


def _percentage(path: str, value: int | None) -> Iterator[Problem]:
    if value is not None and not 0 <= value <= 100:
        yield invalid(path, value, "not in valid range [0-100]")


def _election_problems(election: LeaderElectionConfiguration) -> Iterator[Problem]:
    written = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    ns: dict[str, int] = {}
    for path, text in written.items():
        try:
            ns[path] = times.parse_nanoseconds(text)
        except ValueError as e:
            yield invalid(path, text, str(e))
            continue
        if ns[path] <= 0:
            yield invalid(path, times.normalize(text), "must be greater than zero")
    if len(ns) == len(written) and ns["leaseDuration"] <= ns["renewDeadline"]:
        # kube-scheduler prints the other value here
        shown = times.normalize(election.renew_deadline)
        yield invalid("leaseDuration", shown, "must be greater than `RenewDeadline`")
    if election.resource_lock != "leases":
        yield invalid("resourceLock", election.resource_lock, 'resourceLock value must be "leases"')


def _profiles_problems(profiles: tuple[ProfileConfig, ...], registry: Registry, rules: Rules) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        if not profile.scheduler_name:
            yield required(f"{path}.schedulerName")
        yield from _percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
        yield from _removed_problems(profile, path)
        yield from _repeated_problems(profile, path)
        yield from find_argument_problems(profile, path, registry, rules)
        if profile.scheduler_name in seen:
            yield duplicate(f"{path}.schedulerName", profile.scheduler_name)
        seen.setdefault(profile.scheduler_name, i)
    yield from _queue_sort_problems(profiles)


def _removed_problems(profile: ProfileConfig, path: str) -> Iterator[Problem]:
    detail = f'was invalid in version "{API_VERSION}" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    for place, name in list_enabled(profile.plugins, path):
        if name in REMOVED and ".multiPoint." not in place:  # kube-scheduler checks only the others
            yield invalid(place, name, detail)
    for j, entry in enumerate(profile.plugin_config):
        if entry.name in REMOVED:
            yield invalid(f"{path}.pluginConfig[{j}]", entry.name, detail)


def _repeated_problems(profile: ProfileConfig, path: str) -> Iterator[Problem]:
    names = [entry.name for entry in profile.plugin_config]
    for j, name in enumerate(names):
        if name in names[:j]:
            yield duplicate(f"{path}.pluginConfig[{j}]", name)


def _queue_sort_problems(profiles: tuple[ProfileConfig, ...]) -> Iterator[Problem]:
    """Yield an error for each profile whose `queueSort` plugin or its arguments differ from the first profile's.

    All profiles share one queue, so its order must be the same for all.
    """
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        path = "profiles[0].plugins.queueSort.Enabled"
        yield invalid(path, len(first.enabled), "only one queue sort plugin can be enabled")
    name = first.enabled[0].name if first.enabled else None
    args = _args_of(profiles[0], name)
    for i, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != first:
            yield invalid(f"profiles[{i}].plugins.queueSort", _internal(profile.plugins.queue_sort), _SAME)
        own = _args_of(profile, name)
        if own is not None and own != args:
            yield invalid(f"profiles[{i}].pluginConfig.args", own, f"queueSort {_SAME}")


def _args_of(profile: ProfileConfig, name: str | None) -> dict[str, Any] | None:
    return next((entry.args or {} for entry in profile.plugin_config if entry.name == name), None)


def _internal(plugins: PluginSet) -> dict[str, Any]:
    """Return a plugin set with the keys that Go prints for its internal type (Enabled, Disabled, Name, Weight)."""

    def refs(group: tuple[Any, ...]) -> list[dict[str, Any]] | None:
        return [{"Name": ref.name, "Weight": ref.weight} for ref in group] or None

    return {"Enabled": refs(plugins.enabled), "Disabled": refs(plugins.disabled)}
