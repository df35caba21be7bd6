"""The shipper delivers each frame once and in order, whatever the service says in between."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import NodeRows
from herodotus_serving.certificates import create_self_signed
from scheduler.commands import main as app
from scheduler.recorder import shipper as module
from scheduler.recorder.endpoint import EndpointError, ServiceConnection, ServiceEndpoint, endpoint_from_arguments
from scheduler.recorder.shipper import NotDeliveredError, Shipper
from scheduler.recorder.spool import Spool
from scheduler.recorder.supervisor import Progress, count_waiting_bytes
from tests.processes import ROOT, eventually
from tests.support.recorder_frames import ME, TABLE, encoded_gap


class Service:
    """The decisions service: stores frames by sequence; `answers` come first, one a request."""

    def __init__(self) -> None:
        self.stored: list[int] = []
        self.tables = 0
        self.requests = 0
        self.answers: list[httpx.Response | Exception] = []
        self.refuses: Callable[[list[int]], int] = lambda sequences: 0  # a status, or 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        assert request.url == "http://service/ingest/v1/frames"
        assert request.headers["Content-Type"] == codec.CONTENT_TYPE
        assert request.headers["Content-Encoding"] == "zstd"
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        frames = list(deltas.decode_all(codec.decompress(request.read(), 1 << 26)))
        sequences = [f.sequence for f in frames if not isinstance(f, NodeRows)]
        status = self.refuses(sequences)
        if status == 409 and isinstance(frames[0], NodeRows):
            status = 0  # it has the table now
        if status:
            return httpx.Response(status, json={"message": "no"})
        self.tables += sum(isinstance(f, NodeRows) for f in frames)
        self.stored += sequences
        return httpx.Response(200, json={})


class Stop(threading.Event):
    """An event that is not waited for: it keeps the timeouts, and is set once `ends` is true of them."""

    def __init__(self, ends: Callable[[list[float]], bool]) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._ends = ends

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        if self._ends(self.waits):
            self.set()
        return self.is_set()


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def shipper(tmp_path: Path, service: Service) -> Shipper:
    return Shipper(tmp_path, ServiceEndpoint("http://service/"), httpx.MockTransport(service))


def write(directory: Path, *sequences: int, incarnation: str = "incarnation") -> Spool:
    spool = Spool(directory, incarnation)
    spool.rotate(TABLE)
    for sequence in sequences:
        spool.append(encoded_gap(sequence))
    return spool


def test_every_frame_is_delivered_once_in_order(tmp_path: Path, service: Service, shipper: Shipper) -> None:
    spool = write(tmp_path, 1, 2, 3)
    assert shipper.deliver_pending() is True
    assert shipper.deliver_pending() is False
    spool.append(encoded_gap(4))
    assert shipper.deliver_pending() is True
    assert (service.stored, service.tables, shipper.progress.delivered) == ([1, 2, 3, 4], 1, 5)


def test_finished_incarnations_are_deleted_and_living_ones_stay(tmp_path: Path, shipper: Shipper) -> None:
    write(tmp_path, 1, incarnation="dead").close()
    alive = write(tmp_path, 2, incarnation="alive")
    shipper.deliver_pending()
    assert sorted(d.name for d in tmp_path.iterdir() if d.is_dir()) == ["alive"]
    alive.close()
    shipper.deliver_pending()
    assert not [d for d in tmp_path.iterdir() if d.is_dir()]


def test_a_dead_incarnations_cut_off_tail_is_dropped(tmp_path: Path, service: Service, shipper: Shipper) -> None:
    spool = write(tmp_path, 1)
    spool.append(encoded_gap(2)[:-3])
    spool.close()
    shipper.deliver_pending()
    assert service.stored == [1]
    assert not (tmp_path / "incarnation").exists()


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(502, text="<html>"),
        httpx.Response(404, json={"message": "no such route"}),
        httpx.Response(301),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
    ],
    ids=lambda a: str(getattr(a, "status_code", type(a).__name__)),
)
def test_an_outage_loses_and_repeats_nothing(
    tmp_path: Path, service: Service, shipper: Shipper, answer: httpx.Response | Exception
) -> None:
    spool = write(tmp_path, 1, 2)
    service.answers = [answer, answer]
    for _ in range(2):
        with pytest.raises(NotDeliveredError):
            shipper.deliver_pending()
    spool.append(encoded_gap(3))
    shipper.deliver_pending()
    assert service.stored == [1, 2, 3]


@pytest.mark.parametrize("status", [429, 503, 507])
@pytest.mark.parametrize(("header", "after_s"), [("7", 7.0), ("soon", 0.0), (None, 0.0)])
def test_retry_after(
    tmp_path: Path, service: Service, shipper: Shipper, status: int, header: str | None, after_s: float
) -> None:
    write(tmp_path, 1)
    headers = {} if header is None else {"Retry-After": header}
    service.answers = [httpx.Response(status, headers=headers, json={"message": "busy"})]
    with pytest.raises(NotDeliveredError, match="busy") as raised:
        shipper.deliver_pending()
    assert raised.value.after_s == after_s


def test_retry_after_is_waited_for(tmp_path: Path, service: Service, shipper: Shipper) -> None:
    write(tmp_path, 1)
    service.answers = [httpx.Response(429, headers={"Retry-After": "3"})]
    stop = Stop(lambda _: bool(service.stored))
    shipper.run(stop, drain_s=0.0)
    assert stop.waits[0] >= 3.0
    assert service.stored == [1]


@pytest.mark.parametrize(
    ("status", "longest_s"), [(429, 1.25), (503, 15.0)], ids=["busy: as it says", "away: longer each time"]
)
def test_a_busy_service_says_how_long_to_wait(
    tmp_path: Path, service: Service, shipper: Shipper, status: int, longest_s: float
) -> None:
    """It keeps our place in its order, so that a longer pause would only delay the records."""
    write(tmp_path, 1)
    service.answers = [httpx.Response(status, headers={"Retry-After": "1"}) for _ in range(9)]
    stop = Stop(lambda _: bool(service.stored))
    shipper.run(stop, drain_s=0.0)
    assert service.stored == [1]
    assert min(stop.waits[:9]) >= 1.0
    assert longest_s / 1.5 <= max(stop.waits[:9]) <= longest_s


def test_a_service_that_lost_its_table_gets_it_again(tmp_path: Path, service: Service, shipper: Shipper) -> None:
    spool = write(tmp_path, 1)
    shipper.deliver_pending()
    spool.append(encoded_gap(2))
    service.refuses = lambda sequences: 409
    shipper.deliver_pending()
    assert (service.stored, service.tables) == ([1, 2], 2)


@pytest.mark.parametrize("status", [400, 413])
def test_permanently_refused_frames_are_quarantined_and_the_rest_is_sent(
    tmp_path: Path, service: Service, shipper: Shipper, status: int
) -> None:
    bad = {3, 7}
    write(tmp_path, *range(1, 11))
    service.refuses = lambda sequences: status if bad & set(sequences) else 0
    shipper.deliver_pending()
    assert service.stored == [1, 2, 4, 5, 6, 8, 9, 10]
    assert (tmp_path / "refused.frames").read_bytes() == encoded_gap(3) + encoded_gap(7)
    assert (shipper.progress.delivered, shipper.progress.refused) == (9, 2)


def test_quarantine_is_bounded_and_counts_the_rest(
    tmp_path: Path, service: Service, shipper: Shipper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.recorder.shipper.REFUSED_LIMIT_BYTES", 2 * len(encoded_gap(1)))
    write(tmp_path, *range(1, 5))
    service.refuses = lambda sequences: 400 if sequences else 0
    shipper.deliver_pending()
    assert (tmp_path / "refused.frames").read_bytes() == encoded_gap(1) + encoded_gap(2)
    assert shipper.progress.refused == 4
    assert count_waiting_bytes(tmp_path) == 0


def test_another_process_can_read_the_progress(tmp_path: Path, service: Service, shipper: Shipper) -> None:
    assert Progress.read(tmp_path) == Progress()
    stop = threading.Event()
    write(tmp_path, 1, 2)
    size = count_waiting_bytes(tmp_path)
    assert size == len(TABLE) + 2 * len(encoded_gap(1))
    service.refuses = lambda sequences: 500
    thread = threading.Thread(target=shipper.run, args=(stop, 0.0))
    thread.start()
    eventually(lambda: Progress.read(tmp_path).error.startswith("500"), "the error to be told")
    assert (Progress.read(tmp_path).caught_up_s, count_waiting_bytes(tmp_path)) == (0.0, size)
    service.refuses = lambda sequences: 0
    eventually(lambda: Progress.read(tmp_path).caught_up_s > 0, "it to have caught up")
    stop.set()
    thread.join()
    assert (Progress.read(tmp_path).error, count_waiting_bytes(tmp_path)) == ("", 0)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"else": 1}'])
def test_empty_file_is_no_failure(tmp_path: Path, text: str) -> None:
    (tmp_path / "shipper.json").write_text(text)
    assert Progress.read(tmp_path) == Progress()


def test_on_a_full_disk_what_is_delivered_makes_room(
    tmp_path: Path, service: Service, shipper: Shipper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing new can be written, so the position is written over in place and segments go."""
    spool = write(tmp_path, 1)
    spool.rotate(TABLE)
    spool.append(encoded_gap(2))

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr(Path, "write_bytes", full)
    shipper.deliver_pending()
    shipper.deliver_pending()
    assert service.stored == [1, 2]
    assert [p.name for p in (tmp_path / ME).glob("*.seg")] == ["00000002.seg"]


