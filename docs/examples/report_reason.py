"""Write into the status of a custom resource why its pods wait: the condition Scheduled=False with the reason.

python docs/examples/report_reason.py URL trainings.v1.example.com
"""

import sys
from collections import defaultdict
from datetime import datetime, timezone
from typing import Any

from kubernetes import client, config, watch

from herodotus_client import Client, ServiceError, explain_pod, shorten


class Reporter:
    """Reports about the pods of the objects of one resource, PLURAL.VERSION.GROUP."""

    def __init__(self, service: Client, resource: str) -> None:
        self.plural, self.version, self.group = resource.split(".", 2)
        self.service, self.objects = service, client.CustomObjectsApi()
        self.waiting: dict[tuple[str, str], set[str]] = defaultdict(set)  # names of pods by namespace and owner

    def handle(self, event_type: str, pod: Any) -> None:
        """Write into the status of a pod's owner why the pod has no node, or that all its pods have one."""
        meta, api_version = pod.metadata, f"{self.group}/{self.version}"
        for owner in (o for o in meta.owner_references or () if o.controller and o.api_version == api_version):
            waiting = self.waiting[meta.namespace, owner.name]
            if event_type == "DELETED" or pod.spec.node_name:
                waiting.discard(meta.name)
                if not waiting:
                    self.write(meta.namespace, owner.name, "True", "Placed", "Every pod has a node.")
                continue
            waiting.add(meta.name)
            try:
                brief = shorten(self.service.ask(explain_pod(meta.namespace, meta.name)))
            except ServiceError:
                continue  # no attempt is recorded yet
            self.write(meta.namespace, owner.name, "False", brief["conditionReason"], brief["headline"])

    def write(self, namespace: str, name: str, status: str, reason: str | None, message: str) -> None:
        """Set the condition Scheduled of an object, unless it says the same already."""
        where = (self.group, self.version, namespace, self.plural, name)
        conditions = (self.objects.get_namespaced_custom_object(*where).get("status") or {}).get("conditions", [])
        old = next((c for c in conditions if c["type"] == "Scheduled"), {})
        new = {"type": "Scheduled", "status": status, "reason": reason, "message": message}
        if not old.items() >= new.items():
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            new["lastTransitionTime"] = old["lastTransitionTime"] if old.get("status") == status else now
            kept = [c for c in conditions if c["type"] != "Scheduled"]
            self.objects.patch_namespaced_custom_object_status(*where, {"status": {"conditions": [*kept, new]}})


if __name__ == "__main__":
    config.load_config()
    reporter, pods = Reporter(Client(sys.argv[1]), sys.argv[2]), client.CoreV1Api().list_pod_for_all_namespaces
    while True:  # each time all pods are listed again: a later attempt may have another reason
        for event in watch.Watch().stream(pods, field_selector="status.phase=Pending", timeout_seconds=30):
            reporter.handle(event["type"], event["object"])
