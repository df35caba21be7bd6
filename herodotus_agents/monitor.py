"""The monitor watches pods, learns rewards from their outcomes and publishes the rewards on the nodes.

Owns: which pods count, and when rewards are saved and published. Does not own: the rules for outcomes (`outcomes`), the
values of rewards (`rewards`).

Rewards are published as an annotation of the node, `{pod type: reward}`, for the pod types that did not always succeed
there. Schedulers read node annotations anyway, so agents and plugins need no connection to the monitor and keep working
while it is down.
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
from herodotus_agents.objects import PodView
from herodotus_agents.rewards import Rewards, RewardsError
from herodotus_kube.client import KubeClient, KubeError
from scheduler.engine.formulas import measurements

_log: Final = logging.getLogger(__name__)

MAX_TYPES: Final = 500  # Per node: about 15 kB of the 256 kB that Kubernetes allows for all annotations.


class Monitor:
    """Learns from pods' outcomes how well each pod type does on each node, and annotates the nodes with these rewards.

    Use it from one thread only.
    """

    def __init__(self, kube: KubeClient, rewards: Rewards, clock: Callable[[], float] = time.time) -> None:
        """Create a monitor; `clock` returns seconds since 1970."""
        self._kube = kube
        self._rewards = rewards
        self._clock = clock

    def run(self, namespace: str, stop: threading.Event) -> None:
        """Learn from the pods of a namespace ("" for all namespaces) by list and watch, until `stop` is set."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self._kube.list_and_watch(path, self.handle_list, self.handle_event, stop)

    def handle_list(self, objects: Sequence[Any]) -> None:
        """Update the rewards of pod types on nodes from the complete list of pods, given as JSON.

        Nodes whose rewards changed are annotated. Pods that no longer exist are forgotten; the rewards that they earned
        stay.
        """
        pods = [msgspec.json.decode(raw, type=PodView) for raw in objects]
        self._rewards.retain_pods({pod.metadata.uid for pod in pods})
        self._publish({pod.spec.node_name for pod in pods if self._learn(pod)})

    def handle_event(self, event_type: str, raw: Any) -> None:
        """Update the rewards of pod types on nodes from one watch event (ADDED, MODIFIED or DELETED) of a pod."""
        pod = msgspec.json.decode(raw, type=PodView)
        if event_type == "DELETED":
            self._rewards.forget_pod(pod.metadata.uid)
        elif self._learn(pod):
            self._publish({pod.spec.node_name})

    def _learn(self, pod: PodView) -> bool:
        outcome = outcomes.classify(pod)
        if outcome is None or not pod.spec.node_name:
            return False
        pod_type = measurements.rewards_key(pod.labels, pod.metadata.name)
        new = self._rewards.record_outcome(pod.metadata.uid, outcome.name, pod_type, pod.spec.node_name, outcome.reward)
        if new:
            _log.info(
                "pod=%s type=%s node=%s: %s earns %.1f",
                pod.name,
                pod_type,
                pod.spec.node_name,
                *_name_and_reward(outcome),
            )
        return new

    def _publish(self, nodes: set[str]) -> None:
        if not nodes:
            return
        try:
            self._rewards.save()
        except RewardsError as e:
            _log.error("rewards are not kept: %s", e)
        now = measurements.stamp(self._clock())
        for node in sorted(nodes):
            worst = sorted(self._rewards.rewards_below_initial(node).items(), key=lambda item: item[1])[:MAX_TYPES]
            value = json.dumps(dict(sorted(worst)), separators=(",", ":")) if worst else None
            try:
                self._kube.annotate_node(node, {measurements.REWARDS: value, measurements.MEASURED["rewards"]: now})
            except KubeError as e:
                _log.warning("node %s: %s", node, e)


def _name_and_reward(outcome: outcomes.PodOutcome) -> tuple[str, float]:
    return outcome.name, outcome.reward