def test_after_an_outage_a_halved_batch_continues_after_the_acknowledged_part(
    tmp_path: Path, service: Service, shipper: Shipper
) -> None:
    write(tmp_path, *range(1, 9))
    count = 0

    def refuses(sequences: list[int]) -> int:
        nonlocal count
        count += 1
        if count == 6:
            return 500
        return 400 if 5 in sequences else 0

    service.refuses = refuses
    with pytest.raises(NotDeliveredError):
        shipper.deliver_pending()
    shipper.deliver_pending()
    assert service.stored == [1, 2, 3, 4, 6, 7, 8]


def test_damaged_bytes_cost_no_frame_behind_them(tmp_path: Path, service: Service, shipper: Shipper) -> None:
    spool = write(tmp_path, 1)
    spool.append(b"\0" * 50)
    spool.append(encoded_gap(2))
    spool.rotate(TABLE)
    spool.append(encoded_gap(3))
    shipper.deliver_pending()
    assert service.stored == [1, 2, 3]


def test_a_frame_of_a_version_that_the_service_does_not_read_is_set_aside(
    tmp_path: Path, service: Service, shipper: Shipper
) -> None:
    write(tmp_path, 1, 2, 3)
    reads = {"Accept": f"{codec.CONTENT_TYPE};version=9"}
    refusal = httpx.Response(415, headers=reads, json={"message": "frame version 1 is not known to version 9"})
    service.answers = [refusal, httpx.Response(200), refusal, refusal, httpx.Response(200)]
    shipper.deliver_pending()
    assert shipper.progress.refused == 1
    assert (tmp_path / "refused.frames").exists()


