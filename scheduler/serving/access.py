"""Authentication and authorization of requests to the HTTPS port, both delegated to the API server.

Invariant: fail closed. A token that cannot be checked is 401, a right that cannot be checked is 500, and a client
without credentials is `system:anonymous`. Source: k8s.io/apiserver delegating authentication and authorization, with
the options of kube-scheduler; headers of a front proxy are not accepted (docs/parity.md).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from herodotus_kube.http import ApiError, ApiServer, Json
from herodotus_record import klog
from herodotus_serving.ttl_cache import TTLCache
from scheduler.serving.http import HttpStatusError, StatusRequest

ALWAYS_ALLOWED_PATHS: Final = ("/healthz", "/readyz", "/livez")
PRIVILEGED: Final = "system:masters"  # has every right by law: not asked about, so that it works without an API server


@dataclass(frozen=True)
class AuthenticatedUser:
    """The user who sends a request, with the fields of a TokenReview: name, groups, UID and extra."""

    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ANONYMOUS: Final = AuthenticatedUser("system:anonymous", ("system:unauthenticated",))


class RequestAuthorizer:
    """Authenticates and authorizes requests, and caches the API server's reviews for a few seconds. Thread-safe."""

    def __init__(
        self,
        api: ApiServer,
        always_allowed: Sequence[str] = ALWAYS_ALLOWED_PATHS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare reviews by `api`. `always_allowed` lists paths that need no authorization.

        A path that ends with `*` is a prefix.
        """
        self._api = api
        self._always_allowed = tuple(always_allowed)
        self._users: TTLCache[AuthenticatedUser | None] = TTLCache(clock)
        self._rights: TTLCache[tuple[bool, str]] = TTLCache(clock)

    def check(self, request: StatusRequest) -> AuthenticatedUser:
        """Return the user of a request, or raise HttpStatusError if the request must be refused.

        The status is 401 without a valid identity, 403 if the user may not use the path, and 500 if that cannot be
        checked.
        """
        user = self._authenticate(request)
        if not self._is_always_allowed(request.path) and PRIVILEGED not in user.groups:
            self._authorize(user, request.method.lower(), request.path)
        return user

    def _authenticate(self, request: StatusRequest) -> AuthenticatedUser:
        if request.peer is not None:
            return parse_certificate_user(request.peer)
        scheme, _, token = request.authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        try:
            user = self._users.get(_digest(token.strip()), lambda: self._review_token(token.strip()))
        except ApiError as e:
            klog.error(e, "Unable to authenticate the request", path=request.path)
            raise _unauthorized() from e
        if user is None:
            raise _unauthorized()
        return user

    def _review_token(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a bearer token, or None if the API server does not accept the token."""
        status = self._review("authentication.k8s.io", "TokenReview", {"token": token})
        if not status.get("authenticated"):
            return None
        user = status.get("user") or {}
        extra = sorted((key, tuple(values)) for key, values in (user.get("extra") or {}).items())
        groups = _with_authenticated(user.get("groups") or ())
        return AuthenticatedUser(str(user.get("username", "")), groups, str(user.get("uid", "")), tuple(extra))

    def _authorize(self, user: AuthenticatedUser, verb: str, path: str) -> None:
        try:
            allowed, reason = self._rights.get((user, verb, path), lambda: self._review_access(user, verb, path))
        except ApiError as e:
            klog.error(e, "Failed to make webhook authorizer request", path=path)
            raise HttpStatusError(500, "InternalError", f'Internal Server Error: "{path}": {e}') from e
        if not allowed:
            because = f": {reason}" if reason else ""
            raise HttpStatusError(
                403, "Forbidden", f'forbidden: User "{user.name}" cannot {verb} path "{path}"{because}'
            )

    def _review_access(self, user: AuthenticatedUser, verb: str, path: str) -> tuple[bool, str]:
        spec: Json = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        status = self._review("authorization.k8s.io", "SubjectAccessReview", spec)
        return bool(status.get("allowed")) and not status.get("denied"), str(status.get("reason") or "")

    def _review(self, group: str, kind: str, spec: Json) -> Json:
        """Post a TokenReview or SubjectAccessReview to the API server and return its status.

        Raise ApiError if the request fails or the response is not such a review.
        """
        body: Json = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        answer = self._api.post(f"/apis/{group}/v1/{kind.lower()}s", body)
        try:
            status = json.loads(answer)["status"]
        except (ValueError, KeyError, TypeError) as e:
            raise ApiError(0, "NoAnswer", f"not a {kind}") from e
        if not isinstance(status, dict):
            raise ApiError(0, "NoAnswer", f"not a {kind}")
        return status

    def _is_always_allowed(self, path: str) -> bool:
        return any(
            path.startswith(allowed[:-1]) if allowed.endswith("*") else path == allowed
            for allowed in self._always_allowed
        )


def parse_certificate_user(peer: dict[str, Any]) -> AuthenticatedUser:
    """Return the user that a verified client certificate names: CN is the name, and each O a group.

    `peer` is the result of `SSLSocket.getpeercert`. Raise HttpStatusError 401 if there is no CN.
    """
    subject = [pair for part in peer.get("subject", ()) for pair in part]
    name = next((value for key, value in subject if key == "commonName"), "")
    if not name:
        raise _unauthorized()
    return AuthenticatedUser(name, _with_authenticated(value for key, value in subject if key == "organizationName"))


def _with_authenticated(groups: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*map(str, groups), "system:authenticated"]))


def _digest(token: str) -> bytes:
    """Return a hash of a token as its cache key, so that the cache does not hold the token itself."""
    return hashlib.sha256(token.encode()).digest()


def _unauthorized() -> HttpStatusError:
    return HttpStatusError(401, "Unauthorized", "Unauthorized")
