"""The plugin interface and the framework that runs plugins.

Owns: extension points (`interface`), verdict columns (`verdicts`), state between extension points (`state`), which
plugin runs where (`profile`), running plugins and keeping their results (`runtime`, `trace`), the equivalence cache
(`equivalence_cache`), and the per-node form of plugins (`per_node`). Does not own: any plugin, the queue, the cluster
cache, the API server.
"""