def test_before_it_ends_it_delivers_what_is_there(tmp_path: Path, service: Service, shipper: Shipper) -> None:
    write(tmp_path, 1, 2)
    stop = threading.Event()
    stop.set()
    assert shipper.run(stop)
    assert service.stored == [1, 2]


def test_final_delivery_is_bounded_and_reports_the_rest(tmp_path: Path, service: Service, shipper: Shipper) -> None:
    write(tmp_path, 1)
    service.refuses = lambda sequences: 500
    stop = threading.Event()
    stop.set()
    assert not shipper.run(stop, drain_s=0.05)
    assert service.requests > 0
    assert service.stored == []


def test_while_many_records_are_written_batches_are_rarer_and_larger(tmp_path: Path, shipper: Shipper) -> None:
    write(tmp_path, *range(1, module.BUSY_FRAMES + 1))
    stop = Stop(lambda waits: len(waits) == 3)
    assert shipper.run(stop)
    assert stop.waits == [module.BUSY_POLL_S, module.POLL_S, module.POLL_S]


HOLDER = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


def test_a_second_shipper_of_a_directory_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is a process that holds the lock; the second ends with 1 when its parent ends before it gets it."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "shipper.lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdout.readline()
        parent, ours = os.pipe()
        codes: list[int] = []
        with os.fdopen(parent) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            monkeypatch.setattr(module, "POLL_S", 0.005)
            second = threading.Thread(
                target=lambda: codes.append(module.main(tmp_path, ServiceEndpoint("http://service")))
            )
            second.start()
            second.join(0.03)
            assert second.is_alive()
            os.close(ours)
            second.join(60)
        assert codes == [1]
        first.stdin.close()


