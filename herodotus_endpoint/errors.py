"""Error responses: every failure of every route is answered with a Kubernetes `Status` object.

Owns: the Status object, and the conversion of exceptions to it. Does not own: which requests fail.

Invariant: a response with a code of 400 or above has a Status as its body, and contains no traceback and no text of
the database driver.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Final

import msgspec
from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from herodotus_answers.pruned import PrunedError
from herodotus_answers.schema import list_types
from herodotus_answers.service import Status, StatusDetails
from herodotus_endpoint.archive import ArchiveBusyError, ArchiveError, ArchiveTimeoutError
from herodotus_endpoint.store import DamagedError, StoreFullError, StoreUnavailableError
from herodotus_endpoint.store.read_budget import BudgetExceededError, QuestionAbandonedError
from herodotus_record.typed_decoding import convert

RETRY_AFTER_S: Final = 1  # storing a batch takes milliseconds, a pruning step tens of them
CLIENT_DISCONNECTED: Final = 499  # not assigned by HTTP; used for this by other servers

_REASONS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    414: "RequestURITooLong",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
    507: "InsufficientStorage",
}
_log: Final = logging.getLogger(__name__)


class StatusError(Exception):
    """An exception that makes a route answer with this HTTP status code and a Kubernetes Status as body."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str = "",
        details: StatusDetails | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason or _REASONS.get(code, "Unknown")
        self.details: StatusDetails = details or {}
        self.headers = dict(headers or {})


def retry_later(code: int, message: str, after_s: float = RETRY_AFTER_S) -> StatusError:
    """Return an error whose Retry-After header tells the client to try again after `after_s` seconds, rounded up."""
    seconds = math.ceil(after_s)
    return StatusError(code, message, details={"retryAfterSeconds": seconds}, headers={"Retry-After": str(seconds)})


def json_response(
    document: object,
    code: int = 200,
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
) -> Response:
    """Return a response whose body is the document as compact JSON, with its keys in the document's order.

    If a type is declared for the document's `kind`, fields that it does not declare are dropped, and a value of another
    type raises msgspec.ValidationError. Other documents are written as they are.
    """
    declared = list_types().get(document.get("kind", "")) if isinstance(document, dict) else None
    shown = document if declared is None else convert(document, declared)
    return Response(msgspec.json.encode(shown), code, headers, content_type=content_type)


def install_error_handlers(app: Flask) -> None:
    """Make the app answer every exception with a Kubernetes Status object."""
    app.register_error_handler(StatusError, _respond)
    app.register_error_handler(HTTPException, _respond_to_http_error)
    app.register_error_handler(PrunedError, _respond_to_pruned)
    app.register_error_handler(StoreUnavailableError, _respond_to_unavailable)
    app.register_error_handler(BudgetExceededError, _respond_to_exceeded_budget)
    app.register_error_handler(QuestionAbandonedError, _respond_to_disconnection)
    app.register_error_handler(DamagedError, _respond_to_damaged)
    app.register_error_handler(ArchiveError, _respond_to_archive)
    app.register_error_handler(Exception, _respond_to_unexpected)


def status_body(code: int, message: str) -> bytes:
    """Return a Kubernetes Status as JSON, for a request that the server refuses before the Flask app sees it."""
    details: StatusDetails = {"retryAfterSeconds": RETRY_AFTER_S} if code in (429, 503) else {}
    return msgspec.json.encode(_status(StatusError(code, message, details=details)))


def _status(error: StatusError) -> Status:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "details": error.details,
        "code": error.code,
    }


def _respond(error: StatusError) -> Response:
    return json_response(_status(error), error.code, error.headers)


def _respond_to_http_error(error: HTTPException) -> Response:
    """Return the response to an error that Flask raises, such as an unknown route or a wrong method."""
    code = error.code or 500
    allowed = [("Allow", ", ".join(sorted(getattr(error, "valid_methods", None) or [])))] if code == 405 else []
    message = "the server could not find the requested resource" if code == 404 else error.description or error.name
    return _respond(StatusError(code, message, headers=dict(allowed)))


def _respond_to_pruned(error: PrunedError) -> Response:
    return _respond(StatusError(410, str(error)))


def _respond_to_unavailable(error: StoreUnavailableError) -> Response:
    _log.warning("database unavailable: %s", error)
    if isinstance(error, StoreFullError):
        return _respond(retry_later(507, "the database is full; the service's log has the details"))
    return _respond(retry_later(503, "the database is unavailable; the service's log has the details"))


def _respond_to_exceeded_budget(error: BudgetExceededError) -> Response:
    """Return status 504, as kube-apiserver does for a request that takes too long, because clients do not retry it."""
    return _respond(StatusError(504, str(error)))


def _respond_to_disconnection(error: QuestionAbandonedError) -> Response:
    return _respond(StatusError(CLIENT_DISCONNECTED, str(error)))  # nobody reads it; it appears in metrics


def _respond_to_damaged(error: DamagedError) -> Response:
    _log.error("%s; `python -m herodotus_endpoint check` lists all damage", error)
    return _respond(StatusError(500, str(error)))


def _respond_to_archive(error: ArchiveError) -> Response:
    if isinstance(error, ArchiveBusyError):
        return _respond(retry_later(429, str(error)))
    if isinstance(error, ArchiveTimeoutError):
        return _respond(retry_later(503, str(error)))
    _log.warning("archive unavailable: %s", error)
    return _respond(retry_later(503, "the archive is unavailable; the service's log has the details"))


def _respond_to_unexpected(error: Exception) -> Response:
    _log.exception("unexpected error", exc_info=error)
    return _respond(StatusError(500, "unexpected error; the service's log has the details"))
