"""A framework in which one plugin scores."""

from __future__ import annotations

import time
from typing import Any

import yaml

from scheduler.config import build_profile, parse_config
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import PodBuilder
from tests.support.configurations import HEAD


def scoring_framework(plugin: str, *points: str, **args: Any) -> Framework:
    """Return a framework in which only this plugin scores."""
    plugins: dict[str, Any] = {"score": {"disabled": [{"name": "*"}]}}
    for point in points or ("score",):
        plugins.setdefault(point, {})["enabled"] = [{"name": plugin}]
    profile = {"schedulerName": "default", "plugins": plugins, "pluginConfig": [{"name": plugin, "args": args}]}
    config = parse_config(HEAD + yaml.safe_dump({"profiles": [profile]}))
    return Framework(build_profile(config, 0, IN_TREE, NoCluster()), time.monotonic)


def decide(runner: Framework, columns: NodeColumns, pod: PodBuilder) -> CycleResult:
    return schedule(runner, pod.info(), Snapshot.from_columns(columns), seed=0)


def only_scores(result: CycleResult) -> tuple[list[int], list[int]]:
    """Raw and normalised points of the only scorer."""
    (run,) = result.trace.scores
    assert run.raw is not None
    assert run.normalized is not None
    return run.raw.tolist(), run.normalized.tolist()
