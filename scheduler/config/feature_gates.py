"""The feature gates of a configuration: from the field `featureGates` and the flag `--feature-gates`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.config.document import ConfigError
from scheduler.config.types import Configuration
from scheduler.engine.framework.feature_gates import FeatureGateError, FeatureGates


def resolve_feature_gates(config: Configuration) -> FeatureGates:
    """Return the value of each feature gate. Raise ConfigError if a setting is refused or not supported."""
    try:
        return FeatureGates.from_settings(config.feature_gates)
    except FeatureGateError as e:
        raise ConfigError(f"featureGates: {e}") from e


def override_feature_gates(config: Configuration, settings: Mapping[str, bool]) -> Configuration:
    """Return the configuration with these settings in addition to its own, which they override.

    Raise FeatureGateError if a setting is refused or not supported.
    """
    if not settings:
        return config
    changed = msgspec.structs.replace(config, feature_gates={**config.feature_gates, **settings})
    FeatureGates.from_settings(changed.feature_gates)
    return changed
