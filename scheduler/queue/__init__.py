"""Pods that wait to be scheduled."""

from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue

__all__ = ["QueuedPod", "SchedulingQueue"]
