"""The route that lists, for a scheduler, the decisions whose result an earlier scheduler process did not record.

Owns: the route. Does not own: authentication of senders (`ingest`), how the result is found (the scheduler reads the
pod), how it is stored (`store.late_outcomes`): it arrives as a frame like every record.
"""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response

from herodotus_endpoint.api import review_queue
from herodotus_endpoint.errors import json_response
from herodotus_endpoint.parameters import NameParameter
from herodotus_endpoint.routing import Access, Answer, PoolKind, Route, build_blueprint, declare
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Store, late_outcomes

PATH: Final = "/ingest/v1/open-decisions"
MAX_ITEMS: Final = 500  # per answer: the scheduler requests the rest after these have their results

_EXCEPT_INCARNATION: Final = NameParameter("exceptIncarnation", "The scheduler process whose decisions are left out.")


def blueprint(store: Store, settings: ServiceSettings) -> Blueprint:
    """Return the Flask blueprint of `GET /ingest/v1/open-decisions`, the list of decisions without a result."""

    @declare(
        Route(
            "GET",
            PATH,
            "listOpenDecisions",
            "Decisions whose result an earlier scheduler process did not record.",
            right=Access.SENDER,
            parameters=(review_queue.SENDER_CLUSTER, review_queue.SCHEDULER, _EXCEPT_INCARNATION),
            answers=(Answer(description="Decisions of other incarnations whose result is not stored, oldest first."),),
            errors=review_queue.SENDER_ERRORS,
            pool=PoolKind.INGEST,
        )
    )
    def open_decisions() -> Response:
        cluster, schedulers = review_queue.resolve_sender_cluster(settings), review_queue.SCHEDULER.parse()
        incarnation = _EXCEPT_INCARNATION.parse()
        with store.snapshot() as connection:
            rows = late_outcomes.find_open_decisions(connection, cluster, schedulers, incarnation, MAX_ITEMS)
        return json_response(
            {
                "items": [
                    {
                        "incarnation": row["incarnation"],
                        "sequence": row["sequence"],
                        "id": row["decision_id"],
                        "namespace": row["namespace"],
                        "pod": row["pod"],
                        "podUID": row["pod_uid"],
                        "node": row["node"],
                        "startedUs": row["started_us"],
                    }
                    for row in rows
                ]
            }
        )

    return build_blueprint("open_decisions", (open_decisions,))
