"""The answers: one module per kind, with the types of its document and the pure functions that build it."""
