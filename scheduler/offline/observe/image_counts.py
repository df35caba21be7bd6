"""How many nodes kube-scheduler may believe to have an image, node by node.

kube-scheduler copies the counts of a node's images into its snapshot only when that node's NodeInfo changes (a pod
comes or goes, the node is updated), so they may be stale while images or nodes change elsewhere (backend/cache v1.36).
This module keeps the counts as of each node's last change, and computes the scores of ImageLocality that any count
between those and the present ones allows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from herodotus_kube.watch import WatchEvent
from scheduler.backend.event_handlers import NODES, PODS
from scheduler.engine.columns import NodeColumns
from scheduler.engine.columns.images import Image
from scheduler.engine.framework.interface import Scores
from scheduler.engine.framework.profile import Profile
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins.image_locality import ImageLocality
from scheduler.offline.observe.window import Message


class ImageCounts:
    """For each node and each image on it: how many nodes had the image when this node last changed.

    kube-scheduler may still score with these counts, because it refreshes a node's counts only when that node changes.
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}  # node -> image -> nodes that had it

    def note(self, message: Message, nodes: NodeColumns) -> None:
        """Store the present image counts of each node that changed with a watch message, or of all nodes after a list.

        Call it after the columns were updated.
        """
        if not isinstance(message, WatchEvent):
            for name in nodes.index if message.kind in (NODES, PODS) else ():
                self._take(name, nodes)
        elif message.kind == NODES:
            self._take(message.object.metadata.name, nodes)
        elif message.kind == PODS and message.object.spec.node_name:
            self._take(message.object.spec.node_name, nodes)

    def points(self, profile: Profile, pod: PodInfo, nodes: NodeColumns) -> tuple[Scores, Scores]:
        """Return two score columns: each node's lowest and highest ImageLocality score by stored or present counts.

        Both are 0 if the profile has no ImageLocality.
        """
        plugin = next((each for each in profile.score if isinstance(each, ImageLocality)), None)
        if plugin is None:
            nothing = np.zeros(nodes.slots, np.int64)
            return nothing, nothing

        def bounded(bound: Callable[[int, int], int]) -> Scores:
            def count(name: str, image: Image, slots: list[int]) -> np.ndarray:
                now = len(image.slots)
                counts = (self._counts.get(nodes.names[slot], {}).get(name, now) for slot in slots)
                return np.array([bound(then, now) for then in counts], np.float64)

            return plugin.compute_points(pod, nodes, count)

        return bounded(min), bounded(max)

    def _take(self, name: str, nodes: NodeColumns) -> None:
        slot = nodes.index.get(name)
        node = None if slot is None else nodes.nodes[slot]
        if node is None:
            self._counts.pop(name, None)
            return
        images = (image for reported in node.status.images or () for image in reported.names or ())
        self._counts[name] = {image: len(entry.slots) for image in images if (entry := nodes.images.get(image))}
