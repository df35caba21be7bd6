"""What messages ask for: who has to do what. One module has the messages of each part of a cluster.

Nothing in the cluster confirms a remedy, so each is labelled as not checked. For a message without a pattern, the
remedy names at most the log to read.

Owns: which tables apply to a topic. Does not own: the form of the tables (`topics`), which message explains a pod
(`pods`, `workloads`). Pure.
"""

from __future__ import annotations

import re
from typing import Final

from herodotus_answers.live.messages import controllers, nodes, pods, volumes
from herodotus_answers.live.messages.topics import RemediesByTopic, Topic

_REMEDIES: Final[RemediesByTopic] = {**pods.REMEDIES, **nodes.REMEDIES, **volumes.REMEDIES, **controllers.REMEDIES}
_UNREGISTERED: Final[dict[Topic, str]] = {"volume": volumes.UNREGISTERED_DRIVER, "devices": nodes.UNREGISTERED_DRIVER}
# The topics of which the faults of a node's kernel and disks come first.
_ON_NODES: Final[tuple[Topic, ...]] = (
    "image",
    "sandbox",
    "volume",
    "start",
    "start-event",
    "end-of-pod",
    "rejection",
    "node",
)


def find_unregistered_driver(topic: Topic, message: str) -> str:
    """Return the CSI or DRA driver of which a message says that it is not registered on the node; "" if of none."""
    match = re.search(_UNREGISTERED[topic], message, re.IGNORECASE) if topic in _UNREGISTERED else None
    return next(filter(None, match.groups()), "") if match else ""


def find_remedy(topic: Topic, message: str, **facts: object) -> str:
    """Return what has to be done about a message; "" if that is not known. `facts` are what remedies name."""
    remedies = (*nodes.FAULTS, *_REMEDIES[topic]) if topic in _ON_NODES else _REMEDIES[topic]
    for pattern, text in remedies:
        if match := re.search(pattern, message, re.IGNORECASE):
            return str(text.format(*filter(None, match.groups()), **facts))
    return ""
