"""A scheduler that answers questions about the whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from herodotus_answers.cluster_review import (
    BlockedPod,
    Capacity,
    ChangedNode,
    ClusterReviewStatus,
    Consolidation,
    EmptiedNode,
    KeepingPod,
    KeptNode,
    NodeAmounts,
    NodeCapacity,
    RemovedPod,
    ReviewedPlacement,
)
from herodotus_answers.node_groups import (
    EventReport,
    NodeEstimate,
    NodeGroup,
    NodeGroupCondition,
    NodeGroupRejection,
    NodeGroupReview,
    NodeGroupVerdict,
    NodeScaleDown,
    PodVerdicts,
    ScaleDown,
    ScaleDownBlocker,
)
from herodotus_endpoint.api.review_queue import CLUSTER_ANSWER
from herodotus_record import codec
from tests.builders import CLUSTER
from tests.endpoint.service import Service
from tests.support.answering_scheduler import polling
from tests.support.answers import a_status, fill

QUEUE = "/ingest/v1/reviews"
OURS = "herodotus-scheduler"
BUSY = "0/3 nodes are available: 3 Insufficient cpu."


def moved(namespace: str, name: str, **more: Any) -> ReviewedPlacement:
    return fill(
        ReviewedPlacement,
        **{"namespace": namespace, "name": name, "cause": "Drained", "fromNode": "worker-1", "node": "worker-2"} | more,
    )


def _condition(name: str) -> NodeGroupCondition:
    return fill(NodeGroupCondition, object=name, type="Ready", status="False", reason="R", message="a secret message")


def _verdicts(namespace: str, name: str) -> PodVerdicts:
    rejection = fill(
        NodeGroupRejection, plugin="NodeResourcesFit", reasons=["Insufficient cpu", "secret text"], zones=["a"]
    )
    verdict = fill(
        NodeGroupVerdict,
        group="spot",
        verdict="DoesNotFit",
        rejections=[rejection],
        change=f"lower the cpu request of {name}",
    )
    report = fill(EventReport, component="karpenter", reason="Nominated", message="a secret report", at="t", count=1)
    return fill(PodVerdicts, namespace=namespace, name=name, owner=f"Job/{name}", groups=[verdict], reports=[report])


STATUS = a_status(
    placements=[moved("shop", "web-1", owner="ReplicaSet/web"), moved("secret", "secret-1", owner="Job/secret")],
    pending=[moved("shop", "waits", victims=["shop/low", "secret/low"], reason=f"{BUSY} secret/low is on worker-1")],
    blocked=[
        fill(
            BlockedPod,
            namespace=ns,
            name=f"{ns}-b",
            node="worker-1",
            cause="Budget",
            message=f"budget {ns}",
            budget=f"{ns}-budget",
        )
        for ns in ("shop", "secret")
    ],
    ignored=[
        fill(
            RemovedPod,
            namespace="secret",
            name="secret-ds",
            node="worker-1",
            cause="DaemonSet",
            owner="DaemonSet/secret",
        )
    ],
    deleted=[fill(RemovedPod, namespace="shop", name="bare", node="worker-1", cause="NoController")],
    nodes=[
        fill(
            ChangedNode,
            name="worker-1",
            before=fill(NodeAmounts, pods=3, cpu=1, memory=2),
            after=None,
            schedulable=False,
        )
    ],
    capacity=fill(
        Capacity,
        fits=3,
        limited=False,
        message=f"{BUSY} secret",
        nodes=[fill(NodeCapacity, node="worker-1", fits=3, limitedBy="secret pod")],
        zones={"z1": 3},
    ),
    consolidation=fill(
        Consolidation,
        emptied=[fill(EmptiedNode, node="worker-2", pods=1, targets={"worker-1": 1})],
        kept=[
            fill(
                KeptNode,
                node="worker-3",
                pods=[
                    fill(KeepingPod, pod="shop/a", reason=BUSY),
                    *(fill(KeepingPod, pod=f"secret/{name}", reason="secret") for name in "bc"),
                ],
            )
        ],
    ),
    nodeGroups=fill(
        NodeGroupReview,
        groups=[
            fill(
                NodeGroup,
                name="spot",
                source="NodePool",
                nodes=1,
                size=1,
                shape="Known",
                conditions=[_condition("NodePool/spot")],
            )
        ],
        pods=[_verdicts("shop", "waits"), _verdicts("secret", "secret-2")],
        estimates=[fill(NodeEstimate, group="spot", nodes=2, pods=3, onPresentNodes=0, left=0, zones={"a": 2})],
        ungrouped=4,
        conditions=[_condition("cluster-autoscaler")],
    ),
    scaleDown=fill(
        ScaleDown,
        nodes=[
            fill(
                NodeScaleDown,
                node="worker-1",
                group="spot",
                pods=2,
                blockers=[
                    fill(ScaleDownBlocker, cause="MinSize", message="node group spot has size 1 of at least 1"),
                    fill(
                        ScaleDownBlocker,
                        cause="FitsNowhere",
                        message="fits on no other node",
                        reason=f"{BUSY} secret/low is there",
                        pod="shop/waits",
                    ),
                    fill(ScaleDownBlocker, cause="Budget", message="budget secret", pod="secret/secret-2"),
                ],
            )
        ],
    ),
    notes=["a secret note"],
)


class ClusterAnsweringScheduler:
    """Takes questions about the cluster and answers them in a thread."""

    def __init__(self, service: Service, status: ClusterReviewStatus = STATUS) -> None:
        self.service, self.status = service, status
        self.asked: list[dict[str, Any]] = []

    def poll(self, **query: Any) -> Any:
        query = {"cluster": CLUSTER, "scheduler": [OURS], "kind": ["PlacementReview", "ClusterReview"]} | query
        return self.service.client.application.test_client().get(QUEUE, query_string=query)

    def send(self, id: str, body: bytes, type: str) -> Any:
        headers = {"Content-Type": type} | ({"Content-Encoding": "zstd"} if type == CLUSTER_ANSWER else {})
        client = self.service.client.application.test_client()
        return client.post(f"{QUEUE}/{id}", query_string={"cluster": CLUSTER}, data=body, headers=headers)

    def answer(self, question: dict[str, Any]) -> None:
        self.send(question["id"], codec.compress(msgspec.json.encode(self.status)), CLUSTER_ANSWER)

    @contextmanager
    def working(self, work: Callable[[dict[str, Any]], Any] | None = None) -> Iterator[None]:
        def take(question: dict[str, Any]) -> None:
            self.asked.append(question)
            (work or self.answer)(question)

        with polling(self.poll, take):
            yield
