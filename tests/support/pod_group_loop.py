"""A scheduling loop with pod groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from herodotus_kube.watch import ListResult, WatchEvent
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup
from tests.scheduler.builders import Json, PodBuilder
from tests.support.scheduling_loop import LoopWorld, waiting

GATES = {"GenericWorkload": True, "GangScheduling": True}


class GroupWorld(LoopWorld):
    """A loop with the gates of pod groups on, and `gates`."""

    def __init__(self, spool: Path, gates: dict[str, bool] | None = None, **options: Any) -> None:
        super().__init__(spool, gates={**GATES, **(gates or {})}, **options)
        self.spec: Json = {}  # of groups, besides the policy
        self.conditions: list[tuple[str, str, str, str]] = []
        self.writes.set_pod_group_condition = self._set_condition  # type: ignore[method-assign]
        self.writes.bind = self._bind  # type: ignore[method-assign]

    def _bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        """Bind without reading the spool, to which the attempts of other members are written meanwhile."""
        self.writes.bound.append((pod.uid, node))
        done(None)

    def _set_condition(self, group: PodGroup, condition: Any, *, changes_status: bool) -> None:
        self.conditions.append((group.metadata.name, *condition))
        self.group(group.metadata.name, group.min_count, conditions=[("PodGroupScheduled", *condition)])

    def group(self, name: str, min_count: int, change: str = "MODIFIED", conditions: Any = ()) -> None:
        self.loop.inbox.put(WatchEvent("podgroups", change, a_group(name, min_count, conditions, self.spec)))

    def groups(self, **min_counts: int) -> None:
        listed = [a_group(name, count, (), self.spec) for name, count in min_counts.items()]
        self.loop.inbox.put(ListResult("podgroups", listed))

    def reasons(self, name: str) -> list[str]:
        """The messages of the pod's failed attempts."""
        return [
            said[2] for said in self.writes.sent if said[0] in ("Unschedulable", "SchedulerError") and said[1] == name
        ]


def a_group(name: str, min_count: int, conditions: Any = (), spec: Any = None) -> PodGroup:
    """A PodGroup with the gang policy, or with the basic policy if `min_count` is 0, and other fields of `spec`."""
    policy: Json = {"gang": {"minCount": min_count}} if min_count else {"basic": {}}
    keys = ("type", "status", "reason", "message")
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1},
        "spec": {"schedulingPolicy": policy, **(spec or {})},
        "status": {"conditions": [dict(zip(keys, c, strict=True)) for c in conditions]},
    }
    return msgspec.convert(document, PodGroup)


def member(name: str, cpu: str = "1", group: str = "g") -> PodBuilder:
    return waiting(name, cpu).with_spec(schedulingGroup={"podGroupName": group})


def bound(world: LoopWorld) -> list[str]:
    return sorted(uid.removeprefix("uid-") for uid, _ in world.writes.bound)
