"""What a plugin is made from: its arguments and a handle to the scheduler around it.

A plugin is a class with a `name`, an `args_type` (one frozen struct in the plugin's own file), and the methods of the
points it extends (`interface`). It is constructed once for each profile that enables it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, ClassVar, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.columns import NodeColumns
from scheduler.framework.waiting import WaitingPods
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.problems import Problem
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.objects.types import Node


class Args(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of all plugin arguments: camelCase in files, unknown keys are errors.

    `api_version` and `kind` may be written, as kube-scheduler allows; they say nothing that the plugin does not know.
    """

    api_version: str = ""
    kind: str = ""

    def problems(self) -> Iterable[Problem]:
        """What is wrong with the values, in kube-scheduler's order; paths are relative to `args`."""
        return ()


class NoArgs(Args, frozen=True):
    """A plugin without arguments."""


class Handle(Protocol):
    """What a plugin may ask of the scheduler around it."""

    @property
    def objects(self) -> ClusterObjects:
        """The cluster's other objects, as of the cycle's snapshot."""

    @property
    def preempts(self) -> bool:
        """Whether pods may be looked for that would make room."""

    @property
    def evicts(self) -> bool:
        """Whether such pods are told to go."""

    @property
    def waiting_pods(self) -> WaitingPods:
        """The pods that wait on Permit: call it for all of them, `get` one, then allow or reject."""

    def preempting(self, uid: str) -> bool:
        """Whether pods are being told to go for this one."""

    def node(self, name: str) -> Node | None:
        """A node as it is now, not as of the cycle's snapshot. For the loop's thread only."""

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        """Bind the pod through the API server, without waiting: `done` is told what went wrong, or None, elsewhere."""

    def bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
        """Write the claim into a volume, if nobody has changed it since; its new version. Raises what went wrong.

        `by_controller`: the volume was meant for nobody, so the volume controller may free it again.
        """

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> int:
        """Have a volume made for a claim so that this node reaches it; the claim's new version."""


class Note(Protocol):
    """What a plugin noted in PreFilter for Filter, or in PreScore for Score, where its columns follow from it."""

    def differs(self, before: Any, nodes: NodeColumns) -> NDArray[np.intp] | None:
        """The slots of which it says something else than a note of an earlier pod, of the same spec but perhaps with
        other labels or in another namespace; None where these may be any. Changes of the slots' own rows need not be
        among them. A note that is to be compared later holds nothing that changes meanwhile.
        """


class Follows(Enum):
    """What, beside the pod's spec, decides what a plugin's Filter and Score say of a node.

    A plugin that follows less than ANYTHING is asked only where something changed, when a pod of the same spec comes:
    it must not look at `feasible`, and at no other notes than those that it names and that PreFilter or PreScore made
    of the spec alone. What it normalises to must follow from its points, `feasible`, the spec and the Node objects.
    """

    ANYTHING = "anything"  # asked about every node, every time
    NODES = "nodes"  # the Node objects, those of other nodes among them: asked about every node when some are others
    NODE = "node"  # that node's object: asked about nodes that changed, when some objects are others
    ROW = "row"  # that node's row: the object, and what its pods add up to; and what `filter_note`, `score_note` say
    AMOUNTS = "amounts"  # of that row only what it has of resources and its pods request: rows may be alike


class BasePlugin:
    """Base of every plugin, in-tree or not."""

    name: ClassVar[str]
    args_type: ClassVar[type[Args]] = NoArgs
    follows: ClassVar[Follows] = Follows.ANYTHING
    filter_note: ClassVar[type[Note] | None] = None
    score_note: ClassVar[type[Note] | None] = None
    # points that kube-scheduler's plugin of this name extends and ours needs not: a file may name it there
    idle_at: ClassVar[frozenset[str]] = frozenset()

    # keys of the node annotations that it reads (`NodeColumns.annotation`): no others are kept, and a change of these
    # makes an event. Whoever reads some follows ANYTHING: rows stay as they are when annotations change
    annotations: frozenset[str] = frozenset()

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def settled_by_spec(self, pod: PodInfo) -> bool:
        """Whether PreFilter and PreScore say and note of every pod of this spec the same, whatever else there is.

        They are asked once then, and must not look at anything but the spec. Of its volumes a spec tells which images
        they are, and whether there are others.
        """
        return False
