"""Declare the documents about the service: its clusters, their scheduler processes, its version, its errors.

Owns: the documents' shapes. Does not own: building them (`herodotus_endpoint`, which alone holds their values).
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from herodotus_answers.declare import Document, Page


class Cluster(Document):
    """A cluster whose records the service has, which `cluster` of a request names."""

    kind: Literal["Cluster"]
    displayName: Annotated[str | None, "Common name of its sender's certificate; null without one."]
    own: Annotated[bool, "Whether it is the API server's own cluster."]
    lastSeenAt: Annotated[str, "Time at which its last record arrived."]
    schedulers: Annotated[list[str], "Profiles (spec.schedulerName) for which its schedulers decided."]
    incarnations: Annotated[int, "Number of runs of scheduler processes."]
    missing: Annotated[int, "Number of records that did not arrive."]
    explainedByGaps: Annotated[int, "Number of missing records that gap records explain."]


class ClusterList(Page):
    """A page of items of kind Cluster."""

    kind: Literal["ClusterList"]
    items: Annotated[list[Cluster], "Items of this page."]


class MissingRange(TypedDict):
    """One range of missing sequence numbers."""

    first: Annotated[int, "First missing sequence number."]
    last: Annotated[int, "Last missing sequence number."]
    explained: Annotated[bool, "Whether a gap record of the process states this loss."]


class IncarnationDocument(Document):
    """One run of a scheduler process, and which of its records are missing."""

    kind: Literal["Incarnation"]
    cluster: Annotated[str | None, "UID of the cluster's namespace kube-system."]
    identity: Annotated[str | None, "Identity of the process, as in its Lease."]
    profiles: Annotated[list[str], "Profiles (spec.schedulerName) for which the process decided."]
    lastSeenAt: Annotated[str, "Time at which its last record arrived."]
    nodeTableGeneration: Annotated[int | None, "Newest generation of its node table that is stored."]
    highestSequence: Annotated[int | None, "Sequence number of its newest record."]
    missing: Annotated[int, "Number of records that did not arrive."]
    explainedByGaps: Annotated[int, "Number of missing records that its gap records explain."]
    missingRanges: Annotated[list[MissingRange], "Ranges of missing sequence numbers."]
    missingRangesOmitted: Annotated[int, "Number of ranges that are not listed."]


class IncarnationList(Page):
    """A page of items of kind Incarnation."""

    kind: Literal["IncarnationList"]
    items: Annotated[list[IncarnationDocument], "Items of this page."]


class ServiceVersion(TypedDict):
    """Version of the decisions service."""

    apiVersion: Annotated[str, "API version of this document."]
    kind: Literal["ServiceVersion"]
    version: Annotated[str, "Version of the service."]
    frameVersion: Annotated[int, "Newest version of record frames that the service reads."]
    pages: NotRequired[Annotated[str, "Address at which readers open the web pages, if the service knows one."]]


class StatusDetails(TypedDict, total=False):
    """Details of the error."""

    name: Annotated[str, "Name of the object that was not found."]
    kind: Annotated[str, "Resource of the object."]
    similar: Annotated[list[str], "Similar names."]
    otherNamespaces: Annotated[list[str], "Other namespaces with a pod of the name."]
    known: Annotated[list[str], "Names that are known."]
    noRecords: Annotated[bool, "Present and true if no scheduler has ever sent records."]
    retryAfterSeconds: Annotated[int, "Time after which to try again, in seconds."]


class Status(TypedDict):
    """Error response of a failed request."""

    kind: Literal["Status"]
    apiVersion: Literal["v1"]
    metadata: Annotated[dict[str, str], "Empty."]
    status: Literal["Failure"]
    message: Annotated[str, "Error message."]
    reason: Annotated[str, "Machine-readable reason."]
    details: StatusDetails
    code: Annotated[int, "HTTP status code."]
