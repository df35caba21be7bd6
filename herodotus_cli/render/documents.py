"""Answer documents as JSON, YAML or names.

Owns: their layout, and escaping characters that a terminal would interpret. Does not own: their content.
"""

from __future__ import annotations

import json
from typing import Any

from herodotus_record.escaping import escape, escape_json, is_safe


def serialize(document: dict[str, Any], format_: str) -> str:
    """Return the document as text in the format `json`, `yaml` or `name`. The last has one KIND/NAME per line."""
    if format_ == "json":
        return escape_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"
    if format_ == "yaml":
        return _yaml(document)
    return "".join(f"{escape(name)}\n" for name in _names(document))


def serialize_event(document: dict[str, Any], format_: str) -> str:
    """Return a document of a stream as text: a line of JSON, a YAML document after `---`, or KIND/NAME."""
    if format_ == "json":
        return escape_json(json.dumps(document, ensure_ascii=False)) + "\n"
    return ("---\n" if format_ == "yaml" else "") + serialize(document, format_)


def _names(document: dict[str, Any]) -> list[str]:
    """Return, as `KIND/NAME`, the pods, nodes or workloads that a document of the decisions service describes."""
    kind = document["kind"]
    if kind == "Decision":
        return [f"pod/{document['spec']['pod']['name']}"]
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
    "GatedPod": "pod",
    "PodExplanation": "pod",
    "PodHistory": "pod",
    "PodComparison": "pod",
    "NodeComparison": "pod",
    "NodeHistory": "node",
}


def _yaml(document: dict[str, Any]) -> str:
    import yaml  # here, because it takes 20 ms that other formats do not need

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    def dumped(*, allow_unicode: bool) -> str:
        return str(yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=allow_unicode, width=1_000_000))

    found = dumped(allow_unicode=True)
    return found if is_safe(found) else dumped(allow_unicode=False)  # writes "\u202E" and the like as escapes
