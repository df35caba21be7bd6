"""DefaultBinder: binds through the API server's pods/binding."""

from __future__ import annotations

from herodotus_record.model import SUCCESS
from scheduler.framework.plugin import BasePlugin
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import Deferred, error
from scheduler.objects.pod import PodInfo


class DefaultBinder(BasePlugin):
    """Whatever goes wrong is the attempt's error."""

    name = "DefaultBinder"
    binds_at_once = True

    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Deferred:
        """One request."""
        handle = self.handle
        return Deferred(
            lambda told: handle.bind(pod, node, lambda failure: told(SUCCESS if failure is None else error(failure)))
        )
