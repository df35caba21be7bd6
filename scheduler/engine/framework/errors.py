"""The exception that ends an attempt because of a plugin."""


class PluginError(Exception):
    """The error that ends an attempt.

    A plugin raised an exception, or returned a result that its extension point does not allow.
    """
