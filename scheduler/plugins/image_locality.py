"""ImageLocality: prefers nodes that already have the pod's images.

Source: pkg/scheduler/framework/plugins/imagelocality v1.36 (image volumes count since 1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scheduler.columns import NodeColumns
from scheduler.framework.interface import MAX_NODE_SCORE, Mask, Scores
from scheduler.framework.plugin import BasePlugin, Follows
from scheduler.framework.state import CycleState
from scheduler.objects.pod import PodInfo

MIN_BYTES = 23 << 20  # below this an image is not worth a detour
MAX_CONTAINER_BYTES = 1000 << 20


class ImageLocality(BasePlugin):
    """Points for the bytes that need not be pulled, each image scaled down by how rare it is in the cluster."""

    name = "ImageLocality"
    follows = Follows.NODES  # how many have an image counts

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Scaled so that an image of 23 MiB is worth nothing and 1000 MiB a container everything."""
        total_nodes = int(nodes.live.sum())
        local = np.zeros(nodes.slots, np.int64)
        for name in _images(pod):
            image = nodes.images.get(name)
            if image is not None:
                spread = len(image.slots) / total_nodes
                local[list(image.slots)] += int(image.size * spread)
        most = MAX_CONTAINER_BYTES * len(pod.containers)
        if most <= MIN_BYTES:  # a pod without containers
            return np.zeros(nodes.slots, np.int64)
        bounded = np.clip(local, MIN_BYTES, most)
        points: Scores = MAX_NODE_SCORE * (bounded - MIN_BYTES) // (most - MIN_BYTES)
        return points


def _images(pod: PodInfo) -> Iterator[str]:
    for container in pod.containers:
        yield _normalized(container.image)
    for volume in pod.pod.spec.volumes or ():
        if volume.image is not None:
            yield _normalized(volume.image.reference)


def _normalized(image: str) -> str:
    """An image without a tag means `latest`."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
