"""`python -m bench.fleet`: one decisions service, and the senders of many clusters at once.

    python -m bench.fleet [--clusters 50] [--seconds 60] [--batches-per-s 0.2] [--noisy 1] [--quota 64Ki] [--postgresql]

The algorithm decides pods on 200 nodes. Each cluster has its own client certificate and sends batches of these
decisions as a new scheduler process each time, at a steady rate; a noisy one sends without a pause. A refused batch is
sent again when the response's Retry-After says, as by a shipper. Meanwhile a reader asks about random stored pods and
lists. Rates are of the acknowledged decisions; fairness is the lowest rate of a cluster that is not noisy, by the
highest. ACKNOWLEDGED is the time from a batch's first request to its acknowledgement, refusals included.
"""

from __future__ import annotations

import argparse
import random
import re
import ssl
import tempfile
import threading
import time
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from pathlib import Path
from typing import Final

from bench.algorithm import calibration_ms
from bench.decisions import generate, read_batches
from bench.processes import (
    API,
    INGEST,
    INGEST_HEADERS,
    DecisionsService,
    exit_on_sigterm,
    format_quantiles,
    replace_in_frame,
)
from herodotus_record import codec
from herodotus_record.model import Decision
from tests import postgresql
from tests.scheduler.serving.authorities import Authority

NODES: Final = 200
BATCH_DECISIONS: Final = 50
QUESTIONS_PER_S: Final = 4


@dataclass
class Fleet:
    """The frames of one batch, and the certificates of every cluster."""

    frames: list[bytes]
    former: dict[str, bytes]
    pods: list[tuple[str, str]]
    authority: Authority
    clusters: list[str] = field(default_factory=list)

    def build_batch(self, cluster: str) -> bytes:
        """Return a copy of the batch with a cluster's ID and a new incarnation, as a new scheduler would send it."""
        parts = [(self.former["cluster"], cluster.encode()), (self.former["incarnation"], str(uuid.uuid4()).encode())]
        return codec.compress(b"".join(replace_in_frame(frame, parts) for frame in self.frames))


@dataclass
class Sender(threading.Thread):
    """The sender of one cluster.

    `times` has the time from the first request of each batch to its acknowledgement, in milliseconds.
    """

    fleet: Fleet
    cluster: str
    port: int
    every_s: float
    stopped: threading.Event
    decisions: int = 0
    refused: int = 0
    times: list[float] = field(default_factory=list)
    retry_after_s: float = 1.0

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.failure = ""

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        """Send batches until `stopped` is set."""
        with closing(connect(self.fleet.authority, self.port, self.cluster)) as connection:
            self._send_until_stopped(connection)

    def _send_until_stopped(self, connection: HTTPSConnection) -> None:
        due_s = time.monotonic() + random.random() * self.every_s
        while not self.stopped.wait(max(0.0, due_s - time.monotonic())):
            body = self.fleet.build_batch(self.cluster)
            began = time.perf_counter()
            while not self._send(connection, body):
                if self.failure or self.stopped.wait(self.retry_after_s * random.uniform(1, 1.25)):
                    return
            self.times.append((time.perf_counter() - began) * 1000)
            due_s = max(due_s + self.every_s, time.monotonic())

    def _send(self, connection: HTTPSConnection, body: bytes) -> bool:
        connection.request("POST", INGEST, body, INGEST_HEADERS)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status in (429, 503):
            self.refused += 1
            self.retry_after_s = float(answer.headers["Retry-After"])
            return False
        if answer.status != 200:
            self.failure = f"{answer.status}: {text[:300]}"
            return False
        self.decisions += int((re.search(r'"decisions": ?(\d+)', text) or [0, 0])[1])
        return True


