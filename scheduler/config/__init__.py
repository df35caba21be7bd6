"""KubeSchedulerConfiguration: the file, its defaults, its errors, and the profiles it stands for.

Owns: reading (`document`, `load`), the types (`types`), what is refused (`validation`, `arguments`), older versions
(`legacy`, `convert`), and expanding profiles into plugin objects (`profiles`). Does not own: what plugins do with their
arguments, and which of these they refuse.
"""

from scheduler.config.arguments import Registry
from scheduler.config.errors import ConfigError
from scheduler.config.load import load, read
from scheduler.config.profiles import build_profile
from scheduler.config.types import Configuration, ProfileConfig

__all__ = ["ConfigError", "Configuration", "ProfileConfig", "Registry", "build_profile", "load", "read"]
