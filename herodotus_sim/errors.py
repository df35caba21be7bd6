"""Every error response in kube-apiserver's wording: code, reason, message, details.

Does not own: when to reject a request. Invariant: every error response is a `Status` object from this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herodotus_sim.wire import Object

if TYPE_CHECKING:
    from herodotus_sim.kinds import ApiResource


class StatusError(Exception):
    """The rejection of a request, with the HTTP status code, reason, message and details of the error response."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> Object:
        """Return the `Status` object of this error."""
        out: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        out["message"] = self.message
        if self.reason:
            out["reason"] = self.reason
        if self.details is not None:
            out["details"] = self.details
        out["code"] = self.code
        return out


def success(code: int = 200, details: Object | None = None) -> Object:
    """Return the `Status` object for a successful request that has no other object to return."""
    out: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        out["details"] = details
    if code != 200:
        out["code"] = code
    return out


def _details(kind: ApiResource, name: str, **more: Any) -> Object:
    group = {"group": kind.group} if kind.group else {}
    return {"name": name, **group, "kind": kind.plural, **more}


def unknown_path() -> StatusError:
    """Return the error 404 for a path that the server does not have."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> StatusError:
    """Return the error 405 for a resource that does not support the request's verb."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def not_found(kind: ApiResource, name: str) -> StatusError:
    """Return the error 404 for an object that does not exist."""
    return StatusError(404, "NotFound", f'{kind.resource} "{name}" not found', _details(kind, name))


def already_exists(kind: ApiResource, name: str) -> StatusError:
    """Return the error 409 for the creation of an object whose name exists."""
    return StatusError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', _details(kind, name))


def conflict(kind: ApiResource, name: str, why: str, subresource: str = "") -> StatusError:
    """Return the error 409 for an operation that the object's state does not allow; `why` ends the message."""
    suffix = f"/{subresource}" if subresource else ""
    details = _details(kind, name) | {"kind": kind.plural + suffix}
    resource = kind.plural + suffix + (f".{kind.group}" if kind.group else "")
    return StatusError(409, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": {why}', details)


def stale_version(kind: ApiResource, name: str) -> StatusError:
    """Return the error 409 for an update with an outdated resource version."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def wrong_uid(kind: ApiResource, namespace: str, name: str, wanted: str, found: str) -> StatusError:
    """Return the error 409 for a request with the UID `wanted` for an object that has the UID `found`."""
    key = "/".join(part for part in ("/registry", kind.plural, namespace, name) if part)
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
    return conflict(kind, name, why)


def bad_request(message: str) -> StatusError:
    """Return the error 400 for an invalid request."""
    return StatusError(400, "BadRequest", message)


def forbidden(kind: ApiResource, name: str, why: str) -> StatusError:
    """Return the error 403 for an object that admission rejects; `why` ends the message."""
    return StatusError(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', _details(kind, name))


def invalid(kind: ApiResource, name: str, field: str, reason: str, message: str) -> StatusError:
    """Return the error 422 for an object with an invalid field; `reason` is a cause type such as FieldValueRequired."""
    group = {"group": kind.group} if kind.group else {}
    cause = {"reason": reason, "message": message, "field": field}
    details = {"name": name, **group, "kind": kind.kind, "causes": [cause]}
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {field}: {message}', details)


def unprocessable(why: str) -> StatusError:
    """Return the error 422 for a patch that cannot be applied; `why` is the cause's message."""
    cause = {"reason": "UnexpectedServerResponse", "message": why}
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, {"causes": [cause]})


def expired(message: str) -> StatusError:
    """Return the error 410 for a resource version that is no longer available."""
    return StatusError(410, "Expired", message)


def too_large_version(requested: int, current: int) -> StatusError:
    """Return the error 504 for a requested resource version that is newer than the current one."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return StatusError(504, "Timeout", f"Timeout: Too large resource version: {requested}, current: {current}", details)


def unsupported_media_type(accepted: tuple[str, ...]) -> StatusError:
    """Return the error 415 for a body whose media type is not among `accepted`."""
    message = "the body of the request was in an unknown format - accepted media types include: "
    return StatusError(415, "UnsupportedMediaType", message + ", ".join(accepted))


def not_acceptable(accepted: tuple[str, ...]) -> StatusError:
    """Return the error 406 for a request that accepts none of the media types that the server offers."""
    message = "only the following media types are accepted: "
    return StatusError(406, "NotAcceptable", message + ", ".join(accepted))


def too_large(limit: int) -> StatusError:
    """Return the error 413 for a body that is larger than `limit` bytes."""
    message = f"Request entity too large: limit is {limit}"
    return StatusError(413, "RequestEntityTooLarge", message)


def too_many(message: str, retry_after_s: int = 1, details: Object | None = None) -> StatusError:
    """Return the error 429 for a request above a limit; the client may retry after `retry_after_s`."""
    merged = {"retryAfterSeconds": retry_after_s} if details is None else details
    return StatusError(429, "TooManyRequests", message, merged)


def unavailable(message: str) -> StatusError:
    """Return the error 503 for a service behind the server that does not answer."""
    return StatusError(503, "ServiceUnavailable", message)


def internal(message: str) -> StatusError:
    """Return the error 500 for a failure of the simulator itself."""
    return StatusError(500, "InternalError", f"Internal error occurred: {message}")
