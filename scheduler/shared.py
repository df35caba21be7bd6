"""What the loop, its plugins and its helpers all look at: the scheduler's state in memory.

Owns: which parts there are. Does not own: what changes them; but for `waiting`, the loop's thread alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.cache import Cache
from scheduler.framework.nominated import Nominator
from scheduler.framework.waiting import WaitingPods
from scheduler.objects.cluster import ClusterObjects


@dataclass(frozen=True)
class Shared:
    """One process' state. `preempting`: UIDs of the pods that others are being told to go for."""

    objects: ClusterObjects = field(default_factory=ClusterObjects)
    cache: Cache = field(default_factory=Cache)
    nominator: Nominator = field(default_factory=Nominator)
    waiting: WaitingPods = field(default_factory=WaitingPods)
    preempting: set[str] = field(default_factory=set)
