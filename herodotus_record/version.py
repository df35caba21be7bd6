"""The version of the release. Both wheels read it at build time.

CHANGELOG.md describes what a version promises. scripts/set-version.sh writes it where it cannot be imported.
"""

__version__ = "0.1.0"
