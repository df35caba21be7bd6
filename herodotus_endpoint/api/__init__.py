"""The HTTP API of the decisions service: one module per group of routes, and the documents that they return."""
