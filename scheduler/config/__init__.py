"""KubeSchedulerConfiguration: reading the file, its defaults, its validation and the profiles that it configures.

Owns: reading (`document`, `load`), the types (`types`), validation (`validation`, `arguments`), older versions
(`legacy`, `convert`), and the construction of profiles (`profiles`). Does not own: the meaning of plugin arguments and
their validation rules.
"""

from scheduler.config.arguments import Registry
from scheduler.config.errors import ConfigError
from scheduler.config.load import load, parse_config
from scheduler.config.profiles import build_profile
from scheduler.config.types import Configuration, ProfileConfig

__all__ = ["ConfigError", "Configuration", "ProfileConfig", "Registry", "build_profile", "load", "parse_config"]
