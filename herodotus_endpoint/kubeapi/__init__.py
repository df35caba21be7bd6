"""The Kubernetes-style API: objects, lists, tables and watches, with discovery and OpenAPI.

Owns: what kubectl and other clients need to treat decisions as ordinary objects. Does not own: the content of decisions
(`herodotus_record`), access control (`access`).
"""
