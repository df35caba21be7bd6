"""An API server that reviews: whose a token is, who may what, and how its front proxy is known."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from herodotus_endpoint.access.authentication import ReaderAuthenticator, SenderAuthenticator
from herodotus_kube.credentials import Credentials
from herodotus_kube.delegated_auth import FrontProxy, ReviewCache
from herodotus_kube.http import ApiServer

Json = dict[str, Any]
SENDER = "system:serviceaccount:herodotus:herodotus-scheduler"


@dataclass
class Reviewer:
    """`tokens`: token -> (user, audience). `allowed`: (user, verb, resource or path, namespace); namespace "*": all."""

    tokens: dict[str, tuple[str, str]] = field(default_factory=dict)
    allowed: set[tuple[str, str, str, str]] = field(default_factory=set)
    answer: httpx.Response | Exception | None = None  # instead of a review
    asked: list[Json] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.read())
        self.asked.append(body)
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        review = self._token if body["kind"] == "TokenReview" else self._access
        return httpx.Response(201, json={**body, "status": review(body["spec"])})

    def _token(self, spec: Json) -> Json:
        name, audience = self.tokens.get(spec["token"], ("", ""))
        meant = [a for a in spec.get("audiences", [""]) if a == audience]
        if not name or not meant:  # as an API server does for a token that is expired, or meant for another
            return {"authenticated": False, "error": "invalid bearer token"}
        return {"authenticated": True, "user": {"username": name}, "audiences": [a for a in meant if a]}

    def _access(self, spec: Json) -> Json:
        url = spec.get("nonResourceAttributes")
        its = spec.get("resourceAttributes") or {}
        what = (url["verb"], url["path"], "") if url else (its["verb"], its["resource"], its["namespace"])
        verb, resource, namespace = what
        rights = {(spec["user"], verb, resource, n) for n in {namespace, "*"}}
        return {"allowed": bool(rights & self.allowed)}

    def api(self) -> ApiServer:
        return ApiServer(Credentials("https://kubernetes.default.svc", None, dict), transport=httpx.MockTransport(self))

    def access(self, front_proxy: FrontProxy | None = None, clock: Any = lambda: 0.0) -> ReaderAuthenticator:
        return ReaderAuthenticator(ReviewCache(self.api(), clock), lambda: front_proxy or FrontProxy())

    def senders(self, clusters: dict[str, str], authority: str = "") -> SenderAuthenticator:
        rights = None if authority else ReviewCache(self.api(), lambda: 0.0)
        return SenderAuthenticator(clusters, rights, "herodotus-endpoint", lambda: authority)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
