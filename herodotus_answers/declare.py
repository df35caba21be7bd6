"""Declare answers: the types that their documents share, from which schemas, clients and checks derive.

An answer is a JSON document, and its type a TypedDict with the keys of the JSON: what builds, sends, reads and prints
an answer shares one declaration, and converts nothing. A field is declared as `Annotated[TYPE, "What it means."]`; a
field that some documents lack is `NotRequired`, one that may be unknown or empty is `TYPE | None`. A unit is part of
the meaning. `herodotus_answers.schema` derives the rest. An answer that is masked as a whole also declares what each
field discloses (`herodotus_record.fields.Discloses`), after the meaning.

The type of a kind has the kind's name; `Document` follows where a class of the record or the store has that name. The
type of a part is named after what it describes: `Listed…` is an item of a list, `Compared…` has values of both sides.

Owns: what every kind of document has. Does not own: the kinds (one module each), the records' fields
(`herodotus_record.fields`).
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, TypedDict

if sys.version_info >= (3, 11):
    from typing import NotRequired as NotRequired
else:

    class NotRequired:
        """Replacement for the type form of Python 3.11, which only type checkers and the schemas read."""

        def __class_getitem__(cls, kind: Any) -> Any:
            return Annotated[kind, cls]


class Metadata(TypedDict):
    """Kubernetes metadata of the object that the document is about."""

    name: NotRequired[
        Annotated[str, "Name of the object: the id of a decision, or the name of a pod, node or workload."]
    ]
    namespace: NotRequired[Annotated[str, "Namespace of the object; absent for nodes and clusters."]]
    uid: NotRequired[Annotated[str, "UID of the object."]]
    resourceVersion: NotRequired[Annotated[str, "Opaque version of the object."]]
    creationTimestamp: NotRequired[Annotated[str, "Time at which the attempt or process began."]]
    labels: NotRequired[
        Annotated[
            dict[str, str],
            "Labels of the pod, and labels of the service such as herodotus.dev/state, for label selectors.",
        ]
    ]


ListMetadata = TypedDict(
    "ListMetadata",
    {
        "continue": NotRequired[Annotated[str, "Cursor of the next page; absent on the last page."]],
        "resourceVersion": NotRequired[Annotated[str, "Version from which a watch continues."]],
    },
)


class Document(TypedDict):
    """A JSON document of a kind."""

    apiVersion: Annotated[str, "API version of this document."]
    metadata: Metadata


class Page(TypedDict):
    """A page of items of one kind."""

    apiVersion: Annotated[str, "API version of this document."]
    metadata: Annotated[ListMetadata, "Metadata of the page."]
