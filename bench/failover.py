"""Failover of PostgreSQL under load: what a decisions service loses or stores twice, and how long it is away.

`python -m bench.failover [--kills 20] [--partitions 5] [--ttl-s 8] [--records-per-s 100]`

Three servers with synchronous replication under Patroni, a decisions service that writes to the primary and answers
from replicas, a shipper that delivers records, and a reader. The primary is killed with everything on its machine, or
cut off: from the whole network, or from etcd and the other servers, so that the service still reaches it. Last, both
replicas stop applying changes while they stay connected, and must not be read any more.

Owns: the disturbances and the measurements. Does not own: servers and partitions (`tests.patroni`), records and their
delivery (`tests.deliveries`). It needs root, and runs itself again in a private network and process namespace.
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from bench.processes import API, DecisionsService, exit_on_sigterm
from herodotus_endpoint.store.replicas import MAX_STALENESS_S
from tests import patroni
from tests.deliveries import Acknowledged, SendingScheduler
from tests.patroni import ETCD, Member, PatroniCluster
from tests.processes import eventually, python

INSIDE: Final = "HERODOTUS_FAILOVER_INSIDE"  # set in the private namespace
DATABASE: Final = "herodotus"
LIST: Final = f"{API}/decisions"
READ_EVERY_S: Final = 0.1
RECOVERY_S: Final = 120.0  # a failover that takes longer is a failure
UNDISTURBED_S: Final = 2.0  # load between two disturbances
PAUSED_S: Final = 2 * MAX_STALENESS_S  # how long the replicas apply nothing
ROUNDING_S: Final = 0.1  # of the header with the staleness


@dataclass
class Readings:
    """What a reader got: requests by the server that answered, and how far the answers were behind."""

    answers: Counter[str] = field(default_factory=Counter)
    staleness_s: float = 0.0  # the largest, of answers of replicas: age of the oldest acknowledged decision missing
    stated_s: float = 0.0  # the largest that an answer stated
    wrong: list[str] = field(default_factory=list)


class ReaderThread(threading.Thread):
    """Lists the newest decision again and again, and compares it with what had been acknowledged before."""

    def __init__(self, address: str, acknowledged: Acknowledged) -> None:
        super().__init__(name="reader")
        self.readings = Readings()
        self._address, self._acknowledged = address, acknowledged
        self._ended = threading.Event()

    def run(self) -> None:
        with httpx.Client(base_url=self._address, timeout=30) as client:
            while not self._ended.wait(READ_EVERY_S):
                try:
                    self._read(client)
                except httpx.HTTPError as e:
                    self.readings.answers[type(e).__name__] += 1

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def _read(self, client: httpx.Client) -> None:
        acknowledged, began_s = list(self._acknowledged.in_order), time.monotonic()
        answer = client.get(LIST, params={"limit": 1})
        readings = self.readings
        if answer.status_code != 200:
            readings.answers[str(answer.status_code)] += 1
            if answer.status_code != 503 or "Retry-After" not in answer.headers:
                readings.wrong.append(f"{answer.status_code}: {answer.text[:200]}")
            return
        stated = answer.headers.get("Herodotus-Staleness")
        items = answer.json()["items"]
        newest = int(items[0]["spec"]["pod"]["name"].removeprefix("p-")) if items else 0
        behind_s = compute_staleness_s(acknowledged, newest, began_s)
        if stated is None:
            readings.answers["primary"] += 1
            allowed_s = 0.0
        else:
            readings.answers["replica"] += 1
            allowed_s = min(float(stated) + ROUNDING_S, MAX_STALENESS_S)
            readings.staleness_s = max(readings.staleness_s, behind_s)
            readings.stated_s = max(readings.stated_s, float(stated))
        if behind_s > allowed_s:
            readings.wrong.append(f"{behind_s:.2f} s behind, stated: {stated}")


def compute_staleness_s(acknowledged: Sequence[tuple[int, float]], newest: int, now_s: float) -> float:
    """Return the age of the oldest acknowledged decision with a sequence number above `newest`; 0.0 without one.

    `acknowledged` holds sequence numbers in ascending order, with the times of their acknowledgements.
    """
    first_missing = bisect.bisect_right(acknowledged, (newest, float("inf")))
    return now_s - acknowledged[first_missing][1] if first_missing < len(acknowledged) else 0.0


@dataclass
class Rig:
    """The running system, and the recovery times by kind of disturbance, in seconds."""

    cluster: PatroniCluster
    scheduler: SendingScheduler
    recovery_s: dict[str, list[float]] = field(default_factory=dict)

    def disturb(self, kind: str, begin: Callable[[Member], None], end: Callable[[Member], None]) -> None:
        """Disturb the primary with `begin`, wait until a batch is stored again, and end the disturbance with `end`.

        The time until then is added to `recovery_s` under `kind`.
        """
        self.cluster.wait_until_healthy()
        time.sleep(UNDISTURBED_S)
        primary = self.cluster.leader()
        began_s = time.monotonic()
        begin(primary)
        network = self.scheduler.network
        answered_s = eventually(lambda: network.first_after(began_s), f"a batch stored after {kind}", RECOVERY_S)
        self.recovery_s.setdefault(kind, []).append(answered_s - began_s)
        print(f"{kind} of {primary.name}: stored again after {answered_s - began_s:.1f} s", file=sys.stderr, flush=True)
        end(primary)

    def cut_off_from_peers(self, primary: Member) -> None:
        """Cut a database server off from etcd and its peers. The decisions service can still reach the server."""
        primary.cut_off_from([ETCD, *(other.address for other in self.cluster.others(primary))])

    def pause_replicas(self) -> None:
        """Stop both replicas from applying changes for PAUSED_S seconds; records are stored meanwhile."""
        self.cluster.wait_until_healthy()
        replicas = self.cluster.others(self.cluster.leader())
        for replica in replicas:
            replica.stop_replay()
        time.sleep(PAUSED_S)
        for replica in replicas:
            replica.continue_replay()


def _count(cluster: PatroniCluster) -> tuple[int, set[int]]:
    """Return the number of stored decisions, and their sequence numbers, from the primary."""
    cluster.wait_until_healthy()
    rows = cluster.leader().sql("SELECT sequence FROM decisions", DATABASE).split()
    return len(rows), set(map(int, rows))


def run(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run every disturbance and return the figures."""
    with ExitStack() as stack:
        cluster = stack.enter_context(PatroniCluster(folder / "servers", ttl_s=arguments.ttl_s))
        cluster.create_database(DATABASE)
        url = cluster.url(DATABASE)
        service = DecisionsService(folder, "--database-url", url, "--read-database-url", url)
        stack.callback(service.process.kill_all)
        scheduler = SendingScheduler(folder / "spool", service.url, burst=max(1, arguments.records_per_s // 50))
        stack.callback(scheduler.finish)
        reader = ReaderThread(service.url, scheduler.network)
        reader.start()
        stack.callback(reader.stop)
        rig = Rig(cluster, scheduler)
        for i in range(max(arguments.kills, arguments.partitions)):
            if i < arguments.kills:
                rig.disturb("kill", Member.kill, Member.start)
            if i < arguments.partitions and i % 2 == 0:
                rig.disturb("partition", Member.cut_off, Member.reconnect)
            elif i < arguments.partitions:
                rig.disturb("partition from peers", rig.cut_off_from_peers, Member.reconnect)
        rig.pause_replicas()
        reader.stop()
        scheduler.finish()
        number, stored = _count(cluster)
        return _result(rig, reader.readings, number, stored)


def _result(rig: Rig, readings: Readings, number: int, stored: set[int]) -> dict[str, Any]:
    network = rig.scheduler.network
    return {
        "published": len(rig.scheduler.published),
        "acknowledged": len(network.sequences),
        "lost": len(network.sequences - stored),
        "not stored in the end": len(rig.scheduler.published - stored),
        "twice": number - len(stored),
        "refused batches": dict(sorted(network.refused.items())),
        "recovery": {
            kind: {"times": len(s), "median s": round(statistics.median(s), 1), "max s": round(max(s), 1)}
            for kind, s in rig.recovery_s.items()
        },
        "answers": dict(readings.answers),
        "staleness seen s": round(readings.staleness_s, 2),
        "staleness stated s": readings.stated_s,
        "wrong answers": readings.wrong[:20],
    }


def has_failed(result: dict[str, Any]) -> bool:
    """Return whether records were lost or stored twice, an answer was wrong, or no replica answered.

    A batch that was refused with a status other than 429 and 503 is a failure too.
    """
    none = ("lost", "not stored in the end", "twice", "wrong answers")
    refused = set(result["refused batches"]) - {503, 429}
    return any(result[name] for name in none) or bool(refused) or not result["answers"].get("replica")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure failovers of PostgreSQL in a private network, and print the figures as JSON.

    Return 1 if a record was lost or an answer was wrong.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description="PostgreSQL's failover under load.")
    for option, default in (("kills", 20), ("partitions", 5), ("ttl-s", 8), ("records-per-s", 100)):
        parser.add_argument(f"--{option}", type=int, default=default, help="default %(default)s")
    arguments = parser.parse_args(argv)
    if INSIDE not in os.environ:
        if not patroni.is_available():
            parser.error(patroni.MISSING)
        command = [*patroni.PRIVATE, *python("bench.failover"), *(sys.argv[1:] if argv is None else argv)]
        return subprocess.run(command, env=os.environ | {INSIDE: "1"}, check=False).returncode
    exit_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="herodotus-failover-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "servers").mkdir()
        try:
            result = run(folder, arguments)
        except BaseException:
            for log in (folder / "service.log", *sorted((folder / "servers").glob("*.log"))):
                print(f"{log.name}:\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
            raise
        failed = has_failed(result)
        if failed:
            print((folder / "service.log").read_text(errors="replace")[-3000:], file=sys.stderr)
    print(json.dumps(result, indent=2))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
