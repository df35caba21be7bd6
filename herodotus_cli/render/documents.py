"""Answer documents as JSON, YAML or names.

Owns: their layout, and escaping characters that a terminal would interpret. Does not own: their content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from herodotus_record.escaping import escape, escape_json, is_safe


def serialize(document: Mapping[str, Any], format_: str) -> str:
    """Return the document as text in the format `json`, `yaml` or `name`. The last has one KIND/NAME per line.

    Raises ValueError for the format `name` if the document is not about objects with names.
    """
    if format_ == "json":
        return escape_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"
    if format_ == "yaml":
        return _yaml(document)
    return "".join(f"{escape(name)}\n" for name in _names(document))


def serialize_event(document: Mapping[str, Any], format_: str) -> str:
    """Return a document of a stream as text: a line of JSON, a YAML document after `---`, or KIND/NAME."""
    if format_ == "json":
        return escape_json(json.dumps(document, ensure_ascii=False)) + "\n"
    return ("---\n" if format_ == "yaml" else "") + serialize(document, format_)


def list_rows(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries of a document that is a list, such as its pods, or the document itself as the only one."""
    value: Any = document
    for key in _ROWS.get(document["kind"], ()):
        value = value[key]
    return [dict(document)] if value is document else list(value)


def _names(document: Mapping[str, Any]) -> list[str]:
    """Return, as `KIND/NAME`, the pods, nodes or workloads that a document of the decisions service describes."""
    kind = document["kind"]
    if kind == "Decision":
        return [f"pod/{document['spec']['pod']['name']}"]
    if kind in ("DecisionList", "PluginExplanationList", "NodeSummaryList"):
        return [name for item in list_rows(document) for name in _names(item)]
    if kind == "Preemptions":
        return [f"pod/{victim['pod']}" for row in list_rows(document) for victim in row["victims"] if victim["pod"]]
    if kind == "ReasonList":
        return [f"reason/{row['code']}" for row in list_rows(document)]
    if kind in _ROWS:
        named = "pod" if kind in _POD_ROWS else "node"
        return [f"{named}/{row[named]}" for row in list_rows(document)]
    if kind == "WorkloadPlacement":
        workload, _, name = document["metadata"]["name"].partition("/")
        return [f"{workload.lower()}/{name}"]
    if kind not in _KINDS:
        raise ValueError(f"a {kind} is about no single object")
    return [f"{_KINDS[kind]}/{document['metadata']['name']}"]


# The list in a document whose entries are the rows of custom columns and the lines of -o name.
_ROWS = {
    "DecisionList": ("items",),
    "PluginExplanationList": ("items",),
    "PendingPods": ("pods",),
    "Agreements": ("disagreements",),
    "ReasonList": ("items",),
    "NodeSummaryList": ("items",),
    "Preemptions": ("preemptions",),
    "Balance": ("nodes",),
    "PlacementReview": ("status", "pods"),
}
_POD_ROWS = ("PendingPods", "Agreements")
_KINDS = {
    "PluginExplanation": "plugin",
    "UndecidedPod": "pod",
    "PodExplanation": "pod",
    "PodHistory": "pod",
    "PodComparison": "pod",
    "NodeComparison": "pod",
    "NodeHistory": "node",
    "NodeSummary": "node",
    "PodGroupPlacement": "podgroup",
    "UndecidedPodGroup": "podgroup",
}


def _yaml(document: Mapping[str, Any]) -> str:
    import yaml  # here, because it takes 20 ms that other formats do not need

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    def dumped(*, allow_unicode: bool) -> str:
        return str(yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=allow_unicode, width=1_000_000))

    text = dumped(allow_unicode=True)
    return text if is_safe(text) else dumped(allow_unicode=False)  # writes "\u202E" and the like as escapes
