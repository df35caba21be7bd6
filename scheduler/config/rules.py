"""The rules of a configuration: from `kubernetesVersion`, `emulatedVersion` and `featureGates`, and from flags."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from herodotus_record.kubernetes_version import DEFAULT_VERSION, KubernetesVersion
from scheduler.config.cluster_version import FoundVersion, VersionSource
from scheduler.config.document import ConfigError
from scheduler.config.types import Configuration
from scheduler.engine.rules import Rules
from scheduler.engine.rules.feature_gates import FeatureGateError


def resolve_rules(config: Configuration) -> Rules:
    """Return the rules by which the configuration decides.

    Raise ConfigError if the version is not known, or a setting of a feature gate is refused or not supported.
    """
    try:
        return _parse_rules(config)
    except FeatureGateError as e:
        raise ConfigError(f"featureGates: {e}") from e
    except ValueError as e:  # UnknownKubernetesVersionError is one
        raise ConfigError(f"kubernetesVersion: {e}") from e


def override_rules(
    config: Configuration, settings: Mapping[str, bool] = {}, version: FoundVersion | None = None
) -> Configuration:
    """Return a copy of the configuration with the feature gates in `settings` and, unless it is None, with `version`.

    A version that was found on the cluster does not replace one that the configuration states. Gates that are not in
    `settings` keep their values. Raise FeatureGateError for a setting that is refused or not supported,
    UnknownKubernetesVersionError for a version whose rules Herodotus does not know.
    """
    changed = msgspec.structs.replace(config, feature_gates={**config.feature_gates, **settings})
    if version is not None and (version.source is VersionSource.FLAG or not config.kubernetes_version):
        changed = msgspec.structs.replace(
            changed,
            kubernetes_version=str(version.version),
            emulated_version=version.emulated.minor_version if version.emulated else "",
            version_source=version.source.value,
        )
    _parse_rules(changed)
    return changed


def _parse_rules(config: Configuration) -> Rules:
    stated = VersionSource.CONFIGURATION if config.kubernetes_version else VersionSource.DEFAULT
    source = VersionSource(config.version_source) if config.version_source else stated
    version = KubernetesVersion.parse(config.kubernetes_version) if config.kubernetes_version else DEFAULT_VERSION
    emulated = KubernetesVersion.parse(config.emulated_version) if config.emulated_version else None
    return Rules.from_settings(config.feature_gates, version, emulated, source.value)
