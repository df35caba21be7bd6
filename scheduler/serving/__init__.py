"""The scheduler's own HTTPS port: health, metrics, configuration, verbosity.

Rules: nothing here runs in the loop's thread, and nothing here is waited for by it.
"""
