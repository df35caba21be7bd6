"""A review without a running cluster: places the pods of one file on the cluster that other files describe."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from herodotus_answers.placement_review import (
    MAX_REPLICAS,
    PlacementReview,
    ReviewedWorkload,
    build_placement_review,
    parse_attempts,
)
from herodotus_record.templates import PodTemplate, PodTemplateError, is_pod_or_workload, parse_pod_template
from scheduler.config import Configuration, Registry
from scheduler.engine.manifests.cluster import ManifestError
from scheduler.engine.manifests.defaults import DEFAULT_SCHEDULER
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.records.build import Origin
from scheduler.engine.whatif.controllers import ensure
from scheduler.engine.whatif.placement import CopiedCluster, place
from scheduler.engine.whatif.pods import build_pods, split_priority_classes
from scheduler.offline.evaluate.engine import Engine
from scheduler.offline.evaluate.files import check_stdin, find_profile, load_cluster_files, manifests


def review_files(
    cluster: Sequence[str],
    pods: str,
    note: Callable[[str], None],
    registry: Registry = IN_TREE,
    *,
    namespace: str = "",
    scheduler: str = "",
    replicas: int | None = None,
    node: str = "",
    every_node: bool = False,
    config: Configuration | None = None,
) -> PlacementReview:
    """Place the pods of the file `pods` on the cluster of the files `cluster`, and return a PlacementReview document.

    `note` is called with each warning for the user. If `replicas` is None, the number in the object applies.
    `namespace` and `scheduler`, unless "", replace those in the object. `node` or `every_node` selects the nodes in the
    result. Without `config`, the default configuration applies.

    Raise ManifestError for an unreadable file, an invalid object or an unknown node, ConfigError if the profile cannot
    be built.
    """
    check_stdin([*cluster, pods])
    template = _template_in(pods)
    count = template.replicas if replicas is None else replicas
    if not 1 <= count <= MAX_REPLICAS:
        raise ManifestError(f"{pods}: {count} pods are asked about; it must be 1 to {MAX_REPLICAS}")
    objects = [manifest for path in cluster for manifest in manifests(path)]
    classes, others = split_priority_classes(objects)
    loaded = load_cluster_files(others, cluster, note)
    configuration = config or Configuration()
    name = scheduler or template.scheduler or DEFAULT_SCHEDULER
    profile = find_profile(name, configuration, note if config else lambda _: None)
    engine = Engine(loaded, configuration, registry, profile)
    each = build_pods(template, namespace, name, count, classes)
    ensure(each.controller, loaded.objects)
    copy = CopiedCluster(engine.nodes, loaded.objects)
    frames = place(engine.framework, copy, each.with_notes(engine.not_asked), Origin("", "evaluate"), seed=0)
    try:
        workload = ReviewedWorkload(template.kind, template.name, count)
        return build_placement_review(workload, parse_attempts(frames), every_node=every_node, node=node)
    except KeyError as e:
        raise ManifestError(f'nodes "{node}" not found') from e


def _template_in(path: str) -> PodTemplate:
    templates = [(where, content) for where, content in manifests(path) if is_pod_or_workload(content)]
    if len(templates) != 1:
        raise ManifestError(f"{path}: expected one object that asks for pods, found {len(templates) or 'none'}")
    where, content = templates[0]
    try:
        return parse_pod_template(content)
    except PodTemplateError as e:
        raise ManifestError(f"{where}: {e}") from e
