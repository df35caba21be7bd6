"""The Kubernetes-style API: resources as objects, lists, tables and watches, with discovery and OpenAPI.

Owns: what kubectl and other clients of the API server need to take decisions for ordinary objects. Does not own: what a
decision says (`herodotus_record`), who may ask (`access`).
"""
