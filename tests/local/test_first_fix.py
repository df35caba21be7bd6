"""A scheduler's record and local mode suggest the same changes where the cluster is the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from herodotus_answers.suggestions import build_suggestions
from herodotus_local.cluster_reader import ClusterReader
from herodotus_local.configuration import find_configuration
from herodotus_local.service import LocalService
from tests.local.api_server import ApiServer
from tests.scheduler.builders import NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.scheduling_loop import LoopWorld

Json = dict[str, Any]
PATH = "/apis/herodotus.dev/v1alpha1/namespaces/default/podexplanations/p"
NODES = [make_node(name).label("kubernetes.io/hostname", name) for name in ("a", "b")]


def evaluate_locally(nodes: list[NodeBuilder], pods: list[PodBuilder]) -> Json:
    objects = [{"kind": "Node", **node.json} for node in nodes] + [{"kind": "Pod", **pod.json} for pod in pods]
    api = ApiServer(objects)
    configuration = find_configuration(api.fetch).configuration
    with (
        ClusterReader(api.fetch, lambda _plural, _count: None) as reader,
        LocalService(reader, configuration, lambda _note: None) as service,
    ):
        return service.get(PATH).document


def test_first_fix_is_that_of_the_record_after_a_node_became_emptier(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path / "spool")
    waits, gone = make_pod("p").request(cpu="9"), make_pod("gone").request(cpu="2").node("a")
    stays = make_pod("stays").request(cpu="1").node("b")
    try:
        world.start(*NODES, pods=[waits, gone, stays])
        world.until(lambda: len(world.decisions) == 1)
        world.pod("DELETED", gone)
        world.until(lambda: len(world.decisions) == 2)
        recorded = [json.loads(json.dumps(build_suggestions(decision))) for decision in world.decisions]
    finally:
        world.loop.binder.close()
    evaluated = evaluate_locally(NODES, [waits, stays])
    assert recorded[1][0]["node"] == "a", "b, of the attempt before, would do, too"
    assert evaluated["suggestions"] == recorded[1] != recorded[0]
