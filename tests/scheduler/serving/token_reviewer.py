"""An API server that reviews tokens and rights."""

from __future__ import annotations

import json

import httpx

from tests.kube.servers import Json

ADA = {"username": "ada", "uid": "7", "groups": ["dev"], "extra": {"scopes": ["a", "b"]}}


class TokenReviewer:
    """An API server that knows one token, and says who may read /metrics."""

    def __init__(self) -> None:
        self.users: dict[str, Json] = {"good": ADA}
        self.allowed = {"ada"}
        self.answer: httpx.Response | Exception | None = None  # instead of a review
        self.asked: list[Json] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.read())
        self.asked.append(body)
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            assert request.url.path == "/apis/authentication.k8s.io/v1/tokenreviews"
            user = self.users.get(spec["token"])
            answer: Json = {"authenticated": True, "user": user} if user else {"error": "invalid"}
        else:
            assert request.url.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            answer = {"allowed": spec["user"] in self.allowed}
        return httpx.Response(201, json={**body, "status": answer})

    @property
    def kinds(self) -> list[str]:
        return [body["kind"] for body in self.asked]
