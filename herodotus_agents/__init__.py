"""Agents that kube-scheduler calls over HTTP as extenders, and annotators that measure nodes for them.

From the other packages it may import only the arithmetic (`scheduler.engine.formulas`), the extender wire format
(`scheduler.extenders.wire`), quantities (`scheduler.engine.objects.quantity`) and the version of the record package.
"""
