"""What ends an attempt because of a plugin."""


class PluginError(Exception):
    """A plugin raised, or answered what its extension point does not allow: the attempt fails, the process goes on."""
