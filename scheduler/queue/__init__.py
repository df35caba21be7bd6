"""Pods that wait to be scheduled."""

from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue

__all__ = ["QueuedPod", "SchedulingQueue"]
