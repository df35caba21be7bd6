"""The only door to the API server.

Owns: credentials, HTTP, list and watch, and every write: bindings, conditions, events, the Lease. Does not own: what
any of it means to scheduling. HTTP is `http`, credentials are `credentials`; nothing else imports their libraries.
"""
