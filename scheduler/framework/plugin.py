"""What a plugin is made from: its arguments and a handle to the scheduler around it.

A plugin is a class with a `name`, an `args_type` (one frozen struct in the plugin's own file), and the methods of the
points it extends (`interface`). It is constructed once for each profile that enables it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

import msgspec

from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.problems import Problem


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
    def evicts(self) -> bool:
        """Whether pods that a PostFilter plugin found in the way are told to go."""

    @property
    def binds_volumes(self) -> bool:
        """Whether a pod may be chosen a node for whose volumes must still be bound or provisioned there."""

    def bind(self, pod: PodInfo, node: str) -> None:
        """Bind the pod through the API server. Raises what went wrong."""


class InTreePlugin:
    """Base of in-tree plugins. Out-of-tree ones need not derive from it."""

    name: ClassVar[str]
    args_type: ClassVar[type[Args]] = NoArgs
    # points that kube-scheduler's plugin of this name extends and ours needs not: a file may name it there
    idle_at: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle
