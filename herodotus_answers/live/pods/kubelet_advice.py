"""Say what a message of the kubelet, about a pod or one of its containers, asks for in the pod's own cluster.

Owns: the facts about the pod that a remedy names. Does not own: the patterns (`messages`). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.messages import find_remedy, find_unregistered_driver
from herodotus_answers.live.messages.topics import Topic
from herodotus_answers.live.node_rules import read_labels
from herodotus_answers.live.pod_facts import Container, make_remedy, name_source
from herodotus_answers.live.pods.device_plugins import find_excluded_driver
from herodotus_answers.live.unit_slips import describe_slip

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import Remedy

Json = dict[str, Any]
_ARCHITECTURE: Final = "kubernetes.io/arch"
_WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"


def advise(
    topic: Topic, message: str, pod: Json, objects: ClusterObjects, container: Container | None = None, image: str = ""
) -> list[Remedy]:
    """Return what a message of the kubelet asks for; [] if that is not known. `image` is not the container's own."""
    node = str(pod["spec"].get("nodeName"))
    found = objects.get("Node", node).object
    driver = find_unregistered_driver(topic, message)
    excluded = find_excluded_driver(driver, [found], objects) if driver and found else None
    if excluded is not None:
        return [each | {"text": f"{each['text']}: {excluded['text']}"} for each in excluded["remedies"]]
    labels = read_labels(found or {"metadata": {}})
    build = f"Windows {labels[_WINDOWS_BUILD]}" if _WINDOWS_BUILD in labels else ""
    platform = ", ".join(filter(None, (labels.get(_ARCHITECTURE), build)))
    limits = ((container.spec.get("resources") or {}).get("limits") or {}) if container else {}
    memory = limits.get("memory")
    text = find_remedy(
        topic,
        message,
        node=node,
        platform=f"{node} ({platform})" if platform else node,
        owner=name_source(pod, objects),
        container=container.label if container else "the container",
        image=image or (str(container.spec.get("image")) if container else "the image"),
        limit=f", now {memory}{describe_slip('memory', memory)}," if memory else "",
        runtime=str(pod["spec"].get("runtimeClassName")),
    )
    return [make_remedy(text)] if text else []