def test_a_shipper_process_ends_with_its_parent(tmp_path: Path) -> None:
    """As `run` starts it: the end of its standard input is the end of its parent, however early that comes."""
    command = [
        sys.executable,
        "-m",
        "scheduler.commands.ship",
        "--spool",
        str(tmp_path),
        "--endpoint",
        "http://127.0.0.1:9",
    ]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("program", [("scheduler.commands.ship",), ("scheduler", "ship")], ids=" ".join)
def test_an_interrupted_shipper_process_ends_quietly(tmp_path: Path, program: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", *program, "--spool", str(tmp_path), "--endpoint", "http://127.0.0.1:9"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            eventually(lambda: held(tmp_path / "shipper.lock"), "the shipper's lock")
            process.send_signal(signal.SIGINT)
            assert (process.wait(60), process.stderr.read()) == (130, b"")
        finally:
            process.kill()


def held(lock: Path) -> bool:
    """Whether a process has taken the lock."""
    if not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_the_token_is_read_again_for_each_batch(tmp_path: Path, service: Service) -> None:
    shown: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        shown.append(request.headers["Authorization"])
        return service(request)

    token = tmp_path / "token"
    token.write_text("first\n")
    (tmp_path / "spool").mkdir()
    spool = write(tmp_path / "spool", 1)
    shipper = Shipper(
        tmp_path / "spool", ServiceEndpoint("http://service/", token_file=token), httpx.MockTransport(answer)
    )
    shipper.deliver_pending()
    token.write_text("second\n")
    spool.append(encoded_gap(2))
    shipper.deliver_pending()
    assert (shown, service.stored) == (["Bearer first", "Bearer second"], [1, 2])


def test_a_token_that_is_not_there_yet_is_waited_for(tmp_path: Path, service: Service) -> None:
    (tmp_path / "spool").mkdir()
    write(tmp_path / "spool", 1)
    token = tmp_path / "token"
    endpoint = ServiceEndpoint("http://service/", token_file=token)
    shipper = Shipper(tmp_path / "spool", endpoint, httpx.MockTransport(service))
    with pytest.raises(NotDeliveredError, match="cannot show who we are"):
        shipper.deliver_pending()
    token.write_text("now")
    shipper.deliver_pending()
    assert service.stored == [1]


def test_an_authority_that_is_not_there_yet_is_waited_for_and_nothing_sent_meanwhile(tmp_path: Path) -> None:
    """The service makes its certificate at its first start, and the kubelet brings it to us a minute later."""
    authority, asked = tmp_path / "ca.crt", list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200)

    connection = ServiceConnection(
        ServiceEndpoint("https://service", ca_file=authority), 1.0, httpx.MockTransport(answer)
    )
    with pytest.raises(FileNotFoundError):
        connection.send("POST", "https://service/ingest/v1/frames", headers={})
    assert asked == []
    _, certificate = create_self_signed(["service"], timedelta(days=1))
    authority.write_bytes(certificate)
    assert connection.send("POST", "https://service/ingest/v1/frames", headers={}).status_code == 200
    connection.close()


