"""The record model shared by all parts of Herodotus, and pure functions that read it. Imports no other package."""
