"""deploy/observer.yaml has all that an observer needs, grants what it reads, and no write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scheduler.commands import main as app
from scheduler.config import load
from tests.deploy import manifests
from tests.deploy.manifests import DEPLOY, REQUESTS, read

MANIFEST = read(DEPLOY / "observer.yaml")
BINDS = ("scheduler/live/api_writes.py", "scheduler/live/unknown_bindings.py")
WRITES_OR_LEADS = (*BINDS, "scheduler/live/events.py", "herodotus_kube/lease.py")
NOT_ITS_OWN = (*WRITES_OR_LEADS, "scheduler/live/cache_debugger.py")


def the(kind: str, name: str = "herodotus-observer") -> dict[str, Any]:
    (found,) = (o for o in MANIFEST if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return found


def container() -> dict[str, Any]:
    (found,) = the("Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_it_may_only_read_what_the_scheduler_reads() -> None:
    given = {
        (verb, resource, group, name)
        for rule in (*the("ClusterRole")["rules"], *the("Role", "herodotus-observer-ca")["rules"])
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
        for name in rule.get("resourceNames", [""])
    }
    needed = {right for (file, *_), rights in REQUESTS.items() if file not in NOT_ITS_OWN for right in rights or ()}
    assert given == {(right.verb, right.resource, right.group, right.name) for right in needed}
    assert {verb for verb, resource, *_ in given if resource not in ("tokenreviews", "subjectaccessreviews")} == {
        "get",
        "list",
        "watch",
    }


def test_the_command_accepts_its_arguments(tmp_path: Path) -> None:
    arguments = app._parser().parse_args(container()["args"])
    assert arguments.endpoint == "https://herodotus-endpoint.herodotus.svc:8001"
    assert delivery(the("Deployment")) == delivery(manifests.named("Deployment", "herodotus-scheduler"))
    (tmp_path / "c.yaml").write_text(the("ConfigMap")["data"]["config.yaml"])
    assert [p.scheduler_name for p in load(tmp_path / "c.yaml").profiles] == ["default-scheduler"]


def delivery(deployment: dict[str, Any]) -> Any:
    """Return the volume and flags with which it authenticates itself and the service."""
    spec = deployment["spec"]["template"]["spec"]
    (volume,) = (v for v in spec["volumes"] if v["name"] == "endpoint")
    return volume, [a for a in spec["containers"][0]["args"] if a.startswith("--endpoint")]


def test_the_service_in_it_is_the_scheduler_file_s() -> None:
    """Both files can be applied, in either order: the service accepts records from both accounts."""
    shared = [set(with_sorted_arguments(manifest)) for manifest in (MANIFEST, manifests.MANIFEST)]
    ours, theirs = (
        {o for o in objects if not re.search(r"herodotus-(observer|scheduler)\b", o.name)} for objects in shared
    )
    assert {("Deployment", "herodotus-endpoint"), ("Service", "herodotus-endpoint")} < {(o.kind, o.name) for o in ours}
    assert ours == theirs


class Listed(NamedTuple):
    kind: str
    name: str
    text: str


def with_sorted_arguments(manifest: list[dict[str, Any]]) -> Iterator[Listed]:
    for o in manifest:
        text = json.dumps(o, sort_keys=True)
        for arguments in re.findall(r'"args": (\[[^]]*\])', text):
            text = text.replace(arguments, json.dumps(sorted(json.loads(arguments))))
        yield Listed(o["kind"], o["metadata"]["name"], text)


def test_it_has_the_scheduler_s_security_context() -> None:
    scheduler, ours = manifests.container("herodotus-scheduler"), container()
    assert ours["securityContext"] == scheduler["securityContext"]
    assert ours["image"] == scheduler["image"]
    pod = the("Deployment")["spec"]["template"]["spec"]
    theirs = manifests.named("Deployment", "herodotus-scheduler")["spec"]["template"]["spec"]
    assert (pod["securityContext"], pod["schedulerName"]) == (theirs["securityContext"], "default-scheduler")


def test_the_service_accepts_its_records() -> None:
    policy = the("NetworkPolicy", "herodotus-observer-to-endpoint")["spec"]
    service = manifests.named("Deployment", "herodotus-endpoint")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= service.items()
    (rule,) = policy["ingress"]
    labels = the("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert rule["from"][0]["podSelector"]["matchLabels"].items() <= labels.items()
    (port,) = rule["ports"]
    assert port["port"] in {p["name"] for p in manifests.container("herodotus-endpoint")["ports"]}
