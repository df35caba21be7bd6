"""Kubernetes objects as typed structs that hold only the fields which scheduling reads.

Owns: decoding (`types`), quantities (`quantity`), a pod's requests (`requests`), selectors (`selectors`), taints
(`taints`), and the pod prepared for a cycle (`pod`). Does not own: reading objects from the API server
(`scheduler.kube`).
"""
