"""The monitor: watches pods, learns rewards from what becomes of them, and publishes them on the nodes.

Owns: which pods count, when rewards are saved and published. Does not own: rules (`outcomes`), values (`rewards`).

Published where schedulers look anyway, as an annotation of the node: {type: reward}, of the types that did not always
do well there. So agents and plugins need no connection to the monitor, and go on without it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from herodotus_agents import outcomes
from herodotus_agents.kube import Kube, KubeError
from herodotus_agents.objects import Pod
from herodotus_agents.rewards import Rewards, StoreError
from scheduler.formulas import measurements

_log: Final = logging.getLogger(__name__)

MAX_TYPES: Final = 500  # published of a node: some 15 kB, of the 256 kB that all annotations may take


class Monitor:
    """For one thread."""

    def __init__(self, kube: Kube, rewards: Rewards, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970."""
        self._kube = kube
        self._rewards = rewards
        self._clock = clock

    def run(self, namespace: str, stop: threading.Event) -> None:
        """Watch a namespace ("": all) until `stop`."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self._kube.follow(path, self.listed, self.changed, stop)

    def listed(self, objects: Sequence[Any]) -> None:
        """These pods are there."""
        pods = [msgspec.json.decode(raw, type=Pod) for raw in objects]
        self._rewards.keep_only({pod.metadata.uid for pod in pods})
        self._publish({pod.spec.node_name for pod in pods if self._learn(pod)})

    def changed(self, kind: str, raw: Any) -> None:
        """One pod was added, modified or deleted."""
        pod = msgspec.json.decode(raw, type=Pod)
        if kind == "DELETED":
            self._rewards.forget(pod.metadata.uid)
        elif self._learn(pod):
            self._publish({pod.spec.node_name})

    def _learn(self, pod: Pod) -> bool:
        outcome = outcomes.of(pod)
        if outcome is None or not pod.spec.node_name:
            return False
        kind = measurements.rewards_key(pod.labels, pod.metadata.name)
        new = self._rewards.learn(pod.metadata.uid, outcome.name, kind, pod.spec.node_name, outcome.earned)
        if new:
            _log.info("pod=%s type=%s node=%s: %s earns %.1f", pod.name, kind, pod.spec.node_name, *_said(outcome))
        return new

    def _publish(self, nodes: set[str]) -> None:
        if not nodes:
            return
        try:
            self._rewards.save()
        except StoreError as e:
            _log.error("rewards are not kept: %s", e)
        now = measurements.stamp(self._clock())
        for node in sorted(nodes):
            worst = sorted(self._rewards.worse_on(node).items(), key=lambda item: item[1])[:MAX_TYPES]
            value = json.dumps(dict(sorted(worst)), separators=(",", ":")) if worst else None
            try:
                self._kube.annotate(node, {measurements.REWARDS: value, measurements.MEASURED["rewards"]: now})
            except KubeError as e:
                _log.warning("node %s: %s", node, e)


def _said(outcome: outcomes.Outcome) -> tuple[str, float]:
    return outcome.name, outcome.earned
