"""A profile's queueing hints: which plugins registered for an event, and whether it may help a pod they rejected.

Source: pkg/scheduler/scheduler.go (buildQueueingHintMap) and backend/queue/scheduling_queue.go (isPodWorthRequeuing).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from herodotus_record import klog
from scheduler.engine.framework.events import (
    ALL_EVENTS,
    QUEUE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    always_queue,
)
from scheduler.engine.framework.interface import EnqueueExtensions, Plugin
from scheduler.engine.objects.pod import PodInfo

_ANY_TAINT = ClusterEventWithHint(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)


class QueueingHints:
    """The cluster events for which a profile's plugins registered, with their queueing hints.

    A plugin without `EnqueueExtensions`, or an extender, counts as registered for all events except wildcard events.
    """

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        """Collect the registrations of `plugins`, the plugins of the profile that may reject a pod."""
        self._hints = {p.name: _group_by_event(_registrations(p)) for p in plugins}

    def is_registered(self, plugin: str, event: ClusterEvent) -> bool:
        """Return whether the plugin registered for the event."""
        return bool(self._hints_for(plugin, event))

    def may_help(self, plugin: str, event: ClusterEvent, pod: PodInfo, old: Any, new: Any) -> bool:
        """Return whether the event may make a pod schedulable that the plugin rejected, by the plugin's hints.

        `old` and `new` are the object before and after the event. If a hint raises, the result is True, as in
        kube-scheduler.
        """
        try:
            return any(hint(pod, old, new) for hint in self._hints_for(plugin, event))
        except Exception as e:
            klog.error(e, "QueueingHintFn returns error", event=event.label, plugin=plugin, pod=pod.full_name)
            return QUEUE

    def _hints_for(self, plugin: str, event: ClusterEvent) -> tuple[QueueingHint, ...]:
        if plugin in self._hints:
            return self._hints[plugin].get(event, ())
        return () if event.wildcard else (always_queue,)


def _registrations(plugin: Plugin) -> tuple[ClusterEventWithHint, ...]:
    """Return the cluster events for which the plugin registered.

    As in kube-scheduler, a plugin that registers for Node/Add also gets Node/UpdateNodeTaint.
    """
    if not isinstance(plugin, EnqueueExtensions):
        return ALL_EVENTS
    registered = tuple(plugin.events_to_register())
    node_actions = [r.actions for r in registered if r.resource is EventResource.NODE]
    has_add = any(ActionType.ADD in actions for actions in node_actions)
    has_taint = any(ActionType.UPDATE_NODE_TAINT in actions for actions in node_actions)
    return (*registered, _ANY_TAINT) if has_add and not has_taint else registered


def _group_by_event(registrations: tuple[ClusterEventWithHint, ...]) -> dict[ClusterEvent, tuple[QueueingHint, ...]]:
    hints = {event: tuple(d.hint for d in registrations if d.matches(event)) for event in ClusterEvent}
    return {event: plugins for event, plugins in hints.items() if plugins}
