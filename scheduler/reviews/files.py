"""A review without a cluster: the pods of a file, against the objects of files.

Owns: which of a file's objects is asked about, the priority classes among the cluster's. Does not own: reading files
(`evaluate.files`), the cluster that they make up (`evaluate.cluster`), the placing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from herodotus_record.reviews import MAX_REPLICAS, placement_review, reviewed
from herodotus_record.templates import NoTemplateError, Template, asks_for_pods, template_of
from scheduler.config import Configuration, Registry
from scheduler.evaluate.cluster import Manifest, ManifestError
from scheduler.evaluate.defaults import DEFAULT_SCHEDULER
from scheduler.evaluate.engine import Engine
from scheduler.evaluate.files import check_stdin, cluster_of, manifests, profile_of
from scheduler.plugins import IN_TREE
from scheduler.reviews.controllers import ensure
from scheduler.reviews.placing import Origin, place
from scheduler.reviews.pods import PriorityClass, pods_of

Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What of the pods. `replicas`: None for as many as the object says. `namespace`: where the object says none."""

    namespace: str = ""
    scheduler: str = ""
    replicas: int | None = None
    node: str = ""
    every_node: bool = False


def review_files(
    cluster: Sequence[str],
    pods: str,
    asked: Asked,
    config: Configuration | None,
    note: Callable[[str], None],
    registry: Registry = IN_TREE,
) -> Json:
    """The PlacementReview of a file's pods. `note`: takes what the user should know, a line each.

    ManifestError when a file cannot be read or an object in it is wrong, ConfigError when the profile cannot be built.
    """
    check_stdin([*cluster, pods])
    template = _template_in(pods)
    replicas = template.replicas if asked.replicas is None else asked.replicas
    if not 1 <= replicas <= MAX_REPLICAS:
        raise ManifestError(f"{pods}: {replicas} pods are asked about; it must be 1 to {MAX_REPLICAS}")
    objects = [manifest for path in cluster for manifest in manifests(path)]
    classes, others = _classes_in(objects)
    found = cluster_of(others, cluster, note)
    given, scheduler = config or Configuration(), asked.scheduler or template.scheduler or DEFAULT_SCHEDULER
    profile = profile_of(scheduler, given, note if config else lambda _: None)
    engine = Engine(found, given, registry, profile)
    each = pods_of(template, asked.namespace, scheduler, replicas, classes)
    ensure(each.controller, found.objects)
    frames = place(engine.framework, engine.nodes, each.marked(engine.not_asked), Origin("", "evaluate"), seed=0)
    try:
        return placement_review(
            reviewed(frames),
            name=template.name,
            kind=template.kind,
            asked=replicas,
            every_node=asked.every_node,
            node=asked.node,
        )
    except KeyError as e:
        raise ManifestError(f'nodes "{asked.node}" not found') from e


def _template_in(path: str) -> Template:
    found = [(where, content) for where, content in manifests(path) if asks_for_pods(content)]
    if len(found) != 1:
        raise ManifestError(f"{path}: expected one object that asks for pods, found {len(found) or 'none'}")
    where, content = found[0]
    try:
        return template_of(content)
    except NoTemplateError as e:
        raise ManifestError(f"{where}: {e}") from e


def _classes_in(objects: Iterable[Manifest]) -> tuple[dict[str, PriorityClass] | None, list[Manifest]]:
    """The priority classes, None where there are none; and everything else."""
    classes, others = {}, []
    for manifest in objects:
        if isinstance(manifest.content, Mapping) and manifest.content.get("kind") == PriorityClass.__name__:
            try:
                found = msgspec.convert(manifest.content, PriorityClass)
            except msgspec.ValidationError as e:
                raise ManifestError(f"{manifest.where} ({PriorityClass.__name__}): {e}") from e
            classes[found.metadata.name] = found
        else:
            others.append(manifest)
    return classes or None, others
