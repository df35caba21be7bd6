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
    return f"{_KINDS[document['kind']]}/{document['metadata']['name']}\n"


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