def test_a_failed_connection_makes_the_next_request_trust_the_new_authority(tmp_path: Path) -> None:
    """The service may have a new certificate; waiting for the next regular look would delay its records."""
    authority, contexts = tmp_path / "ca.crt", list[object]()
    answers: list[httpx.Response | Exception] = [httpx.Response(200), httpx.ConnectError("verify failed")]

    def answer(request: httpx.Request) -> httpx.Response:
        found = answers.pop(0) if answers else httpx.Response(200)
        if isinstance(found, Exception):
            raise found
        return found

    class Endpoint(ServiceEndpoint):
        def build_tls_context(self) -> ssl.SSLContext:
            contexts.append(authority.read_bytes())
            return super().build_tls_context()

    first, second = (create_self_signed(["service"], timedelta(days=1))[1] for _ in range(2))
    authority.write_bytes(first)
    connection = ServiceConnection(Endpoint("https://service", ca_file=authority), 1.0, httpx.MockTransport(answer))
    connection.send("GET", "https://service/", headers={})
    authority.write_bytes(second)
    with pytest.raises(httpx.ConnectError):
        connection.send("GET", "https://service/", headers={})
    assert contexts == [first], "looks seldom while all is well"
    connection.send("GET", "https://service/", headers={})
    assert contexts == [first, second]
    connection.close()


@pytest.mark.parametrize(
    ("failure", "longest"),
    [
        (httpx.ConnectError("refused"), module.UNREACHABLE_BACKOFF_S),
        (httpx.ConnectTimeout("no answer"), module.UNREACHABLE_BACKOFF_S),
        (httpx.ReadTimeout("the batch was sent"), module.BACKOFF_S[1]),
    ],
    ids=["refused", "unanswered", "sent"],
)
def test_an_unreachable_service_is_tried_again_every_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, longest: float
) -> None:
    """A batch that was sent in vain costs the service more than a connection, so that takes longer pauses."""
    waited: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            if len(waited) == 12:
                self.set()
            return True

    def fail(_: httpx.Request) -> httpx.Response:
        raise failure

    monkeypatch.setattr(random, "uniform", lambda *_: 1.0)
    write(tmp_path, 1)
    shipper = Shipper(tmp_path, ServiceEndpoint("http://service/"), httpx.MockTransport(fail))
    assert not shipper.run(Stop(), drain_s=0.0)
    assert (waited[0], max(waited)) == (module.BACKOFF_S[0], longest)


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        (ServiceEndpoint("http://service:8001", token_file=Path("t")), "the token would be in the clear"),
        (ServiceEndpoint("http://127.0.0.1:8001", ca_file=Path("c")), "go with an https:// --endpoint"),
        (
            ServiceEndpoint("https://service", cert_file=Path("c")),
            "--endpoint-cert-file and --endpoint-key-file go together",
        ),
    ],
    ids=["token over HTTP", "authority without TLS", "certificate without key"],
)
def test_flags_that_do_not_go_together_are_refused(endpoint: ServiceEndpoint, message: str) -> None:
    with pytest.raises(EndpointError, match=message):
        endpoint.check()


def test_the_shipper_s_process_is_given_every_flag() -> None:
    files = {"token_file": Path("/t"), "ca_file": Path("/ca"), "cert_file": Path("/c"), "key_file": Path("/k")}
    endpoint = ServiceEndpoint("https://service", **files)
    assert endpoint_from_arguments(app._parser().parse_args(["ship", *endpoint.to_flags()])) == endpoint
