"""The scheduling queue: pods that wait to be scheduled."""

from scheduler.backend.queue.queued_pod import QueuedPod
from scheduler.backend.queue.scheduling_queue import BackoffLimits, SchedulingQueue

__all__ = ["BackoffLimits", "QueuedPod", "SchedulingQueue"]
