"""The shipper: a separate process that delivers the records in the spool to the decisions service.

Owns: batches, compression, retries. Does not own: the connection, the spool's format, anything of scheduling. It may be
killed, hang or be absent, and no pod waits for it.

A lock allows one shipper for each spool directory. The shipper ends when its parent does, because the parent holds the
other end of its standard input. Before it ends, it delivers for a few more seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx

from herodotus_record import codec, klog
from herodotus_record.codec import deltas
from scheduler.recorder.endpoint import ServiceConnection, ServiceEndpoint
from scheduler.recorder.spool_reader import Batch, IncarnationSpool, list_incarnations
from scheduler.recorder.supervisor import Progress

POLL_S: Final = 0.2  # how long a decision may wait in the spool while the service is up and decisions are few
BUSY_POLL_S: Final = 1.0  # the same while they are many: larger batches cost the service less for each decision
BUSY_FRAMES: Final = 30  # delivered at once, so many frames (some ten decisions) are many
MIN_BATCH_BYTES: Final = 1 << 20  # which it does not: a thousand decisions, or twenty of templates of their own
BACKOFF_S: Final = (0.2, 10.0)  # first and longest pause while it is not
UNREACHABLE_BACKOFF_S: Final = 1.0  # longest pause where no batch was sent: a try costs little, and readers wait
TIMEOUT_S: Final = 30.0  # a batch is stored within a second or two
DRAIN_S: Final = 5.0  # how long to go on delivering after the scheduler has ended
PROGRESS_INTERVAL_S: Final = 1.0  # how far we are, for metrics
_REPORT_EVERY_S: Final = 30.0  # how often an outage is logged
REFUSED_LIMIT_BYTES: Final = 16 << 20  # a segment: enough to see what is refused; it is not in --spool-limit
_RETRY_LATER: Final = (429, 503, 507)  # busy, away, its disk is full: the batch is right
_MUST_SPLIT: Final = (400, 409, 413, 415)  # something in the batch is refused, not the batch as such


class NotDeliveredError(Exception):
    """The decisions service did not accept a batch now, but may accept it later.

    `after_s` is the number of seconds to wait, from the response's Retry-After, or 0.
    """

    def __init__(self, message: str, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


class ServiceBusyError(NotDeliveredError):
    """The decisions service has no turn for the batch yet, and names the time after which it expects to have one."""


class UnreachableError(NotDeliveredError):
    """A failed attempt to connect to the decisions service, or to read the credentials for it; nothing was sent."""


class Shipper:
    """Delivers the records of all incarnations in a spool directory to the decisions service, repeatedly."""

    def __init__(
        self, directory: Path, endpoint: ServiceEndpoint, transport: httpx.BaseTransport | None = None
    ) -> None:
        """Prepare the delivery from `directory` without connecting. `transport` replaces the network in tests."""
        self.progress = Progress()
        self._directory = directory
        self._connection = ServiceConnection(endpoint, TIMEOUT_S, transport)
        self._url = f"{endpoint.url.rstrip('/')}/ingest/v1/frames"
        self._reported_s = -PROGRESS_INTERVAL_S
        self._spools: dict[str, IncarnationSpool] = {}
        self._reached: dict[str, int | None] = {}  # what was delivered of each, also while its directory is deleted

    def deliver_pending(self) -> bool:
        """Deliver the frames (encoded records) that wait in the spool, and return whether any waited.

        Also delete the directories of ended schedulers. Raise NotDeliveredError if the service does not accept a batch.
        """
        any_sent = False
        self._spools = {each.name: each for each in list_incarnations(self._directory, self._spools)}
        for spool in [*self._spools.values()]:
            if spool.reached is None:
                spool.reached = self._reached.get(spool.name)
            alive = spool.has_writer()  # asked before reading: what a live writer still writes is read in the next pass
            while self._deliver_next_batch(spool):
                any_sent = True
                if alive and spool.is_in_last_segment and spool.count_waiting_bytes() < MIN_BATCH_BYTES:
                    break  # what was written meanwhile goes with the next pass: small batches cost the service more
            self._reached[spool.name] = spool.reached
            if not alive and not spool.has_writer():  # a directory that was deleted may be there again
                spool.delete()
                del self._spools[spool.name]
        return any_sent

    def run(self, stop: threading.Event, drain_s: float = DRAIN_S) -> bool:
        """Deliver until `stop` is set, then for at most `drain_s` seconds more.

        Return whether everything was delivered.
        """
        pause, last_report, deadline = BACKOFF_S[0], -_REPORT_EVERY_S, float("inf")
        while time.monotonic() < deadline:
            if stop.is_set() and deadline == float("inf"):
                deadline = time.monotonic() + drain_s
            delivered = self.progress.delivered
            try:
                sent = self.deliver_pending()
                if last_report > 0:
                    klog.info(0, "Decisions are delivered again", url=self._url)
                pause, last_report = BACKOFF_S[0], -_REPORT_EVERY_S
                if not sent:
                    self._report_progress(caught_up_s=time.time(), error="")
                    if stop.is_set():
                        return True
                stop.wait(BUSY_POLL_S if self.progress.delivered - delivered >= BUSY_FRAMES else POLL_S)
            except (NotDeliveredError, OSError) as e:
                now = time.monotonic()
                self._report_progress(error=str(e))
                if now - last_report >= _REPORT_EVERY_S:
                    klog.error(e, "Decisions wait in the spool, trying again", url=self._url)
                    last_report = now
                after_s = e.after_s if isinstance(e, NotDeliveredError) else 0.0
                longest = UNREACHABLE_BACKOFF_S if isinstance(e, UnreachableError) else BACKOFF_S[1]
                wait = max(min(pause, longest) * random.uniform(1, 1.5), after_s)
                if isinstance(e, ServiceBusyError):  # a longer pause would only delay records: our place is kept
                    wait, pause = after_s * random.uniform(1, 1.25), BACKOFF_S[0]
                if stop.is_set():
                    time.sleep(min(wait, max(deadline - now, 0)))
                else:
                    stop.wait(wait)
                pause = min(pause * 2, BACKOFF_S[1])
        return False

    def close(self) -> None:
        """Close the connection to the service."""
        self._connection.close()

    def _deliver_next_batch(self, spool: IncarnationSpool) -> bool:
        batch = spool.next_batch()
        if batch is None:
            return False
        self._deliver(spool, batch, 0, len(batch.frames))
        if batch.lost:
            klog.error(
                "damaged or deleted", "Records were lost in the spool", incarnation=spool.name, records=batch.lost
            )
            self._report_progress(lost=self.progress.lost + batch.lost)
        return True

    def _deliver(self, spool: IncarnationSpool, batch: Batch, start: int, end: int) -> None:
        """Send the frames `start` to `end` of a batch and acknowledge those that the service stores.

        If the service refuses a frame for good, halve the batch until that frame is alone, and set it aside. Raise
        NotDeliveredError if the service may accept the frames later.
        """
        code, message = self._send_with_context(spool, batch.frames[start:end])
        if code < 300:
            self._report_progress(delivered=self.progress.delivered + end - start)
            spool.acknowledge(batch, end)
        elif code not in _MUST_SPLIT:
            raise NotDeliveredError(f"{code}: {message}")
        elif end - start > 1:
            middle = (start + end) // 2
            self._deliver(spool, batch, start, middle)
            self._deliver(spool, batch, middle, end)
        else:
            self._set_aside(batch.frames[start], f"{code}: {message}")
            spool.acknowledge(batch, end)

    def _send_with_context(self, spool: IncarnationSpool, frames: Sequence[bytes]) -> tuple[int, str]:
        """Send frames with the decisions to which their deltas refer.

        If the service responds that it lacks the node table, send them again with the table. Return the HTTP status and
        the message of the last response. The service skips decisions that it has.
        """
        bases = spool.find_delta_bases(frames)
        code, message = self._send(bases, frames)
        if code == 409 and (table := spool.rebuild_node_table()) is not None:
            code, message = self._send(bases, (table, *frames))
        return code, message

    def _send(self, bases: Sequence[bytes], frames: Sequence[bytes]) -> tuple[int, str]:
        body = b"".join(deltas.insert_bases(bases, frames))
        headers = {"Content-Type": codec.CONTENT_TYPE, "Content-Encoding": "zstd"}
        try:
            response = self._connection.send("POST", self._url, content=codec.compress(body), headers=headers)
        except OSError as e:  # a token or a certificate that is not there, or not yet
            raise UnreachableError(f"cannot show who we are: {e}") from e
        except (httpx.ConnectError, httpx.ConnectTimeout) as e:
            raise UnreachableError(str(e) or type(e).__name__) from e
        except httpx.HTTPError as e:
            raise NotDeliveredError(str(e) or type(e).__name__) from e
        if response.status_code == 415 and not response.headers.get("Accept", "").startswith(codec.CONTENT_TYPE):
            raise NotDeliveredError(f"415, and not from the decisions service: {_parse_message(response)}")
        if response.status_code in _RETRY_LATER:
            after = response.headers.get("Retry-After", "")
            busy = response.status_code == 429 and after.isdigit() and int(after) > 0
            failure = ServiceBusyError if busy else NotDeliveredError
            raise failure(_parse_message(response), float(after) if after.isdigit() else 0.0)
        return response.status_code, _parse_message(response)

    def _set_aside(self, frame: bytes, why: str) -> None:
        """Append a frame that the service refuses for good to the file refused.frames, and log the reason `why`.

        Nothing is appended once that file is full.
        """
        has_room = False
        with contextlib.suppress(OSError), (self._directory / "refused.frames").open("ab") as f:
            has_room = f.tell() + len(frame) <= REFUSED_LIMIT_BYTES
            if has_room:
                f.write(frame)
        file_name = "refused.frames" if has_room else "nowhere: refused.frames is full"
        klog.error(why, "The decisions service refuses a frame, setting it aside", file=file_name)
        self._report_progress(refused=self.progress.refused + 1)

    def _report_progress(self, **changes: Any) -> None:
        """Change the given fields of `progress` and write the progress file.

        The file is written at most once per interval, but at once when an error begins or ends.
        """
        last_error, self.progress = self.progress.error, replace(self.progress, **changes)
        now = time.monotonic()
        if now - self._reported_s < PROGRESS_INTERVAL_S and last_error == self.progress.error:
            return
        self._reported_s = now
        with contextlib.suppress(OSError):  # a full disk: the next report is written once there is room
            self.progress.write(self._directory)


def main(directory: Path, endpoint: ServiceEndpoint) -> int:
    """Deliver the spool in `directory` until standard input ends, and return the exit code.

    It is 1 if records are left, if the directory does not exist, or if another shipper holds the lock until the end.
    """
    if not directory.is_dir():
        klog.error("no such directory", "There is no spool to deliver", spool=str(directory))
        return 1
    lock = os.open(directory / "shipper.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    stop = threading.Event()
    threading.Thread(target=_wait_for_parent, args=(stop,), daemon=True).start()
    while not _try_lock(lock):  # the shipper of a scheduler that just ended still delivers
        if stop.wait(POLL_S):
            return 1
    shipper = Shipper(directory, endpoint)
    try:
        all_delivered = shipper.run(stop)
    finally:
        shipper.close()
    if not all_delivered:
        klog.error(shipper.progress.error or "no more time", "Decisions are left in the spool", spool=str(directory))
    return 0 if all_delivered else 1


def _try_lock(file: int) -> bool:
    """Lock the open file if no other process has locked it. Return whether this process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for_parent(stop: threading.Event) -> None:
    with contextlib.suppress(OSError, ValueError):
        while os.read(sys.stdin.fileno(), 1):  # not its own `read`, whose lock an interrupted interpreter waits for
            pass
    stop.set()


def _parse_message(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return response.text[:200]
