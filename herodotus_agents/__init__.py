"""Agents that kube-scheduler calls over HTTP as extenders, and annotators that measure nodes for them.

Agents are plugins of the scheduling framework (`scheduler.engine`). Of the rest of the scheduler, only the extender
wire format (`scheduler.extenders.wire`) and the Prometheus client (`scheduler.prometheus`) are imported.
"""
