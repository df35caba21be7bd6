"""Documents as they are: JSON, YAML, names.

Owns: their layout. Does not own: what they hold.
"""

from __future__ import annotations

import json
from typing import Any


def text(document: dict[str, Any], format_: str) -> str:
    """The document as `json`, `yaml` or `name`."""
    if format_ == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if format_ == "yaml":
        return _yaml(document)
    return "".join(f"{name}\n" for name in _names(document))


def _names(document: dict[str, Any]) -> list[str]:
    """What the document is about: `pod/NAME`, or one line for each of its things."""
    kind = document["kind"]
    if kind == "PendingPods":
        return [f"pod/{pod['pod']}" for pod in document["pods"]]
    if kind == "Agreements":
        return [f"pod/{outcome['pod']}" for outcome in document["disagreements"]]
    if kind == "Balance":
        return [f"node/{node['node']}" for node in document["nodes"]]
    if kind == "PlacementReview":
        return [f"node/{pod['node']}" for pod in document["status"]["pods"]]
    if kind == "WorkloadPlacement":
        workload, _, name = document["metadata"]["name"].partition("/")
        return [f"{workload.lower()}/{name}"]
    return [f"{_KINDS[kind]}/{document['metadata']['name']}"]


_KINDS = {
    "PodExplanation": "pod",
    "PodHistory": "pod",
    "PodComparison": "pod",
    "NodeComparison": "pod",
    "NodeHistory": "node",
}


def _yaml(document: dict[str, Any]) -> str:
    import yaml  # here, because it costs 20 ms that other formats do not need

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1_000_000))
