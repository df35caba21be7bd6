"""The tools that `kubectl herodotus mcp` offers to AI assistants.

Owns: the tools, their command lines, the size of their answers, the protocol. Does not own: any answer: every tool runs
a command of the plugin, with the user's kubeconfig and rights.
"""
