"""The container images on each node.

As in kube-scheduler's cache, the size of an image is the one that the first node reported, and the image is
removed with the last node that has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.engine.objects.types import Node


@dataclass
class Image:
    """A container image: its size in bytes and the slots of the nodes that have it."""

    size: int
    slots: set[int] = field(default_factory=set)


class Images:
    """The size of each container image, and the nodes that have it, by image name."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}
        self._names: dict[int, tuple[str, ...]] = {}

    def set(self, slot: int, node: Node | None) -> None:
        """Replace the images of the node in `slot` by those in the node's status; None removes them."""
        for name in self._names.pop(slot, ()):
            image = self._images[name]
            image.slots.discard(slot)
            if not image.slots:
                del self._images[name]
        if node is None:
            return
        names = []
        for reported in node.status.images or ():
            for name in reported.names or ():
                self._images.setdefault(name, Image(reported.size_bytes)).slots.add(slot)
                names.append(name)
        self._names[slot] = tuple(dict.fromkeys(names))

    def get(self, name: str) -> Image | None:
        """Return the size of an image and the nodes that have it, or None if no node has it."""
        return self._images.get(name)
