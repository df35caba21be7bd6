"""POST /ingest/v1/frames: the way in.

Owns: who may send, limits, decoding, what each refusal looks like. Does not own: storing (`store`), the frames' form
(`herodotus_record.codec`), when a shipper tries again.

Invariant: 200 is sent after the commit and only then; with any other code nothing of the batch is stored.

Senders that the configuration names show a token or a certificate. Where it names none, a batch is taken only from a
loopback peer: the scheduler in the same pod or on the same machine. Note that a port-forward into the pod is a loopback
peer too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from flask import Blueprint, Response, request

from herodotus_endpoint import bodies
from herodotus_endpoint.checks import checked
from herodotus_endpoint.errors import ApiError, busy, json_response
from herodotus_endpoint.metrics import Metrics
from herodotus_endpoint.settings import Settings
from herodotus_endpoint.store import BatchError, ForeignClusterError, NodeRowsMissingError, Store, StoreUnavailableError
from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import Frame

PATH: Final = "/ingest/v1/frames"
MAX_BODY_BYTES: Final = 16 << 20  # as sent: 200 uncompressible decisions of 5,000 nodes, fifty times a usual batch
MAX_UNPACKED_BYTES: Final = codec.MAX_FRAME_BYTES + 64  # the largest frame must fit, and four such are 256 MiB
MAX_FRAMES: Final = 20_000  # what the write lock is held for at most: some seconds


def blueprint(store: Store, settings: Settings, metrics: Metrics) -> Blueprint:
    """The ingest route."""
    routes = Blueprint("ingest", __name__)
    places = threading.BoundedSemaphore(settings.max_concurrent_ingests)

    @routes.post(PATH, provide_automatic_options=False)
    def frames() -> Response:
        cluster = sender(settings)
        if not places.acquire(blocking=False):
            metrics.refused.labels("busy").inc()
            raise busy(429, f"{settings.max_concurrent_ingests} batches are being stored; send this one again")
        try:
            return _store(store, metrics, cluster)
        finally:
            places.release()

    @routes.after_request
    def reads(response: Response) -> Response:
        """Which frames may come next: a shipper of a newer version says it in ours."""
        response.headers["Accept"] = codec.accepted()
        return response

    return routes


def _store(store: Store, metrics: Metrics, cluster: str) -> Response:
    """`cluster`: the one that the sender is bound to; "" where it is bound to none."""
    body = _body()
    try:
        with metrics.ingest_seconds.time():
            receipt = store.writer.store(_decoded(body), cluster)
    except NodeRowsMissingError as e:
        metrics.refused.labels("node-rows-missing").inc()
        raise ApiError(409, str(e), reason="NodeRowsMissing") from e
    except ForeignClusterError as e:
        metrics.refused.labels("foreign-cluster").inc()
        raise ApiError(403, f"the sender is bound to a cluster, and the batch holds records of another: {e}") from e
    except BatchError as e:
        metrics.refused.labels("contradiction").inc()
        raise ApiError(400, str(e)) from e
    except StoreUnavailableError:  # a full disk, a database that is away
        metrics.refused.labels("database").inc()
        raise
    metrics.count(receipt, len(body))
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


def sender(settings: Settings) -> str:
    """The cluster that the sender is bound to, "" without authentication. ApiError where it may not send, here."""
    listener = f"{request.environ.get('SERVER_NAME')}:{request.environ.get('SERVER_PORT')}"
    if settings.ingest_listeners and listener not in settings.ingest_listeners:
        raise ApiError(403, "ingest is not served on this listener (--ingest-bind)")
    if settings.senders is not None:
        return settings.senders.cluster_of(request.environ)
    peer = request.environ.get("REMOTE_ADDR", "")
    if not settings.insecure and not _loopback(peer):
        raise ApiError(
            403,
            f"unauthenticated ingest is accepted from loopback only, not from {peer or 'an unknown peer'};"
            " name its senders with --ingest-sender, or start the service with --insecure to accept it from anywhere",
        )
    return ""


def _loopback(peer: str) -> bool:
    try:
        address = ip_address(peer)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _body() -> bytes:
    """The batch, unpacked."""
    if request.mimetype != codec.CONTENT_TYPE:
        raise ApiError(415, f"Content-Type must be {codec.CONTENT_TYPE}")
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding not in ("identity", "zstd"):
        raise ApiError(415, f"Content-Encoding must be zstd or identity, not {encoding[:64]!r}")
    body = bodies.read(MAX_BODY_BYTES, "a batch")
    if encoding == "identity":
        return body
    try:
        return codec.decompress(body, MAX_UNPACKED_BYTES)
    except codec.CodecError as e:
        code = 413 if "unpacks to more" in str(e) else 400
        raise ApiError(code, f"the batch {e}" if code == 413 else f"the body is {e}") from e


def _decoded(body: bytes) -> Iterator[tuple[Frame, bytes | memoryview]]:
    """Every frame with its bytes, put together, one at a time: a whole batch in memory takes ten times its bytes.

    ApiError 400 with the reason when one is not as it should be.
    """
    number = 0
    try:
        reader = deltas.Reader()
        for number, (_, framed) in enumerate(codec.split(body), 1):
            if number > MAX_FRAMES:
                raise ApiError(413, f"a batch must be at most {MAX_FRAMES} frames")
            frame, raw = reader.read(framed)
            yield checked(frame), raw
            number += 1
    except codec.CodecError as e:
        code = 415 if isinstance(e, codec.UnknownVersionError) else 400
        raise ApiError(code, f"frame {number} of the batch: {e}") from e
