"""The kubectl plugin: `kubectl herodotus`."""
