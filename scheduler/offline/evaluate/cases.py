"""Decides cases given as JSON lines: one object (pod, cluster, configuration) per line in, one result or error out.

The format is in tests/golden/README.md. Invariant: a malformed case affects no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from herodotus_record import notes
from herodotus_record.kubernetes_version import KubernetesVersion
from scheduler.config import Configuration, Registry, parse_config
from scheduler.config.cluster_version import FoundVersion, VersionSource
from scheduler.config.rules import override_rules
from scheduler.engine.manifests.cluster import ManifestError, SourceManifest, decode_pod, load_cluster
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate.engine import Engine, EvaluatedPod

Json = dict[str, Any]

CASE, DECISION = "case", "decision"
FORMS = (CASE, DECISION)  # of a decided pod


class CaseError(ValueError):
    """A malformed case. The message names the case's id or line and the wrong field."""


def evaluate_lines(
    lines: Iterable[str], config: Configuration | None, form: str = "case", registry: Registry = IN_TREE
) -> Iterator[Mapping[str, Any] | CaseError]:
    """Decide the case in each line, and yield its result document, or a CaseError if the case is malformed.

    Empty lines are skipped. `config` is used for cases without a configuration. If `form` is `case`, a result is {"id",
    "expect"}, with "notes" if there are any; if it is `decision`, it is a Decision document.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            case = _case(line, number)
            yield answer(_id(case), evaluate(case, config, registry), form)
        except CaseError as e:
            yield e


def answer(name: str, evaluation: EvaluatedPod, form: str) -> Mapping[str, Any]:
    """Return the result of a decided pod as a document in the form `form`, as described at `evaluate_lines`.

    `name` is the "id" of the form `case`.
    """
    if form == DECISION:
        return evaluation.decision()
    shown = notes.format_notes(evaluation.result.trace.notes)
    return {"id": name, "expect": evaluation.outcome(), **({"notes": shown} if shown else {})}


def evaluate(
    case: Mapping[str, Any], config: Configuration | None = None, registry: Registry = IN_TREE
) -> EvaluatedPod:
    """Decide the pod of one case on the cluster of its objects. Raise CaseError if the case is malformed.

    `config` is used if the case has no configuration. The rules are those of the case's `kubernetesVersion`, if any.
    """
    try:
        if case.get("config"):
            config = parse_config(json.dumps(case["config"]), default_name="default-scheduler", registry=registry)
        config = config or Configuration()
        if case.get("kubernetesVersion"):
            version = KubernetesVersion.parse(str(case["kubernetesVersion"]))
            config = override_rules(config, version=FoundVersion(version, VersionSource.FLAG))
        pod = PodInfo(decode_pod("pod", case.get("pod")))
        objects = case.get("objects") or ()
        if not isinstance(objects, list | tuple):
            raise ManifestError("objects: expected an array")
        cluster = load_cluster((SourceManifest(f"objects[{i}]", content) for i, content in enumerate(objects)), pod)
        return Engine(cluster, config, registry).evaluate(pod)
    except ValueError as e:  # ConfigError, ManifestError, and those of rules
        raise CaseError(f"case {_id(case)}: {e}") from e


def _case(line: str, number: int) -> Json:
    try:
        case = msgspec.json.decode(line)  # stricter than Python's: no NaN, no half of a surrogate pair
    except (ValueError, RecursionError) as e:
        raise CaseError(f"line {number}: not JSON: {e}") from e
    if not isinstance(case, dict):
        raise CaseError(f"line {number}: a case is a JSON object")
    return case


def _id(case: Mapping[str, Any]) -> str:
    return str(case.get("id", "?"))
