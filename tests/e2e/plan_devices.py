"""Devices, their claims and pod groups of the random clusters in which plans are carried out.

Every third node has cards of two models, and a few network links serve all nodes. Claims are made of a template for
each pod, or shared by the pods of a workload.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Final

from tests.e2e.cluster import Cluster
from tests.e2e.pod_group_parity import DRA, GROUPS

Json = dict[str, Any]

CARD, LINK = "card", "link"  # classes of devices
DRIVERS: Final = {CARD: "card.example.com", LINK: "link.example.com"}
CARDS_OF_A_NODE, LINKS = 4, 6
MODELS: Final = ("small", "large")


class ClaimedDevices:
    """The devices of one cluster, and the claims of one namespace."""

    def __init__(self, cluster: Cluster, rng: random.Random, namespace: str) -> None:
        self._cluster, self._rng = cluster, rng
        self._claims = f"{DRA}/namespaces/{namespace}/resourceclaims"
        self._groups = GROUPS.format(namespace)

    def publish(self, nodes: Iterable[str]) -> None:
        """Create the classes and the slices. `nodes` have cards."""
        for name, driver in DRIVERS.items():
            selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
            self._cluster.create(
                f"{DRA}/deviceclasses", {"metadata": {"name": name}, "spec": {"selectors": [selector]}}
            )
        cards = [{"name": f"card-{i}", "attributes": {"model": {"string": MODELS[i % 2]}}} for i in range(4)]
        for name in nodes:
            self._create_slice(name, CARD, cards, nodeName=name)
        self._create_slice("network", LINK, [{"name": f"link-{i}"} for i in range(LINKS)], allNodes=True)

    def copy(self, like: str, node: str) -> None:
        """Create the slices that the driver of a new node publishes, if the node `like` has some."""
        for each in self._cluster.items(f"{DRA}/resourceslices"):
            if each["spec"].get("nodeName") == like:
                self._create_slice(node, CARD, each["spec"]["devices"], nodeName=node)

    def _create_slice(self, pool: str, device_class: str, devices: list[Json], **where: Any) -> None:
        """Create the only slice of a pool."""
        spec = {"driver": DRIVERS[device_class], "devices": devices, **where}
        spec["pool"] = {"name": pool, "generation": 1, "resourceSliceCount": 1}
        self._cluster.create(f"{DRA}/resourceslices", {"metadata": {"name": f"{pool}-{device_class}"}, "spec": spec})

    def claim(self, name: str, spec: Json, device_class: str, count: int, *, shared: bool = False) -> None:
        """Give each pod of `spec` a claim of so many devices, or with `shared` all of them the same claim."""
        exactly: Json = {"deviceClassName": device_class, "count": count}
        if device_class == CARD and count <= CARDS_OF_A_NODE // 2 and self._rng.random() < 0.3:
            expression = f'device.attributes["{DRIVERS[CARD]}"].model == "{self._rng.choice(MODELS)}"'
            exactly["selectors"] = [{"cel": {"expression": expression}}]
        devices = {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}
        metadata = {"name": name}
        if shared:
            self._cluster.create(self._claims, {"metadata": metadata, "spec": devices})
        else:
            path = self._claims.replace("resourceclaims", "resourceclaimtemplates")
            self._cluster.create(path, {"metadata": metadata, "spec": {"spec": devices}})
        field = "resourceClaimName" if shared else "resourceClaimTemplateName"
        spec["resourceClaims"] = [{"name": "devices", field: name}]

    def count_free_cards(self, nodes: Iterable[str]) -> dict[str, int]:
        """Return the number of free cards of each of these nodes."""
        free = dict.fromkeys(nodes, CARDS_OF_A_NODE)
        for claim in self._cluster.items(self._claims):
            allocation = claim.get("status", {}).get("allocation") or {}
            for each in allocation.get("devices", {}).get("results", ()):
                if each["driver"] == DRIVERS[CARD]:
                    free[each["pool"]] -= 1
        return free

    def group(self, name: str, spec: Json, min_count: int) -> None:
        """Make pods of `spec` members of a new pod group, of which `min_count` are scheduled together or none."""
        policy = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
        self._cluster.create(self._groups, {"metadata": {"name": name}, "spec": policy})
        spec["schedulingGroup"] = {"podGroupName": name}
