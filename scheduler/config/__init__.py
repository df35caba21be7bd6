"""KubeSchedulerConfiguration: reading the file, its defaults, its validation and the profiles that it configures.

Each plugin defines and validates its own arguments.
"""

from scheduler.config.arguments import Registry
from scheduler.config.document import ConfigError
from scheduler.config.load import load, parse_config
from scheduler.config.profiles import build_profile
from scheduler.config.types import Configuration, ProfileConfig

__all__ = ["ConfigError", "Configuration", "ProfileConfig", "Registry", "build_profile", "load", "parse_config"]
