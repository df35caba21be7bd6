"""Functions of the API server's authorizer. They are declared everywhere, but a device selector has no authorizer."""

from __future__ import annotations

from typing import Final

from scheduler.engine.cel.library.declaration import Overload, declare

_A: Final = "kubernetes.authorization.Authorizer"
_PATH: Final = "kubernetes.authorization.PathCheck"
_GROUP: Final = "kubernetes.authorization.GroupCheck"
_RESOURCE: Final = "kubernetes.authorization.ResourceCheck"
_DECISION: Final = "kubernetes.authorization.Decision"

OVERLOADS: Final[tuple[Overload, ...]] = (
    declare("path", "authorizer_path", f"{_A}.(string) -> {_PATH}"),
    declare("group", "authorizer_group", f"{_A}.(string) -> {_GROUP}"),
    declare("serviceAccount", "authorizer_serviceaccount", f"{_A}.(string,string) -> {_A}"),
    declare("resource", "groupcheck_resource", f"{_GROUP}.(string) -> {_RESOURCE}"),
    declare("subresource", "resourcecheck_subresource", f"{_RESOURCE}.(string) -> {_RESOURCE}"),
    declare("namespace", "resourcecheck_namespace", f"{_RESOURCE}.(string) -> {_RESOURCE}"),
    declare("name", "resourcecheck_name", f"{_RESOURCE}.(string) -> {_RESOURCE}"),
    declare("check", "pathcheck_check", f"{_PATH}.(string) -> {_DECISION}"),
    declare("check", "resourcecheck_check", f"{_RESOURCE}.(string) -> {_DECISION}"),
    declare("errored", "decision_errored", f"{_DECISION}.() -> bool"),
    declare("error", "decision_error", f"{_DECISION}.() -> string"),
    declare("allowed", "decision_allowed", f"{_DECISION}.() -> bool"),
    declare("reason", "decision_reason", f"{_DECISION}.() -> string"),
    declare("fieldSelector", "authorizer_fieldselector", f"{_RESOURCE}.(string) -> {_RESOURCE}"),
    declare("labelSelector", "authorizer_labelselector", f"{_RESOURCE}.(string) -> {_RESOURCE}"),
)
