"""Kubernetes objects as scheduling reads them: typed, and nothing that scheduling does not read.

Owns: decoding (`types`), amounts (`quantity`), a pod's requests (`requests`), selectors (`selectors`), taints
(`taints`), and the pod prepared for a cycle (`pod`). Does not own: where objects come from (`scheduler.kube`).
"""
