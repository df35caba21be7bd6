"""The plugin interface and the framework that runs plugins.

`interface` has the extension points, `runtime` runs plugins and keeps their results in a `trace`, and
`equivalence_cache` reuses results of earlier pods.
"""
