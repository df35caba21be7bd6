"""Authentication and authorization of requests to the HTTPS port, both delegated to the API server.

Invariant: fail closed. A token that cannot be checked is 401, a right that cannot be checked is 500, and a client
without credentials is `system:anonymous`. The options are those of kube-scheduler; headers of a front proxy are not
accepted (docs/parity.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from herodotus_kube.delegated_auth import ReviewCache, UrlRight, UserInfo, parse_bearer_token
from herodotus_kube.http import ApiError, ApiServer
from herodotus_record import klog
from herodotus_serving.messages import Request
from scheduler.serving.http import HttpStatusError

ALWAYS_ALLOWED_PATHS: Final = ("/healthz", "/readyz", "/livez")
ANONYMOUS: Final = UserInfo("system:anonymous", ("system:unauthenticated",))


class RequestAuthorizer:
    """Authenticates and authorizes requests, with the API server's reviews of the last seconds. Thread-safe."""

    def __init__(
        self,
        api: ApiServer,
        always_allowed: Sequence[str] = ALWAYS_ALLOWED_PATHS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare reviews by `api`. `always_allowed` lists paths that need no authorization.

        A path that ends with `*` is a prefix.
        """
        self._reviews = ReviewCache(api, clock)
        self._always_allowed = tuple(always_allowed)

    def check(self, request: Request) -> UserInfo:
        """Return the user of a request, or raise HttpStatusError if the request must be refused.

        The status is 401 without a valid identity, 403 if the user may not use the path, and 500 if that cannot be
        checked.
        """
        user = self._authenticate(request)
        path = request.head.path
        if not self._is_always_allowed(path):
            self._authorize(user, UrlRight(path, request.head.method.lower()))
        return user

    def _authenticate(self, request: Request) -> UserInfo:
        if request.subject:
            return parse_certificate_user(cast("dict[str, Any]", request.subject))
        token = parse_bearer_token(request.head.header("authorization"))
        if not token:
            return ANONYMOUS
        try:
            user = self._reviews.authenticate_token(token)
        except ApiError as e:
            klog.error(e, "Unable to authenticate the request", path=request.head.path)
            raise _unauthorized() from e
        if user is None:
            raise _unauthorized()
        return replace(user, groups=_with_authenticated(user.groups))

    def _authorize(self, user: UserInfo, right: UrlRight) -> None:
        try:
            is_allowed, reason = self._reviews.authorize(user, right)
        except ApiError as e:
            klog.error(e, "Failed to make webhook authorizer request", path=right.path)
            raise HttpStatusError(500, "InternalError", f'Internal Server Error: "{right.path}": {e}') from e
        if not is_allowed:
            because = f": {reason}" if reason else ""
            raise HttpStatusError(403, "Forbidden", f'forbidden: User "{user.name}" cannot {right}{because}')

    def _is_always_allowed(self, path: str) -> bool:
        return any(
            path.startswith(allowed[:-1]) if allowed.endswith("*") else path == allowed
            for allowed in self._always_allowed
        )


def parse_certificate_user(peer: dict[str, Any]) -> UserInfo:
    """Return the user that a verified client certificate names: CN is the name, and each O a group.

    `peer` is the result of `SSLSocket.getpeercert`. Raise HttpStatusError 401 if there is no CN.
    """
    subject = [pair for part in peer.get("subject", ()) for pair in part]
    name = next((value for key, value in subject if key == "commonName"), "")
    if not name:
        raise _unauthorized()
    return UserInfo(name, _with_authenticated(value for key, value in subject if key == "organizationName"))


def _with_authenticated(groups: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*groups, "system:authenticated"]))


def _unauthorized() -> HttpStatusError:
    return HttpStatusError(401, "Unauthorized", "Unauthorized")
