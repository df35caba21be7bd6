"""The simulated system: an API server, a decisions service, scheduler replicas with their shippers, and their restarts.

Owns: the processes, what they run, and what a kubelet does when one ends. Does not own: when one is killed
(`scenario`), what must hold (`checks`).

Each program is the production program from its command line on: `python -m scheduler run` and
`python -m scheduler.commands.ship`, and the decisions service's application on its SQLite store.
"""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import yaml

from bench.reliability.journal import WATCHED, ClusterHistory, ClusterModel, ObservedChange
from bench.reliability.operations import PROFILE
from bench.reliability.system import (
    ATTEMPT,
    SCHEDULING,
    UNWRITTEN_S,
    Election,
    LeaderEnd,
    has_undelivered_frames,
)
from bench.simulation import standard_library
from bench.simulation.leadership import LeadershipMonitor
from bench.simulation.machine import Host, MachineError, VirtualMachine, VirtualProcess
from bench.simulation.network import Exchange, Network
from herodotus_endpoint.api.documents import build_record
from herodotus_endpoint.app import create_app
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Store, prepare_database, sqlite_url
from herodotus_sim.cluster import SimulatedCluster
from herodotus_sim.errors import StatusError
from herodotus_sim.kinds import ApiResource
from herodotus_sim.server import encode_error_response
from herodotus_sim.storage import WatchChange
from herodotus_sim.wire import SimulatedRequest, SimulatedResponse
from scheduler.commands import ship
from scheduler.commands.main import main as run_scheduler
from scheduler.recorder.recorder import URGENT_EVERY_S
from tests.support.pages import API, read_pages

Json = dict[str, Any]

ELECTION: Final = Election(lease_s=6.0, renew_s=4.0, retry_s=1.0)
API_HOST, SERVICE_HOST = "api", "service"
STOP_S: Final = 120.0  # a graceful end has 60 s for bindings and 15 s for their results
RESTART_S: Final = (0.5, 3.0)  # until a kubelet has started a process again
DATABASE: Final = "herodotus.sqlite"
CLOCK_JUMP_S: Final = 600.0  # by which a wall clock may jump at most, forwards or backwards
VERBOSITY: Final = 3  # the verbosity that logs every attempt
_LOST: Final = '"Cannot record decisions'
_FIRST_LOST: Final = re.compile(rf"{_LOST}.* sequence=1$")


def prepare(directory: Path) -> None:
    """Create an empty database, which each run copies, and register the child processes' programs."""
    prepare_database(sqlite_url(directory / DATABASE))
    standard_library.register_command("scheduler.commands.ship", ship.main)


class ApiProcess:
    """The simulated API server, with the journal of all changes and a client for users' operations."""

    faulty = True  # it accepts plans of faults

    def __init__(self, machine: VirtualMachine, network: Network) -> None:
        self.process = VirtualProcess(machine, API_HOST)
        self._machine = machine
        self.sim = SimulatedCluster(client_check_interval_s=30.0, history_limit=2_000)
        self.lock = threading.RLock()
        self.past = ClusterHistory()
        self._history: list[ObservedChange] = []
        self.on_binding: Callable[[ObservedChange], None] = lambda seen: None
        self.sim.store.add_event_handler(self._observe)
        network.serve(API_HOST, self.process, self._answer)

    def stall(self, seconds: float) -> None:
        """Freeze the server for some seconds: it receives requests and handles them later."""
        self.process.freeze()
        self._machine.sleep(seconds)
        self.process.thaw()

    def history(self) -> list[ObservedChange]:
        """Return every change so far."""
        return list(self._history)

    def _observe(self, kind: ApiResource, change: WatchChange) -> None:
        if kind.kind not in WATCHED:
            return
        obj = change.current.to_object(kind)
        seen = ObservedChange(time.time(), change.version, kind.kind, change.type, obj)
        self._history.append(seen)
        if self.past.apply(seen):
            self.on_binding(seen)

    @property
    def state(self) -> ClusterModel:
        """The cluster as it is."""
        return self.past.state

    def _answer(self, request: httpx.Request, exchange: Exchange) -> httpx.Response:
        path, _, query = request.url.raw_path.decode("latin-1").partition("?")
        headers = {name.lower(): value for name, value in request.headers.items()}
        simulated = SimulatedRequest(
            request.method, path, query, headers, request.content, lambda: exchange.is_client_gone
        )
        try:
            response = self.sim.faults(simulated)
        except StatusError as e:
            response = encode_error_response(e)
        return _to_httpx(response)

    # --- the users' client, which another API server of the cluster serves ------------------------------------------

    def create(self, path: str, body: Json) -> None:
        """Create an object. A name that exists is ignored."""
        self._send("POST", path, body, (409, 403))

    def patch(self, path: str, body: Json) -> None:
        """Send a merge patch. A missing object or a conflict is ignored."""
        self._send("PATCH", path, body, (404, 409, 422), "application/merge-patch+json")

    def delete(self, path: str) -> None:
        """Delete an object without a grace period."""
        self._send("DELETE", path, {"gracePeriodSeconds": 0}, (404, 409))

    def put(self, path: str, body: Json) -> None:
        """Replace an object, such as the plan of faults."""
        self._send("PUT", path, body, ())

    def post(self, path: str) -> None:
        """Send a POST without a body."""
        self._send("POST", path, None, ())

    def _send(
        self, method: str, path: str, body: Json | None, accepted: tuple[int, ...], type_: str = "application/json"
    ) -> None:
        path, _, query = path.partition("?")
        content = b"" if body is None else msgspec.json.encode(body)
        handle = self.sim.faults if path.startswith("/faults") else self.sim.handle
        try:
            handle(SimulatedRequest(method, path, query, {"content-type": type_}, content))
        except StatusError as e:
            if e.code not in accepted:
                raise


