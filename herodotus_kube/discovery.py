"""Reads the API server's version and missing API groups, and the identity of the cluster."""

from __future__ import annotations

import json
import re
from typing import Final

from herodotus_kube.http import ApiError, ApiServer
from herodotus_record import klog

OLDEST, NEWEST = (1, 30), (1, 37)  # minor versions that the tests or the references cover; others get a warning
EVENTS: Final = "events.k8s.io/v1"
KUBE_SYSTEM: Final = "/api/v1/namespaces/kube-system"
LEASES: Final = "coordination.k8s.io/v1"

# What is switched off where a group is absent.
NEEDED_FOR: Final = {EVENTS: "events about pods", LEASES: "leader election"}


def fetch_server_version(api: ApiServer) -> str:
    """Return the API server's version (gitVersion). Log a warning if it is outside the supported range."""
    answer = json.loads(api.get("/version"))
    major, minor = (int(re.sub(r"\D.*", "", str(answer.get(k, "0"))) or 0) for k in ("major", "minor"))
    if not OLDEST <= (major, minor) <= NEWEST:
        supported = f"v{OLDEST[0]}.{OLDEST[1]} to v{NEWEST[0]}.{NEWEST[1]}"
        klog.warning("API server version is not supported", version=f"v{major}.{minor}", supported=supported)
    return str(answer.get("gitVersion", ""))


def fetch_cluster_id(api: ApiServer) -> str:
    """Return the UID of the namespace kube-system, which identifies the cluster in every record."""
    return str(api.get_object(KUBE_SYSTEM)["metadata"]["uid"])


def find_absent_groups(api: ApiServer) -> dict[str, str]:
    """Return the API group versions that the server does not serve, each with the feature that is switched off.

    Raises ApiError if a request fails for another reason.
    """
    absent = {}
    for group, purpose in NEEDED_FOR.items():
        try:
            api.get(f"/apis/{group}")
        except ApiError as e:
            if e.code != 404:
                raise
            klog.warning("API is absent, switching off what needs it", api=group, off=purpose)
            absent[group] = purpose
    return absent
