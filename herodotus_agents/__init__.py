"""Agents that a kube-scheduler asks over HTTP, and the annotators that measure nodes for them.

May import of the other rooms only arithmetic (`scheduler.formulas`), the wire format (`scheduler.extenders.wire`) and
quantities (`scheduler.objects.quantity`); of the record the version alone.
"""
