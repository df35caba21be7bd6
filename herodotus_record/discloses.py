"""What a field or a parameter discloses. The plugin imports it for its answers, so it imports nothing that takes long.

Owns: the kinds of disclosure. Does not own: which field discloses what (the declarations), masking (`disclosure`).
"""

from __future__ import annotations

from enum import Enum, auto


class Discloses(Enum):
    """What the value of a field or of a parameter discloses, which determines how it is masked.

    The pod that a part is about is the decision's, or in an answer that of the nearest field NAMESPACE: of the part
    itself or of one that contains it. A part for which none of them names a pod is about the cluster.
    """

    NOTHING = auto()  # numbers, times, constants, names of plugins, extenders, schedulers, volumes, resources
    NODES = auto()  # nodes by name or slot, and their groups: readers of a decision may see the nodes it evaluated
    NAMESPACE = auto()  # the pod that the part is about, as NAMESPACE or NAMESPACE/NAME; None for the cluster
    THIS_POD = auto()  # facts of the pod that the part is about
    POD = auto()  # another pod, NAMESPACE/NAME; hidden it is "", as if the scheduler had not named it
    PODS = auto()  # other pods, each NAMESPACE/NAME: a sequence, or a text with commas; hidden ones are still counted
    MESSAGE = auto()  # a message in kube-scheduler's form: counts and sentences
    TEXT = auto()  # a text that anyone may have written
    TERMS = auto()  # words that this version knows (`disclosure.TERMS`); others are hidden
    PARTS = auto()  # values that declare their own fields
    REASON = auto()  # parameters, declared in `disclosure.PARAMETERS`
