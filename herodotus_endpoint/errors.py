"""The error response of every route and every failure: a Kubernetes `Status`.

Owns: the response, and how exceptions become one. Does not own: which conditions are errors.

Invariant: every response with a code of 400 or above has this body, and none shows a traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from herodotus_endpoint.store import DamagedError, StoreFullError, StoreUnavailableError
from herodotus_record.pruned import PrunedError

RETRY_AFTER_S: Final = 1  # a batch takes milliseconds, a pruning step tens of them; a full disk does not care

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
    507: "InsufficientStorage",
}
_log: Final = logging.getLogger(__name__)


class StatusError(Exception):
    """An error response: code, message, reason and details."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason or _REASONS.get(code, "Unknown")
        self.details = dict(details or {})
        self.headers = dict(headers or {})


def retry_later(code: int, message: str) -> StatusError:
    """Return an error with a Retry-After header, for a failure that is likely to pass."""
    return StatusError(
        code,
        message,
        details={"retryAfterSeconds": RETRY_AFTER_S},
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )


def json_response(
    document: object,
    code: int = 200,
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
) -> Response:
    """Return a response with compact JSON that keeps the document's key order."""
    return Response(msgspec.json.encode(document), code, headers, content_type=content_type)


def install_error_handlers(app: Flask) -> None:
    """Make the app answer every failure with a Status."""
    app.register_error_handler(StatusError, _envelope)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(PrunedError, _pruned)
    app.register_error_handler(StoreUnavailableError, _unavailable)
    app.register_error_handler(DamagedError, _damaged)
    app.register_error_handler(Exception, _unexpected)


def status_body(code: int, message: str) -> bytes:
    """Return the Status, as bytes, of a request that the server refuses before the app sees it."""
    details = {"retryAfterSeconds": RETRY_AFTER_S} if code in (429, 503) else None
    return msgspec.json.encode(_status(StatusError(code, message, details=details)))


def _status(error: StatusError) -> dict[str, Any]:
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


def _envelope(error: StatusError) -> Response:
    return json_response(_status(error), error.code, error.headers)


def _http(error: HTTPException) -> Response:
    """Return the Status of an error that Flask raises: an unknown route or method, an incomplete body."""
    code = error.code or 500
    allowed = [("Allow", ", ".join(sorted(getattr(error, "valid_methods", None) or [])))] if code == 405 else []
    message = "the server could not find the requested resource" if code == 404 else error.description or error.name
    return _envelope(StatusError(code, message, headers=dict(allowed)))


def _pruned(error: PrunedError) -> Response:
    return _envelope(StatusError(410, str(error)))


def _unavailable(error: StoreUnavailableError) -> Response:
    _log.warning("the database refused: %s", error)
    code = 507 if isinstance(error, StoreFullError) else 503
    return _envelope(retry_later(code, f"the database cannot do this now: {error}"))


def _damaged(error: DamagedError) -> Response:
    _log.error("%s; `python -m herodotus_endpoint check` lists all damage", error)
    return _envelope(StatusError(500, str(error)))


def _unexpected(error: Exception) -> Response:
    _log.exception("unexpected error", exc_info=error)
    return _envelope(StatusError(500, "an unexpected error; the service's log has it"))
