"""The fields of KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) with kube-scheduler's defaults.

Three defaults differ on purpose (docs/parity.md): the scheduler name and the Lease are Herodotus' own, and
`percentageOfNodesToScore: 0` means every node. `featureGates` and `emulatedVersion`, for which kube-scheduler has only
flags, `kubernetesVersion` and `versionSource` are Herodotus' own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from scheduler.config.extenders import ExtenderConfig
from scheduler.engine.objects.types import Int32, Int64

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_NAME = "herodotus-scheduler"


class ConfigStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base class of the configuration's types: decoding rejects unknown keys."""


class LeaderElectionConfiguration(ConfigStruct, frozen=True):
    """The `leaderElection` field: the Lease that only one replica holds. Durations use Go's notation (15s, 1m30s)."""

    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = DEFAULT_NAME
    resource_namespace: str = "kube-system"


class ClientConnection(ConfigStruct, frozen=True):
    """The `clientConnection` field: how to connect to the API server. Command-line flags take precedence."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"  # kube-scheduler's default; Herodotus uses JSON
    qps: int | float = 50
    burst: Int32 = 100


class PluginRef(ConfigStruct, frozen=True):
    """A reference to an enabled or disabled plugin by name. Only score plugins use `weight`."""

    name: str
    weight: Int32 = 0


class PluginSet(ConfigStruct, frozen=True):
    """The plugins that a profile enables and disables at one extension point."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(ConfigStruct, frozen=True):
    """A profile's `plugins` field: the enabled and disabled plugins at each extension point and at `multiPoint`."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()


def sets_by_point(plugins: Plugins) -> dict[str, PluginSet]:
    """Return the plugin sets by extension point and `multiPoint`, named as in a configuration."""
    return {field.encode_name: getattr(plugins, field.name) for field in msgspec.structs.fields(Plugins)}


def list_enabled(plugins: Plugins, profile: str) -> Iterator[tuple[str, str]]:
    """Yield the field path and the name of each enabled plugin. `profile` is the path of the profile."""
    for point, own in sets_by_point(plugins).items():
        for k, ref in enumerate(own.enabled):
            yield f"{profile}.plugins.{point}.enabled[{k}]", ref.name


class PluginConfig(ConfigStruct, frozen=True):
    """The name of a plugin with its arguments as plain JSON, before they are decoded into the plugin's own type."""

    name: str
    args: dict[str, Any] | None = None


class ProfileConfig(ConfigStruct, frozen=True):
    """One entry of `profiles`: a scheduler name with its plugins and their arguments."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class Configuration(ConfigStruct, frozen=True):
    """A KubeSchedulerConfiguration document, with a default for every field."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[ProfileConfig, ...] = (ProfileConfig(scheduler_name=DEFAULT_NAME),)
    extenders: tuple[ExtenderConfig, ...] = ()
    delay_cache_until_active: bool = False
    feature_gates: dict[str, bool] = {}
    kubernetes_version: str = ""  # whose rules apply, such as v1.34.2; empty: the default version's
    emulated_version: str = ""  # whose feature gates apply, such as v1.34; empty: those of kubernetesVersion
    version_source: str = ""  # how kubernetesVersion was found, for records; empty: the configuration states it
