"""The one error envelope: a Kubernetes `Status`, for every route and every way to fail.

Owns: the envelope, how exceptions become it. Does not own: what is an error.

Invariant: no answer with a code of 400 or above has another body, and none shows a traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from flask import Flask, Response
from gunicorn.http.errors import (  # type: ignore[import-untyped]
    ExpectationFailed,
    LimitRequestHeaders,
    LimitRequestLine,
    UnsupportedTransferCoding,
)
from werkzeug.exceptions import HTTPException

from herodotus_endpoint.store import StoreFullError, StoreUnavailableError
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
_UNREADABLE: Final[Mapping[type[Exception], int]] = {  # otherwise 400
    LimitRequestLine: 414,
    LimitRequestHeaders: 431,
    ExpectationFailed: 417,
    UnsupportedTransferCoding: 501,
}
_log: Final = logging.getLogger(__name__)


class ApiError(Exception):
    """An answer that is an error: code, message, and what helps with it."""

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


def busy(code: int, message: str) -> ApiError:
    """The service cannot do it now and says when to come again."""
    return ApiError(
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
    """Compact JSON in the document's own order."""
    return Response(msgspec.json.encode(document), code, headers, content_type=content_type)


def install(app: Flask) -> None:
    """Make every failure of the app an envelope."""
    app.register_error_handler(ApiError, _envelope)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(PrunedError, _pruned)
    app.register_error_handler(StoreUnavailableError, _unavailable)
    app.register_error_handler(Exception, _unexpected)


def unreadable(error: Exception) -> bytes:
    """What is sent where gunicorn could not read a request, of which the app then knows nothing."""
    code = next((code for kind, code in _UNREADABLE.items() if isinstance(error, kind)), 400)
    body = msgspec.json.encode(_status(ApiError(code, f"not a request that can be read: {error}")))
    head = (
        f"HTTP/1.1 {code} {HTTPStatus(code).phrase}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*head, "", "")).encode() + body


def _status(error: ApiError) -> dict[str, Any]:
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


def _envelope(error: ApiError) -> Response:
    return json_response(_status(error), error.code, error.headers)


def _http(error: HTTPException) -> Response:
    """What Flask refuses by itself: unknown routes, methods, bodies that break off."""
    code = error.code or 500
    allowed = [("Allow", ", ".join(sorted(getattr(error, "valid_methods", None) or [])))] if code == 405 else []
    message = "the server could not find the requested resource" if code == 404 else error.description or error.name
    return _envelope(ApiError(code, message, headers=dict(allowed)))


def _pruned(error: PrunedError) -> Response:
    return _envelope(ApiError(410, str(error)))


def _unavailable(error: StoreUnavailableError) -> Response:
    _log.warning("the database refused: %s", error)
    code = 507 if isinstance(error, StoreFullError) else 503
    return _envelope(busy(code, f"the database cannot do this now: {error}"))


def _unexpected(error: Exception) -> Response:
    _log.exception("unexpected error", exc_info=error)
    return _envelope(ApiError(500, "an unexpected error; the service's log has it"))
