"""What a message is about, and the form of the tables of remedies.

For each topic a table has pairs: a pattern of the message, and the remedy. The first pattern that occurs counts. A
remedy may use the groups of the pattern as {0}, {1}, and what `find_remedy` is given: {node}, {platform} (its
architecture), {image}, {container}, {limit} (of its memory), {runtime} (the RuntimeClass), {machine} (that an
autoscaler asked for), and {owner}, whose pod template or manifest has to change; of a claim {driver} and
{storage_class}, and {remake:HOW}, how the claim is made anew; of a webhook {server}.
"""

from __future__ import annotations

from typing import Literal

Topic = Literal[
    "image",
    "sandbox",
    "volume",
    "start",
    "start-event",
    "end",
    "end-of-pod",
    "eviction",
    "rejection",
    "node",
    "devices",
    "provision",
    "webhook",
    "admission",
    "policy",
    "claim",
    "new-node",
    "autoscaler",
    "kueue",
    "queue",
]
Remedies = tuple[tuple[str, str], ...]
RemediesByTopic = dict[Topic, Remedies]
