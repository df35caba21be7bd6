"""HTTP extenders: other processes that are asked. `wire` is what is said, `client` says it."""
