"""Ask the decisions service from Python: notebooks, scripts, tests.

    from herodotus_client import Client, explain_pod

    with Client("http://127.0.0.1:8000") as client:
        answer = client.ask(explain_pod("shop", "checkout-0"))
        print(answer["headline"])

Owns: the public names of the package. An answer is the document of `kubectl herodotus -o json`; its type is that of
`herodotus_answers`.

A name is imported when it is first used, because the plugin needs `api_paths` and `responses` alone: `client` imports
httpx, which takes longer than an answer.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herodotus_answers.brief import shorten
    from herodotus_client.client import AsyncClient, Client
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
    from herodotus_client.responses import ServiceError

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
    "shorten",
]


if not TYPE_CHECKING:  # which would take every name for one that is there

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from herodotus_answers import brief
        from herodotus_client import client, questions, responses

        return next(vars(module)[name] for module in (responses, client, questions, brief) if name in vars(module))


def __dir__() -> list[str]:
    return __all__
