"""The plugin contract and its runtime.

Owns: extension points (`interface`), verdict columns (`verdicts`), what plugins keep between points (`state`), which
plugin runs where (`profile`), running them and keeping what they said (`runtime`, `trace`), and the per-node form for
out-of-tree plugins (`adaptor`). Does not own: any plugin, the queue, the cache, the API server.
"""
