"""The one version of everything that is released together: both wheels read it here when they are built.

What it promises stands in CHANGELOG.md. Places that cannot read it are written by scripts/set-version.sh.
"""

__version__ = "0.1.0"