def main() -> int:
    """Let many clusters send to one service, ask it questions meanwhile, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description="One service for many clusters.")
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--batches-per-s", type=float, default=0.2, help=f"of each, {BATCH_DECISIONS} decisions each")
    parser.add_argument("--noisy", type=int, default=1, help="clusters that send without a pause")
    parser.add_argument("--quota", default="64Ki", help="--ingest-quota of the service; 0: none")
    parser.add_argument("--postgresql", action="store_true", help="a PostgreSQL server of its own instead of SQLite")
    arguments = parser.parse_args()
    exit_on_sigterm()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        fleet = _build_fleet(folder, arguments.clusters)
        if arguments.postgresql:
            with postgresql.Server(durable=True) as server:
                return _run(folder, fleet, server.database(), arguments)
        return _run(folder, fleet, f"sqlite:///{folder / 'herodotus.db'}", arguments)


def _run(folder: Path, fleet: Fleet, url: str, arguments: argparse.Namespace) -> int:
    certificate, key = fleet.authority.server("localhost")
    flags = ["--tls-cert-file", str(certificate), "--tls-private-key-file", str(key), "--database-url", url]
    flags += ["--client-ca-file", str(fleet.authority.file), "--max-bytes", "1Ti"]
    flags += [f"--ingest-sender=sender-{cluster}={cluster}" for cluster in fleet.clusters]
    flags += [] if arguments.quota == "0" else ["--ingest-quota", arguments.quota]
    service = DecisionsService(folder, *flags)
    port, stopped = service.port, threading.Event()
    try:
        every_s = [0.0] * arguments.noisy + [1 / arguments.batches_per_s] * (len(fleet.clusters) - arguments.noisy)
        senders = [Sender(fleet, c, port, s, stopped) for c, s in zip(fleet.clusters, every_s, strict=True)]
        print(f"calibration {calibration_ms():.1f} ms; {len(senders)} clusters, {arguments.noisy} of them noisy")
        for sender in senders:
            sender.start()
        began = time.monotonic()
        answers = _ask(fleet, port, began + arguments.seconds)
        stopped.set()
        for sender in senders:
            sender.join(30)
        _print(senders, answers, time.monotonic() - began, arguments.noisy)
        failures = {sender.failure for sender in senders if sender.failure}
        if failures:
            print(f"failed: {failures}")
        return 1 if failures else 0
    finally:
        stopped.set()
        service.stop()


def _print(senders: list[Sender], answers: dict[str, list[float]], seconds: float, noisy: int) -> None:
    print(f"{'ACKNOWLEDGED':32}{'DECISIONS':>10}{'PER S':>8}{'REFUSED':>9}{'P50 MS':>8}{'P99 MS':>8}{'WORST':>8}")
    for name, group in (("noisy", senders[:noisy]), ("others", senders[noisy:])):
        times = [ms for sender in group for ms in sender.times]
        if times:
            decisions, refused = sum(s.decisions for s in group), sum(s.refused for s in group)
            figures = format_quantiles(times, 0)
            print(f"{name:32}{decisions:>10}{decisions / seconds:>8.0f}{refused:>9}{figures}")
    rates = [sender.decisions for sender in senders[noisy:]]
    print(f"fairness {min(rates) / max(max(rates), 1):.2f}: {min(rates)} to {max(rates)} decisions of a cluster")
    print(f"{'QUESTION':32}{'NUMBER':>10}{'P50 MS':>8}{'P99 MS':>8}{'WORST':>8}")
    for name, times in answers.items():
        if times:
            print(f"{name:32}{len(times):>10}{format_quantiles(times, 0)}")


def _ask(fleet: Fleet, port: int, until_s: float) -> dict[str, list[float]]:
    """Ask about random pods and for lists of random clusters until `until_s`.

    Return the response times in milliseconds, by kind of question. `until_s` is in monotonic seconds.
    """
    rng, connection = random.Random(1), connect(fleet.authority, port, fleet.clusters[0])
    answers: dict[str, list[float]] = {"a pod": [], "500 newest of a namespace": []}
    while time.monotonic() < until_s:
        for name, times in answers.items():
            namespace, pod = rng.choice(fleet.pods)
            cluster = rng.choice(fleet.clusters)
            path = f"podexplanations/{pod}?" if name == "a pod" else "decisions?limit=500&"
            began = time.perf_counter()
            connection.request("GET", f"{API}/namespaces/{namespace}/{path}cluster={cluster}")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:  # 404: the cluster has not sent yet
                times.append((time.perf_counter() - began) * 1000)
            time.sleep(1 / QUESTIONS_PER_S)
    connection.close()
    return answers


def _build_fleet(folder: Path, clusters: int) -> Fleet:
    frames, pods = [], []
    first: Decision | None = None
    for batch in read_batches(generate(folder, BATCH_DECISIONS, NODES)):
        for frame, _ in batch:
            frames.append(codec.encode(frame))
            if isinstance(frame, Decision):
                first = first or frame
                pods.append((frame.pod.namespace, frame.pod.name))
    assert first is not None
    cluster, incarnation = first.key.cluster, first.key.incarnation
    former = {"cluster": cluster.encode(), "incarnation": incarnation.encode()}
    names = [f"fleet-{number:0{len(cluster) - 6}}" for number in range(clusters)]  # as long as the former name
    return Fleet(frames, former, pods, Authority(folder), names)


def connect(authority: Authority, port: int, cluster: str) -> HTTPSConnection:
    """Return a connection with the client certificate of a cluster's sender."""
    context = ssl.create_default_context(cadata=authority.pem)
    with _LOCK:
        context.load_cert_chain(*authority.client(f"sender-{cluster}", ends_h=24))
    return HTTPSConnection("127.0.0.1", port, timeout=60, context=context)


_LOCK: Final = threading.Lock()

if __name__ == "__main__":
    raise SystemExit(main())
