"""Ask the decisions service from Python: notebooks, scripts, tests.

    from herodotus_client import Client, explain_pod

    with Client("http://127.0.0.1:8000") as client:
        answer = client.ask(explain_pod("shop", "checkout-0"))
        print(answer["headline"])

Owns: the public names of the package. An answer is the document of `kubectl herodotus -o json`, typed in `answers`.
"""

from herodotus_client.client import AsyncClient, Client, ServiceError
from herodotus_client.questions import (
    Question,
    agreements,
    balance,
    compare_nodes,
    compare_pods,
    explain_node,
    explain_pod,
    explain_pod_group,
    explain_workload,
    list_clusters,
    list_decisions,
    list_pending_pods,
    list_pod_attempts,
    list_preemptions,
    read_decision,
    review_cluster,
    review_placement,
)

__all__ = [
    "AsyncClient",
    "Client",
    "Question",
    "ServiceError",
    "agreements",
    "balance",
    "compare_nodes",
    "compare_pods",
    "explain_node",
    "explain_pod",
    "explain_pod_group",
    "explain_workload",
    "list_clusters",
    "list_decisions",
    "list_pending_pods",
    "list_pod_attempts",
    "list_preemptions",
    "read_decision",
    "review_cluster",
    "review_placement",
]
