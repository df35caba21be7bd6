"""The live scheduler: scheduling loop, binding cycle, preemption, writes to the API server."""