def _to_httpx(response: SimulatedResponse) -> httpx.Response:
    headers = [("content-type", response.content_type), *response.headers]
    if response.stream is not None:
        return httpx.Response(response.status, headers=headers, extensions={"chunks": response.stream})
    return httpx.Response(response.status, headers=headers, content=response.body)


class ServiceProcess:
    """The decisions service on its SQLite file. A transaction of it is one step, so a kill comes between two."""

    def __init__(self, machine: VirtualMachine, network: Network, directory: Path) -> None:
        self._machine, self._network, self._directory = machine, network, directory
        self.process = VirtualProcess(machine, SERVICE_HOST)
        self.store: Store | None = None
        self.start()

    def start(self) -> None:
        """Start a new process on the same data, instead of one that has ended."""
        if self.store is not None:
            self.store.close()
        self.process = VirtualProcess(self._machine, SERVICE_HOST)
        self.store = Store(sqlite_url(self._directory / DATABASE))
        self.app = create_app(self.store, ServiceSettings())
        wsgi = httpx.WSGITransport(app=self.app, remote_addr="127.0.0.1")

        def answer(request: httpx.Request, exchange: Exchange) -> httpx.Response:
            if request.url.path.startswith("/ingest/v1/reviews"):
                return httpx.Response(404, text="reviews are not simulated")
            response = wsgi.handle_request(request)
            response.read()
            return httpx.Response(response.status_code, headers=response.headers, content=response.content)

        self._network.serve(SERVICE_HOST, self.process, answer)

    def client(self) -> httpx.Client:
        """Return a client that reads without the network."""
        wsgi = httpx.WSGITransport(app=self.app, remote_addr="127.0.0.1")
        return httpx.Client(base_url="http://service", transport=wsgi)


