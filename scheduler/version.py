"""The servers' version, one with their distribution's."""

__version__ = "0.1.0"
