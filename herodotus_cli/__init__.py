"""The kubectl plugin: `kubectl herodotus`."""

__version__ = "0.1.0"  # of the distribution; reading it from package metadata would cost every start 20 ms
