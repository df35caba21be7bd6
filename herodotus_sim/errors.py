"""Owns: every refusal, as kube-apiserver words it: code, reason, message, details.

Does not own: when to refuse. Invariant: every error that leaves the server is a `Status` object made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herodotus_sim.wire import Object

if TYPE_CHECKING:
    from herodotus_sim.kinds import Kind


class ApiError(Exception):
    """A refusal with the Status that says why."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> Object:
        """The `Status` object of this refusal."""
        out: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        out["message"] = self.message
        if self.reason:
            out["reason"] = self.reason
        if self.details is not None:
            out["details"] = self.details
        out["code"] = self.code
        return out


def success(code: int = 200, details: Object | None = None) -> Object:
    """The `Status` object of a request that has no object to return."""
    out: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        out["details"] = details
    if code != 200:
        out["code"] = code
    return out


def _details(kind: Kind, name: str, **more: Any) -> Object:
    group = {"group": kind.group} if kind.group else {}
    return {"name": name, **group, "kind": kind.plural, **more}


def unknown_path() -> ApiError:
    """No such resource in this server."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> ApiError:
    """The resource exists and does not know this verb."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def not_found(kind: Kind, name: str) -> ApiError:
    """No such object."""
    return ApiError(404, "NotFound", f'{kind.resource} "{name}" not found', _details(kind, name))


def already_exists(kind: Kind, name: str) -> ApiError:
    """An object of this name is there."""
    return ApiError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', _details(kind, name))


def conflict(kind: Kind, name: str, why: str, subresource: str = "") -> ApiError:
    """The object is not as the caller thought."""
    suffix = f"/{subresource}" if subresource else ""
    details = _details(kind, name) | {"kind": kind.plural + suffix}
    resource = kind.plural + suffix + (f".{kind.group}" if kind.group else "")
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": {why}', details)


def stale(kind: Kind, name: str) -> ApiError:
    """An update from an old version."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def wrong_uid(kind: Kind, namespace: str, name: str, wanted: str, found: str) -> ApiError:
    """The caller means another object that had this name."""
    where = "/".join(part for part in ("/registry", kind.plural, namespace, name) if part)
    why = (
        f"StorageError: invalid object, Code: 4, Key: {where}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
    return conflict(kind, name, why)


def bad_request(message: str) -> ApiError:
    """The request cannot be read."""
    return ApiError(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, why: str) -> ApiError:
    """Admission says no."""
    return ApiError(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', _details(kind, name))


def invalid(kind: Kind, name: str, field: str, reason: str, message: str) -> ApiError:
    """One field fails validation. `reason` is a cause's type, such as FieldValueRequired."""
    group = {"group": kind.group} if kind.group else {}
    cause = {"reason": reason, "message": message, "field": field}
    details = {"name": name, **group, "kind": kind.kind, "causes": [cause]}
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {field}: {message}', details)


def unprocessable(why: str) -> ApiError:
    """A patch that cannot be applied."""
    cause = {"reason": "UnexpectedServerResponse", "message": why}
    message = "the server rejected our request due to an error in our request"
    return ApiError(422, "Invalid", message, {"causes": [cause]})


def expired(message: str) -> ApiError:
    """The version asked for is no longer kept."""
    return ApiError(410, "Expired", message)


def too_large_version(asked: int, current: int) -> ApiError:
    """The version asked for is yet to come."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return ApiError(504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {current}", details)


def unsupported_media_type(accepted: tuple[str, ...]) -> ApiError:
    """The body is in a format that is not read."""
    message = "the body of the request was in an unknown format - accepted media types include: "
    return ApiError(415, "UnsupportedMediaType", message + ", ".join(accepted))


def not_acceptable(accepted: tuple[str, ...]) -> ApiError:
    """No format that the caller takes can be written."""
    message = "only the following media types are accepted: "
    return ApiError(406, "NotAcceptable", message + ", ".join(accepted))


def too_large(limit: int) -> ApiError:
    """The body is over the limit."""
    message = f"Request entity too large: limit is {limit}"
    return ApiError(413, "RequestEntityTooLarge", message)


def too_many(message: str, retry_after_s: int = 1, details: Object | None = None) -> ApiError:
    """A limit is reached; the caller may come back."""
    merged = {"retryAfterSeconds": retry_after_s} if details is None else details
    return ApiError(429, "TooManyRequests", message, merged)


def unavailable(message: str) -> ApiError:
    """What is behind the server does not answer."""
    return ApiError(503, "ServiceUnavailable", message)


def internal(message: str) -> ApiError:
    """A fault of the simulator itself."""
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")