class SimulatedReplica:
    """One scheduler replica: consecutive processes with one spool, and the logs of all."""

    def __init__(self, machine: VirtualMachine, name: str, directory: Path, options: Sequence[str]) -> None:
        self.name, self.spool = name, directory / name
        self._machine = machine
        self.host = Host()
        self._arguments = [
            *("run", "--master", f"http://{API_HOST}", "--config", str(directory / "config.yaml")),
            *("--endpoint", f"http://{SERVICE_HOST}", "--secure-port", "0", "--v", str(VERBOSITY)),
            *("--spool", str(self.spool)),
            *options,
        ]
        self.processes: list[VirtualProcess] = []
        self.killed: list[VirtualProcess] = []
        self.ended_on_full_disk: list[VirtualProcess] = []
        self.end_requested = False
        self._read, self._has_scheduled = 0, False  # lines of the log, and whether one says that it schedules
        self.process = VirtualProcess(machine, name, host=self.host)
        self.process.end(0)

    def start(self) -> None:
        """Start a new process."""
        self.end_requested = False
        number = len(self.processes) + 1
        self.process = VirtualProcess(self._machine, f"{self.name}-{number}", host=self.host, preemptible=True)
        self.processes.append(self.process)
        self._read, self._has_scheduled = 0, False
        self.process.start_main(lambda: run_scheduler(self._arguments))

    @property
    def leads(self) -> bool:
        """Whether the process runs and has begun to schedule."""
        log = self.process.log
        while not self._has_scheduled and self._read < len(log):
            self._has_scheduled = SCHEDULING in log[self._read]
            self._read += 1
        return self.process.running and self._has_scheduled

    @property
    def lost_lease(self) -> bool:
        """Whether the process ended because it lost the Lease."""
        return any("Leaderelection lost" in line for line in self.process.log)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.end_requested = True
        self.killed.append(self.process)
        if self.host.disk_is_full or _has_lost_records(self.process):
            self.ended_on_full_disk.append(self.process)
        self.process.kill()

    @property
    def without_room_for_gaps(self) -> list[VirtualProcess]:
        """The processes that could not report what they lost: they ended at once on a full disk, or had no reserve.

        A scheduler that is killed or loses its Lease ends at once. One whose first record found no room has no reserve.
        """
        return [p for p in self.processes if p in self.ended_on_full_disk or any(map(_FIRST_LOST.search, p.log))]

    def kill_children(self) -> None:
        """Send SIGKILL to the child processes: the shipper."""
        for child in standard_library.children:
            if child.name.startswith(f"{self.process.name}-"):
                child.kill()

    def request_end(self) -> None:
        """Send SIGTERM, once."""
        if not self.end_requested:
            self.end_requested = True
            standard_library.send_signal(self.process, signal.SIGTERM)

    def stop(self) -> int:
        """Send SIGTERM, wait for the end, and return the exit code, or 0 if the process was killed meanwhile."""
        process = self.process
        self.request_end()
        ends = self._machine.now + STOP_S
        while process.running and self._machine.now < ends:
            self._machine.wait(process.ended, ends - self._machine.now)
        if process.exit_code is None:
            process.kill()
            raise MachineError(f"{process.name} did not end within {STOP_S:.0f} s of SIGTERM")
        return 0 if process in self.killed else process.exit_code  # another disturbance may have killed it

    def freeze(self, seconds: float) -> None:
        """Stop the process for some seconds, as SIGSTOP does."""
        process = self.process
        process.freeze()
        self._machine.sleep(seconds)
        process.thaw()

    @property
    def running(self) -> VirtualProcess:
        """The current process, which may have ended."""
        return self.process


