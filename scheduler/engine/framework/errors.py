"""The exception that ends an attempt because of a plugin."""


class PluginError(Exception):
    """A plugin raised, or returned what its extension point does not allow. The attempt fails."""
