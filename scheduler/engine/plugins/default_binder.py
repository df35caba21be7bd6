"""DefaultBinder: binds through the API server's pods/binding."""

from __future__ import annotations

from herodotus_record.model import SUCCESS
from scheduler.engine.framework.plugin import BasePlugin
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Deferred, error
from scheduler.engine.objects.pod import PodInfo


class DefaultBinder(BasePlugin):
    """The bind plugin that binds the pod by a request to the API server. If the request fails, so does the attempt."""

    name = "DefaultBinder"
    binds_at_once = True

    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Deferred:
        writes = self.handle.writes
        return Deferred(
            lambda report: writes.bind(
                pod, node, lambda failure: report(SUCCESS if failure is None else error(failure))
            )
        )
