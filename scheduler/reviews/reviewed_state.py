"""The state of a process that answers reviews.

It is apart from `trials`, which imports all that questions need and is itself imported with the first question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from herodotus_record.model import Reason
from scheduler.backend.cluster_state import ClusterState
from scheduler.engine.framework.extender import Extender
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.types import Pod
from scheduler.engine.rules import Rules
from scheduler.reviews.forked_copies import StateThread


@dataclass(frozen=True)
class ReviewedState:
    """The state of a process that answers reviews, and what the process can do with it.

    `thread` changes the state. `frameworks` has the framework of each profile by scheduler name. `pending` returns the
    pods without a node. `extenders` connects to the extenders anew; both are called in the copy. `notes` returns
    remarks about the answers for a scheduler name. `is_active` says whether this process answers, because it leads or
    is the only one. `rebuild` builds the framework of a scheduler name with other rules, and `feature_gates` are the
    configured ones.
    """

    thread: StateThread
    cluster: ClusterState
    frameworks: Mapping[str, Framework]
    pending: Callable[[], Sequence[Pod]]
    extenders: Callable[[], Sequence[Extender]] = tuple
    notes: Callable[[str], Iterable[Reason]] = lambda _scheduler: ()
    is_active: Callable[[], bool] = lambda: True
    rebuild: Callable[[Rules], Callable[[str], Framework]] | None = None
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
