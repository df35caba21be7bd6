"""The rules of a configuration: from its fields `kubernetesVersion` and `featureGates`, and from flags."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from herodotus_record.kubernetes_version import DEFAULT_VERSION, KubernetesVersion
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
    config: Configuration, settings: Mapping[str, bool] = {}, version: KubernetesVersion | None = None
) -> Configuration:
    """Return the configuration with these feature gates, and this version unless it is None, instead of its own.

    Gates that `settings` does not name keep their values. Raise FeatureGateError if a setting is refused or not
    supported, UnknownKubernetesVersionError for a version whose rules Herodotus does not know.
    """
    changed = msgspec.structs.replace(
        config,
        feature_gates={**config.feature_gates, **settings},
        kubernetes_version=str(version) if version else config.kubernetes_version,
    )
    _parse_rules(changed)
    return changed


def _parse_rules(config: Configuration) -> Rules:
    version = KubernetesVersion.parse(config.kubernetes_version) if config.kubernetes_version else DEFAULT_VERSION
    return Rules.from_settings(config.feature_gates, version)
