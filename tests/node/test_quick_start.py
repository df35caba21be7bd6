"""The README's quick start on a real node: what is applied becomes ready, schedules, explains, and ends in order."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.node.installation import COMPONENTS, NAMESPACE, Installation
from tests.node.machine import NODE

FIRST_ANSWER_S = 5.0
USER = 65532
GRACE_S = 30.0  # terminationGracePeriodSeconds: what has not ended by then is killed


def test_the_first_pod_is_started_and_explained_within_five_seconds(installation: Installation) -> None:
    took_s = installation.measure_first_answer("first")
    print(f"first answer after {took_s:.1f} s")
    assert installation.explained_node("first") == NODE
    assert took_s < FIRST_ANSWER_S
    installation.machine.kubectl("wait", "--for=condition=Ready", "pod/first", "--timeout=2m")
    installation.machine.kubectl("delete", "pod", "first")


@pytest.mark.parametrize("component", COMPONENTS)
def test_containers_run_without_any_privilege(installation: Installation, component: str) -> None:
    (pod,) = installation.pods(component)
    process = Path(f"/proc/{installation.machine.find_process(pod, component)}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    assert status["Uid"].split() == [str(USER)] * 4
    assert {status[key].strip() for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2"), "2: filtered"
    (root,) = (line.split() for line in (process / "mountinfo").read_text().splitlines() if line.split()[4] == "/")
    assert "ro" in root[5].split(",")


def test_the_volume_belongs_to_the_service_and_the_key_stays_in_memory(installation: Installation) -> None:
    (pod,) = installation.pods("endpoint")
    root = Path(f"/proc/{installation.machine.find_process(pod, 'endpoint')}/root")
    data, database, key = (root / path for path in ("var/lib/herodotus", "var/lib/herodotus/herodotus.db", KEY))
    assert (data.stat().st_gid, bool(data.stat().st_mode & 0o2000)) == (USER, True), "fsGroup"
    assert database.stat().st_uid == USER
    assert key.stat().st_mode & 0o007 == 0
    assert _file_system(root.parent, "/etc/herodotus/tls") == "tmpfs"


KEY = "etc/herodotus/tls/tls.key"


def _file_system(process: Path, mount: str) -> str:
    (line,) = (li.split() for li in (process / "mountinfo").read_text().splitlines() if li.split()[4] == mount)
    return line[line.index("-") + 1]


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_container_ends_in_order_on_sigterm_and_is_started_again(installation: Installation, component: str) -> None:
    (pod,) = installation.pods(component)
    os.kill(installation.machine.find_process(pod, component), signal.SIGTERM)
    assert installation.wait_for_restart(pod, component)["exitCode"] == 0
    assert installation.explained_node("first") == NODE, "records outlive the container"
    assert installation.measure_first_answer(f"after-{component}") < 30.0


def test_a_deleted_scheduler_gives_its_lease_back_within_its_grace_period(installation: Installation) -> None:
    (pod,) = installation.pods("scheduler")
    gone = ("wait", "--for=delete", f"pod/{pod['metadata']['name']}", f"--timeout={GRACE_S * 2:.0f}s")
    began = time.monotonic()
    installation.scale("scheduler", 0)
    installation.machine.kubectl("-n", NAMESPACE, *gone)
    took_s = time.monotonic() - began
    print(f"scheduler: ended after {took_s:.1f} s")
    assert took_s < GRACE_S
    assert installation.lease()["spec"]["holderIdentity"] == ""
    installation.scale("scheduler", 1)
    assert installation.missing() == {}


def test_replaced_pods_keep_the_records_and_the_trust(installation: Installation) -> None:
    """The volume is mounted by another pod, and the service finds its certificate in the Secret."""
    machine = installation.machine
    machine.kubectl("-n", NAMESPACE, "rollout", "restart", "deployment")
    for component in COMPONENTS:
        installation.roll_out(component)
    assert installation.explained_node("first") == NODE
    assert installation.measure_first_answer("after-rollout") < 30.0


def test_a_new_certificate_is_trusted_while_the_scheduler_runs(installation: Installation) -> None:
    """As docs/installing.md renews it: delete the Secret, apply the manifest again, restart the service."""
    machine = installation.machine
    before = _authority(installation)
    machine.kubectl("-n", NAMESPACE, "delete", "secret", "herodotus-endpoint-own")
    installation.apply()
    machine.kubectl("-n", NAMESPACE, "rollout", "restart", "deployment/herodotus-endpoint")
    installation.roll_out("endpoint")
    assert _authority(installation) != before
    assert installation.measure_first_answer("after-renewal") < 30.0


def _authority(installation: Installation) -> str:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/herodotus-endpoint-ca"
    return str(installation.machine.cluster.get(path)["data"]["ca.crt"])
