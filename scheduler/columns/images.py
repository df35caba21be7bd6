"""Which nodes have which container images.

As kube-scheduler's cache counts them: an image's size is what the first node that reported it said, and it is forgotten
when the last node that has it goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.objects.types import Node


@dataclass
class Image:
    """One image name: its size in bytes and the slots of the nodes that have it."""

    size: int
    slots: set[int] = field(default_factory=set)


class Images:
    """Image name -> size and nodes."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}
        self._names: dict[int, tuple[str, ...]] = {}

    def set(self, slot: int, node: Node | None) -> None:
        """Replace what a slot's node reports; None removes it."""
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
        """What is known of an image name; None when no node has it."""
        return self._images.get(name)
