"""The route `POST /ingest/v1/frames`, through which schedulers deliver records.

Owns: authentication of senders, limits, decoding, and the status code of each refusal. Does not own: storing (`store`),
the order of batches (`access.ingest_limits`), the frame format (`herodotus_record.codec`), retries of the shipper.

Invariant: the service answers 200 only after the commit. With any other code it stores nothing of the batch.

Senders that the configuration names present a token or a certificate. If it names none, the service accepts batches
only from loopback peers: the scheduler in the same pod or on the same machine. A port-forward into the pod is a
loopback peer too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from flask import Blueprint, Response, request

from herodotus_endpoint.access.ingest_limits import FairIngestQueue, IngestQuota, QueueFullError
from herodotus_endpoint.api.record_limits import check_frame, move_future_times
from herodotus_endpoint.errors import StatusError, json_response, retry_later
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.parameters import ChoiceParameter, read_body
from herodotus_endpoint.routing import Access, Answer, PoolKind, Route, build_blueprint, declare
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import BatchError, ForeignClusterError, NodeRowsMissingError, Store, StoreUnavailableError
from herodotus_endpoint.tracing.traced_records import TracedRecord, select_traced
from herodotus_record import codec
from herodotus_record.codec import batches, deltas
from herodotus_record.codec.decoded_size import MAX_DECODED_BYTES
from herodotus_record.model import Frame
from herodotus_serving.memory import MemoryGate
from herodotus_serving.sockets import is_loopback

PATH: Final = "/ingest/v1/frames"
MAX_BODY_BYTES: Final = 16 << 20  # as sent: 200 incompressible decisions of 5,000 nodes, fifty times a usual batch
MAX_UNPACKED_BYTES: Final = codec.MAX_FRAME_BYTES + 64  # the largest frame fits, and four such batches take 256 MiB
# Of batches that are large, or have a large frame: such a batch needs its bytes and the objects of its largest frame.
BATCH_MEMORY_BYTES: Final = MAX_UNPACKED_BYTES + 2 * MAX_DECODED_BYTES
MEMORY_WAIT_S: Final = 10.0  # as long as a batch waits for its turn
MAX_TOKEN_REVIEWS: Final = 4  # at the same time: many requests wait for their turn, and each may have a new token
MAX_FRAMES: Final = 20_000  # bounds the time that the write lock is held to some seconds

_ENCODING: Final = ChoiceParameter(
    "Content-Encoding", "How the batch is compressed; identity by default.", choices=("zstd", "identity")
)
_RECEIPT: Final = {
    "type": "object",
    "required": ["accepted", "duplicates", "decisions", "outcomes", "gaps", "nodeRows"],
    "additionalProperties": {"type": "integer", "minimum": 0},
}


def blueprint(store: Store, settings: ServiceSettings, metrics: EndpointMetrics) -> Blueprint:
    """Return the Flask blueprint of the ingest route, `POST /ingest/v1/frames`.

    New records are put into `settings.traces` after the commit, unless it is None.
    """
    quota = IngestQuota(settings.ingest_quota)
    queue = FairIngestQueue(settings.max_concurrent_ingests)
    gate = MemoryGate(BATCH_MEMORY_BYTES)
    authenticating = threading.BoundedSemaphore(MAX_TOKEN_REVIEWS)

    @declare(
        Route(
            "POST",
            PATH,
            "ingest",
            "Store a batch of frames; 200 after the commit.",
            right=Access.SENDER,
            headers=(_ENCODING,),
            body={codec.CONTENT_TYPE: {"type": "string", "format": "binary"}},
            answers=(Answer(description="Stored.", schema=_RECEIPT),),
            errors=(400, 401, 403, 409, 413, 415, 429, 503, 507),
            pool=PoolKind.INGEST,
            max_body=MAX_BODY_BYTES,
        )
    )
    def frames() -> Response:
        with authenticating:
            cluster = authenticate_sender(settings)
        body = _read_batch()
        after_s = quota.take(cluster, len(body))
        if after_s:
            metrics.refused.labels("quota").inc()
            message = f'the quota of cluster "{cluster}" is used up (--ingest-quota); send again later'
            raise retry_later(429, message, after_s)
        try:
            with queue.admit(cluster, len(body)), _unpacked(body, gate) as unpacked:
                return _store(store, settings, metrics, cluster, unpacked)
        except QueueFullError as e:
            quota.refund(cluster, len(body))
            metrics.refused.labels("busy").inc()
            raise retry_later(429, str(e), e.after_s) from e

    routes = build_blueprint("ingest", (frames,))

    @routes.after_request
    def state_frame_version(response: Response) -> Response:
        """Set the response's Accept header to the frame version that this service reads.

        Shippers recognize by it that a refusal is the service's own, and not that of a proxy in between.
        """
        response.headers["Accept"] = f"{codec.CONTENT_TYPE};version={codec.VERSION}"
        return response

    return routes


def _store(store: Store, settings: ServiceSettings, metrics: EndpointMetrics, cluster: str, body: bytes) -> Response:
    """Store a batch of frames and return a response with the numbers of stored records.

    `cluster` is the ID of the cluster that the sender is bound to, or "" if it is bound to none. Raises StatusError if
    the batch is refused.
    """
    traces, now_us = settings.traces, int(settings.clock() * 1e6)
    traced: list[TracedRecord] = []
    collect = None if traces is None else lambda record, node: traced.append(select_traced(record, node))
    try:
        with metrics.ingest_seconds.time():
            receipt = store.writer.store(_limit_times(_decode(body), metrics, now_us), cluster, on_new=collect)
    except NodeRowsMissingError as e:
        metrics.refused.labels("node-rows-missing").inc()
        raise StatusError(409, str(e), reason="NodeRowsMissing") from e
    except ForeignClusterError as e:
        metrics.refused.labels("foreign-cluster").inc()
        raise StatusError(403, f"the sender is bound to a cluster, and the batch holds records of another: {e}") from e
    except BatchError as e:
        metrics.refused.labels("contradiction").inc()
        raise StatusError(400, str(e)) from e
    except StoreUnavailableError:  # a full disk or an unreachable database
        metrics.refused.labels("database").inc()
        raise
    metrics.count_batch(receipt, len(body))
    if traces is not None:
        traces.put(traced)
    return json_response(
        {
            "accepted": receipt.accepted,
            "duplicates": receipt.duplicates,
            "decisions": receipt.decisions,
            "outcomes": receipt.outcomes,
            "gaps": receipt.gaps,
            "nodeRows": receipt.node_rows,
        }
    )


def authenticate_sender(settings: ServiceSettings) -> str:
    """Authenticate the sender of this request and return the ID of the cluster that it is bound to.

    If no senders are configured, the result is "", and only senders on loopback are accepted, or all with --insecure.
    Raises StatusError if the sender is refused.
    """
    if settings.senders is not None:
        return settings.senders.authenticate(request.environ)
    peer = request.environ.get("REMOTE_ADDR", "")
    if not settings.insecure and not is_loopback(peer):
        raise StatusError(
            403,
            f"unauthenticated ingest is accepted from loopback only, not from {peer or 'an unknown peer'};"
            " name its senders with --ingest-sender, or start the service with --insecure to accept it from anywhere",
        )
    return ""


def _read_batch() -> bytes:
    """Return the body of this request as sent, which is a batch of frames.

    Raises StatusError 413 if the body is too large, and 415 for an unsupported type or encoding.
    """
    if request.mimetype != codec.CONTENT_TYPE:
        raise StatusError(415, f"Content-Type must be {codec.CONTENT_TYPE}")
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding not in _ENCODING.choices:
        raise StatusError(415, f"Content-Encoding must be zstd or identity, not {encoding[:64]!r}")
    return read_body(MAX_BODY_BYTES, "a batch")


@contextmanager
def _unpacked(sent: bytes, gate: MemoryGate) -> Iterator[bytes]:
    """Yield the frames of this request's body, and reserve memory at `gate` for a large batch or frame until the end.

    The memory is reserved before anything is stored, so that no batch waits for memory while another one waits for its
    locks. Raises StatusError 413 if the batch is too large, 400 if it is damaged or a frame would take too much memory,
    and 503 if the memory does not become free.
    """
    compressed = request.headers.get("Content-Encoding", "identity") != "identity"
    small = batches.is_small(sent, compressed=compressed)
    with _hold(gate, 0 if small else MAX_UNPACKED_BYTES + MAX_DECODED_BYTES):
        try:
            batch = batches.unpack(sent, MAX_UNPACKED_BYTES, compressed=compressed)
        except codec.CodecError as e:
            raise _refuse_batch(e) from e
        with _hold(gate, batch.decoded_bytes if small else 0):
            yield batch.frames


@contextmanager
def _hold(gate: MemoryGate, size: int) -> Iterator[None]:
    with gate.hold(size, MEMORY_WAIT_S) if size else nullcontext(True) as held:
        if not held:
            raise retry_later(503, "other batches use the memory for large frames; send again later", MEMORY_WAIT_S)
        yield


def _refuse_batch(error: codec.CodecError) -> StatusError:
    message = str(error)
    if "unpacks to more" in message:
        return StatusError(413, f"the batch {message}")
    return StatusError(400, message if message.startswith("frame ") else f"the body is {message}")


def _limit_times(
    frames: Iterator[tuple[Frame, deltas.EncodedFrame]], metrics: EndpointMetrics, now_us: int
) -> Iterator[tuple[Frame, deltas.EncodedFrame]]:
    """Yield each frame with its encoded bytes, after moving times that are too far in the future to `now_us`.

    A changed frame is encoded again and counted in the metrics.
    """
    for frame, raw in frames:
        moved = move_future_times(frame, now_us)
        if moved is frame:
            yield frame, raw
        else:
            metrics.future_times.inc()
            yield moved, codec.encode(moved)


def _decode(body: bytes) -> Iterator[tuple[Frame, deltas.EncodedFrame]]:
    """Yield each frame of a batch with its encoded bytes.

    Frames are decoded one at a time, because a whole decoded batch takes ten times its bytes in memory. Raises
    StatusError 400, 413 or 415 that names the first invalid frame.
    """
    number = 0
    try:
        reader = deltas.DeltaReader()
        for number, (_, framed) in enumerate(codec.split_frames(body), 1):
            if number > MAX_FRAMES:
                raise StatusError(413, f"a batch must be at most {MAX_FRAMES} frames")
            frame, raw = reader.read(framed)
            yield check_frame(frame), raw
            number += 1
    except codec.CodecError as e:
        code = 415 if isinstance(e, codec.UnknownVersionError) else 400
        raise StatusError(code, f"frame {number} of the batch: {e}") from e
