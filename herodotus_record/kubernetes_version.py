"""Versions of Kubernetes, as far as scheduling rules depend on them.

Invariant: versions are ordered by release. A vendor's suffix, such as that of `v1.33.5-gke.1308000`, does not count.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

_VERSION: Final = re.compile(r"v?1\.(\d{1,4})(?:\.(\d{1,4}))?(?:[-+].*)?")


class KubernetesVersion(NamedTuple):
    """A version 1.MINOR.PATCH of Kubernetes."""

    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> KubernetesVersion:
        """Return the version in a text such as `v1.34.2`, `1.34` or `v1.33.5-gke.1308000`.

        A version without a patch number stands for the newest patch that Herodotus knows of that minor version. Raise
        ValueError if the text is no version of Kubernetes 1.
        """
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise ValueError(f'invalid Kubernetes version "{text}": expected a version such as v1.34 or v1.34.2')
        minor = int(match[1])
        return cls(minor, int(match[2]) if match[2] is not None else LATEST_PATCHES.get(minor, 0))

    def __str__(self) -> str:
        return f"v1.{self.minor}.{self.patch}"

    @property
    def minor_version(self) -> str:
        """The version without its patch number."""
        return f"v1.{self.minor}"


# The newest patch of each minor version that the rules were checked with, by recordings or by upstream's sources.
LATEST_PATCHES: Final = {31: 14, 32: 13, 33: 13, 34: 9, 35: 6, 36: 2, 37: 1}
OLDEST_MINOR: Final = min(LATEST_PATCHES)
NEWEST_MINOR: Final = max(LATEST_PATCHES)
# The version whose decisions were recorded and compared most widely; it applies where no version is known.
DEFAULT_VERSION: Final = KubernetesVersion(36, LATEST_PATCHES[36])


def clamp_version(version: KubernetesVersion) -> KubernetesVersion:
    """Return the version if its rules are known, or else the nearest version with known rules."""
    nearest = min(max(version.minor, OLDEST_MINOR), NEWEST_MINOR)
    if nearest == version.minor:
        return version
    return KubernetesVersion(nearest, 0 if nearest > version.minor else LATEST_PATCHES[nearest])


@lru_cache(maxsize=64)
def find_wording_version(rules: str) -> KubernetesVersion:
    """Return the version of kube-scheduler in whose words to print a record's messages.

    `rules` is the record's text of the rules that were applied, such as `v1.34.2 (…)`. If it does not begin with a
    version, the default version is returned: senders of records may write anything there.
    """
    try:
        return KubernetesVersion.parse(rules.partition(" ")[0])
    except ValueError:
        return DEFAULT_VERSION
