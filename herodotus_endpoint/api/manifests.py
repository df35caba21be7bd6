"""Read the manifest of a review, which a browser sends as text.

Owns: parsing YAML and JSON, and choosing the Pod or workload among several objects. Does not own: the pods that the
object would create (`herodotus_record.templates`).

Invariant: reading takes time and memory in proportion to the text. Aliases, which can repeat a part many times over,
and deep nesting are refused before any object is built.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import yaml

from herodotus_endpoint.errors import StatusError
from herodotus_record.templates import is_pod_or_workload

Json = dict[str, Any]

_MAX_DEPTH: Final = 60  # a pod's deepest field, in a CronJob, is at about 20
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast


class _Loader(_SafeLoader):  # type: ignore[misc]
    """A YAML loader that reads timestamps as strings, as Kubernetes does."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in _SafeLoader.yaml_implicit_resolvers.items()
}


def parse_manifest(text: str) -> Json:
    """Return the only Pod or workload in a manifest of YAML or JSON; objects of other kinds are ignored.

    Raises StatusError 422 if the text cannot be read, or if it has no Pod or workload, or more than one.
    """
    try:
        _check_structure(text)
        documents = msgspec.json.decode(msgspec.json.encode(list(yaml.load_all(text, Loader=_Loader))))
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as e:
        mark = getattr(e, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise StatusError(422, f"spec.manifest: not valid YAML{line}") from e
    objects = [o for document in documents for o in _list_objects(document)]
    pod_objects = [dict(o) for o in objects if is_pod_or_workload(o)]
    if len(pod_objects) == 1:
        return pod_objects[0]
    if pod_objects:
        raise StatusError(422, f"spec.manifest: {len(pod_objects)} objects define pods: give one")
    kinds = ", ".join(sorted({str(o.get("kind")) for o in objects if isinstance(o, dict)})) or "nothing"
    raise StatusError(422, f"spec.manifest: no Pod, and no workload with a template of pods; found {kinds[:200]}")


def _check_structure(text: str) -> None:
    """Raise StatusError 422 if the text has an alias or is nested too deep."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise StatusError(422, f"spec.manifest: nested deeper than {_MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            raise StatusError(422, "spec.manifest: aliases (*name) are not supported: write the part out")


def _list_objects(document: Any) -> list[Any]:
    if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
        return list(document.get("items") or [])
    return [] if document is None else [document]