class SimulatedSystem:
    """All processes of a run."""

    def __init__(
        self,
        machine: VirtualMachine,
        seed: str,
        directory: Path,
        template: Path,
        replicas: int,
        options: Sequence[str] = (),
    ) -> None:
        """Create the processes. `template` has the empty database, and `options` are further ones of the scheduler."""
        self.machine = machine
        self.digest = hashlib.sha256()
        self.network = Network(machine, seed)
        self.leadership = LeadershipMonitor(machine, API_HOST, ELECTION.renew_s)
        self.network.on_request = self._note_request
        self.network.on_response = self.leadership.note_response
        self.crashes: list[str] = []
        self.ended: list[LeaderEnd] = []
        for file in template.iterdir():
            if file.is_file():
                shutil.copy(file, directory / file.name)
        (directory / "config.yaml").write_text(yaml.safe_dump(_configuration()))
        self._draw = random.Random(f"restarts of {seed}")
        self.api = ApiProcess(machine, self.network)
        self.service = ServiceProcess(machine, self.network, directory)
        self.replicas = [SimulatedReplica(machine, f"replica-{n}", directory, options) for n in range(replicas)]
        self._read_lines: dict[VirtualProcess, int] = {}  # lines of each log that were counted
        self._due: dict[str, float] = {}  # when an ended process starts again

    def _note_request(self, client: VirtualProcess, request: httpx.Request) -> None:
        self.digest.update(f"{self.machine.now!r} {client.name} {request.method} {request.url}\n".encode())
        self.digest.update(request.content)
        self.leadership.note_request(client, request)

    def restart_ended(self) -> None:
        """Start each ended process again after a pause, as a kubelet does, and note an unexpected end."""
        now = self.machine.now
        for replica in self.replicas:
            if not replica.process.running:
                if replica.name not in self._due:
                    self._due[replica.name] = now + self._draw.uniform(*RESTART_S)
                    self._note_end(replica)
                elif now >= self._due[replica.name]:
                    del self._due[replica.name]
                    replica.start()
        if not self.service.process.running:
            if SERVICE_HOST not in self._due:
                self._due[SERVICE_HOST] = now + self._draw.uniform(*RESTART_S)
            elif now >= self._due[SERVICE_HOST]:
                del self._due[SERVICE_HOST]
                self.service.start()

    def _note_end(self, replica: SimulatedReplica) -> None:
        if replica.lost_lease and _has_lost_records(replica.process):
            replica.ended_on_full_disk.append(replica.process)
        expected = replica.end_requested or replica.lost_lease or not replica.processes
        if not expected:
            process = replica.process
            self.crashes.append(f"{process.name} ended with {process.exit_code}:\n{process.output()[-3000:]}")

    def leader(self) -> SimulatedReplica | None:
        """Return the replica that schedules, or None."""
        return next((r for r in self.replicas if r.leads), None)

    def restart_endpoint(self) -> None:
        """Kill the decisions service; `restart_ended` starts it again."""
        self.service.process.kill()

    def kill_shipper(self) -> None:
        """Kill the leader's shipper, which the scheduler starts again."""
        leader = self.leader()
        if leader is not None:
            leader.kill_children()

    @property
    def clocks_differ_s(self) -> float:
        """By how much the wall clocks of two hosts may differ."""
        return 2 * CLOCK_JUMP_S

    @property
    def unreported_losses(self) -> int:
        """How many records schedulers may have lost without a gap: a decision and a result per attempt.

        The Lease does not have the records since its last renewal.
        """
        return 2 * sum(len(_find_attempts(process)) for r in self.replicas for process in r.without_room_for_gaps)

    def is_delivered(self) -> bool:
        """Return whether the spools of all replicas are delivered."""
        return not any(has_undelivered_frames(replica.spool) for replica in self.replicas)

    def attempts(self) -> Counter[str]:
        """Return the number of attempts per pod in the schedulers' logs."""
        return Counter(pod for r in self.replicas for process in r.processes for _, pod in _find_attempts(process))

    def attempts_since_last_call(self) -> Counter[str]:
        """Return the number of attempts per pod that were logged since the last call of this method."""
        counts: Counter[str] = Counter()
        for process in (process for r in self.replicas for process in r.processes):
            read = self._read_lines.get(process, 0)
            self._read_lines[process] = len(process.log)
            counts.update(match[2] for line in process.log[read:] if (match := ATTEMPT.search(line)))
        return counts

    def attempts_before_kills(self) -> Counter[str]:
        """Return the number of attempts per pod in the last UNWRITTEN_S seconds of each killed scheduler's log.

        Of a scheduler without room for gaps, all attempts count.
        """
        counts: Counter[str] = Counter()
        for replica in self.replicas:
            without_room = replica.without_room_for_gaps
            for process in dict.fromkeys([*replica.killed, *without_room]):
                attempts = _find_attempts(process)
                lost_s = float("inf") if process in without_room else UNWRITTEN_S
                counts.update(pod for at, pod in attempts if attempts[-1][0] - at <= lost_s)
        return counts

    def query(self, path: str, **params: str) -> Json:
        """Return a response of the decisions service."""
        with self.service.client() as client:
            response = client.get(f"{API}{path}", params=params)
        response.raise_for_status()
        answer: Json = response.json()
        return answer

    def list_decisions(self, namespace: str, **params: str) -> list[Json]:
        """Return the stored decisions of a namespace."""
        with self.service.client() as client:
            return read_pages(client, f"/namespaces/{namespace}/decisions", **params)

    def read_record(self, namespace: str, name: str) -> Json:
        """Return the complete record of a decision, without HTTP, because a run reads hundreds of them."""
        assert self.service.store is not None
        stored = self.service.store.reader.decision_by_id(namespace, name)
        assert stored is not None, f"decision {name} is listed, and not stored"
        record: Json = msgspec.to_builtins(build_record(stored))
        return record


def _has_lost_records(process: VirtualProcess) -> bool:
    """Return whether a process found no room for a record so shortly before its end that the gap may not be written."""
    if not process.log:
        return False
    since = process.log_times[-1] - URGENT_EVERY_S
    return any(at >= since and _LOST in line for at, line in zip(process.log_times, process.log, strict=True))


def _find_attempts(process: VirtualProcess) -> list[tuple[float, str]]:
    """Return the pods of the attempts in a log, with monotonic seconds: the wall clock may jump."""
    lines = zip(process.log_times, process.log, strict=True)
    return [(at, match[2]) for at, line in lines if (match := ATTEMPT.search(line))]


def _configuration() -> Json:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {
            "leaseDuration": f"{ELECTION.lease_s}s",
            "renewDeadline": f"{ELECTION.renew_s}s",
            "retryPeriod": f"{ELECTION.retry_s}s",
            "resourceName": PROFILE,
        },
        "profiles": [{"schedulerName": PROFILE}],
    }
