"""ImageLocality: prefers nodes that already have the pod's images.

Source: pkg/scheduler/framework/plugins/imagelocality v1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from herodotus_record.model import Reason
from herodotus_record.units import format_requested
from scheduler.engine.columns import NodeColumns
from scheduler.engine.columns.images import Image
from scheduler.engine.framework.interface import MAX_NODE_SCORE, Mask, Scores
from scheduler.engine.framework.plugin import BasePlugin, DependsOn, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.rules.version_rules import IMAGE_VOLUMES_BOUNDED, IMAGE_VOLUMES_SCORED

MIN_BYTES = 23 << 20  # smaller images do not affect the score
MAX_CONTAINER_BYTES = 1000 << 20


class ImageLocality(BasePlugin):
    """A score plugin that prefers nodes which have the pod's images; an image that few nodes have counts less."""

    name = "ImageLocality"
    reads = frozenset({PluginInput.NODE, PluginInput.ALL_NODES})
    depends_on = DependsOn.NODES  # the number of nodes that have an image counts

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return, for each node slot, a score by the size of the pod's images on the node.

        0 stands for up to 23 MiB, 100 for 1000 MiB per container. The size of an image counts by the share of nodes
        that have it.
        """
        return self.compute_points(pod, nodes, lambda name, image, slots: len(image.slots))

    def compute_points(self, pod: PodInfo, nodes: NodeColumns, count: Callable[[str, Image, list[int]], Any]) -> Scores:
        """Return the score of each node slot, 0 to 100, by the bytes of the pod's images that the node has.

        `count` takes an image's name, the image and its node slots. It returns how many nodes have the image: one
        number, or an array with one number for each of the slots.
        """
        total_nodes = int(nodes.live.sum())
        local = np.zeros(nodes.slots, np.int64)
        images = 0
        for name in self._list_images(pod):
            images += 1
            image = nodes.images.get(name)
            if image is not None:
                slots = list(image.slots)
                local_bytes = image.size * (count(name, image, slots) / total_nodes)
                local[slots] += int(local_bytes) if isinstance(local_bytes, float) else local_bytes.astype(np.int64)
        most = MAX_CONTAINER_BYTES * (images if self.rules.enabled(IMAGE_VOLUMES_BOUNDED) else len(pod.containers))
        if most <= MIN_BYTES:  # a pod without containers
            return np.zeros(nodes.slots, np.int64)
        bounded = np.clip(local, MIN_BYTES, most)
        scaled: Scores = MAX_NODE_SCORE * (bounded - MIN_BYTES) // (most - MIN_BYTES)
        return scaled

    def explain_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, slot: int) -> list[Reason]:
        """Return the pod's images that the node has, the largest first."""
        images = ((name, nodes.images.get(name)) for name in dict.fromkeys(self._list_images(pod)))
        present = [(image.size, name) for name, image in images if image is not None and slot in image.slots]
        return [
            Reason("image-present", {"image": name, "size": format_requested("memory", size)})
            for size, name in sorted(present, key=lambda each: -each[0])
        ]

    def _list_images(self, pod: PodInfo) -> Iterator[str]:
        for container in pod.containers:
            yield _add_default_tag(container.image)
        for volume in pod.pod.spec.volumes or () if self.rules.enabled(IMAGE_VOLUMES_SCORED) else ():
            if volume.image is not None:
                yield _add_default_tag(volume.image.reference)


def _add_default_tag(image: str) -> str:
    """Return the image with the tag `latest` if it has none."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
