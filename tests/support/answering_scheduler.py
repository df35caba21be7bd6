"""A scheduler that decides the reviews of a service, and the reviews."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from herodotus_record import codec
from herodotus_record.model import Candidate, Code, Frame, Preemption
from tests.builders import CLUSTER, INSUFFICIENT_CPU, a_decision, a_table, bound
from tests.endpoint.service import API, Service, rows

REVIEWS = f"{API}/namespaces/shop/placementreviews"
DESK = "/ingest/v1/reviews"
OURS = "herodotus-scheduler"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"schedulerName": OURS, "containers": [{"name": "c", "image": "i"}]},
}
NODES = ("worker-1", "worker-2", "worker-3")
FULL = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES}


def review(object: Any = POD, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "herodotus.dev/v1alpha1", "kind": "PlacementReview", "spec": {"object": object, **spec}}


def placed(name: str = "web", sequence: int = 2, namespace: str = "shop") -> list[Frame]:
    table = a_table(NODES)
    decision = a_decision(pod=name, namespace=namespace, sequence=sequence, points={"worker-2": {"ImageLocality": 9}})
    outcome = replace(bound(decision, table, status=Code.SKIP), phase="Review")
    return [rows(table), decision, outcome]


def stopped(name: str = "web") -> list[Frame]:
    victims = (Candidate("worker-1", ("shop/small", "ci/job-1"), 0),)
    decision = a_decision(pod=name, sequence=9, rejected=FULL)
    return [rows(a_table(NODES)), replace(decision, preemption=Preemption("worker-1", victims, False))]


def packed(*frames: Frame) -> bytes:
    return codec.compress(b"".join(map(codec.encode, frames)))


@dataclass
class AnsweringScheduler:
    """Takes what is asked and answers as it was told to, in a thread, as long as the test asks."""

    service: Service
    answer: Callable[[dict[str, Any]], tuple[bytes, str]]
    asked: list[dict[str, Any]] = field(default_factory=list)

    def poll(self, **query: Any) -> Any:
        query = {"cluster": CLUSTER, "scheduler": [OURS, "other"]} | query
        return self.service.client.application.test_client().get(DESK, query_string=query)

    def lay_down(self, id: str, body: bytes, type: str = codec.CONTENT_TYPE) -> Any:
        headers = {"Content-Type": type} | ({"Content-Encoding": "zstd"} if type == codec.CONTENT_TYPE else {})
        client = self.service.client.application.test_client()
        return client.post(f"{DESK}/{id}", query_string={"cluster": CLUSTER}, data=body, headers=headers)

    @contextmanager
    def working(self) -> Iterator[None]:
        def work(question: dict[str, Any]) -> None:
            self.asked.append(question)
            self.lay_down(question["id"], *self.answer(question))

        with polling(self.poll, work):
            yield


@contextmanager
def polling(poll: Callable[[], Any], work: Callable[[dict[str, Any]], Any]) -> Iterator[None]:
    """Take questions and call `work` with each, in a thread, while the block runs."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            found = poll()
            time.sleep(0.005)
            if found.status_code == 200:
                work(found.get_json())

    poll()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def answering(service: Service, *frames: Frame) -> AnsweringScheduler:
    return AnsweringScheduler(service, lambda _: (packed(*frames), codec.CONTENT_TYPE))


def ask(service: Service, document: Any = None, **options: Any) -> Any:
    return service.client.post(REVIEWS, json=review() if document is None else document, **options)
