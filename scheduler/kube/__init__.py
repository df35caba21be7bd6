"""The API server's client: the only package of the scheduler that talks to it.

Owns: HTTP, list and watch, and all writes: bindings, conditions, events, the Lease. Does not own: what any of it means
to scheduling. Only `http` imports the HTTP library.
"""
