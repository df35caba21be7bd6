"""The scheduler's own HTTPS port: health, metrics, configuration, verbosity.

Invariant: nothing here runs in the loop's thread, and the loop never waits for it.
"""
