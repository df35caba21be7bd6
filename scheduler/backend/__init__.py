"""Cluster state that watches keep current: cache, scheduling queue, event handlers (kube-scheduler's `backend`)."""
