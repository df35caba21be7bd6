"""Kubernetes objects as typed structs that hold only the fields which scheduling reads."""
