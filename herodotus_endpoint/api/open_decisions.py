"""The route that lists, for a scheduler, the decisions whose result an earlier scheduler process did not record.

Owns: the route. Does not own: authentication of senders (`ingest`), how the result is found (the scheduler reads the
pod), how it is stored (`store.late_outcomes`): it arrives as a frame like every record.
"""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response, request

from herodotus_endpoint import parameters
from herodotus_endpoint.api import review_queue
from herodotus_endpoint.errors import StatusError, json_response
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Store, late_outcomes

PATH: Final = "/ingest/v1/open-decisions"
MAX_ITEMS: Final = 500  # per answer: the scheduler requests the rest after these have their results


def blueprint(store: Store, settings: ServiceSettings) -> Blueprint:
    """Return the Flask blueprint of `GET /ingest/v1/open-decisions`, the list of decisions without a result."""
    routes = Blueprint("open_decisions", __name__)

    @routes.get(PATH, provide_automatic_options=False)
    def open_decisions() -> Response:
        cluster = review_queue.resolve_sender_cluster(settings, parameters.parse_name("cluster"))
        schedulers = [parameters.check_name(n, "scheduler") for n in request.args.getlist("scheduler")]
        if not schedulers:
            raise StatusError(400, "scheduler must be given")
        with store.snapshot() as connection:
            found = late_outcomes.find_open_decisions(
                connection,
                cluster,
                schedulers[: review_queue.MAX_SCHEDULERS],
                parameters.parse_name("exceptIncarnation"),
                MAX_ITEMS,
            )
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
                    for row in found
                ]
            }
        )

    return routes
