"""DefaultBinder: binds through the API server's pods/binding."""

from __future__ import annotations

from herodotus_record.model import SUCCESS, Verdict
from scheduler.framework.plugin import BasePlugin
from scheduler.framework.state import CycleState
from scheduler.objects.pod import PodInfo


class DefaultBinder(BasePlugin):
    """Whatever goes wrong is raised; the runtime makes it the attempt's error."""

    name = "DefaultBinder"

    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """One request."""
        self.handle.bind(pod, node)
        return SUCCESS
