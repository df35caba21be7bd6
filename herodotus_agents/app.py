"""The extender service's HTTP routes, which call the loaded agents.

Owns: paths, decoding of requests, error responses, encoding of results. Does not own: the agents, the server
(`server`).

Invariant: an invalid request is answered 400 and an agent that raises 500, both with `{"Error": reason}`. Neither ends
the process, and no response body is empty.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from herodotus_agents.agent import BindError
from herodotus_agents.nodes import NodeCache
from herodotus_agents.objects import NodeView, decode_nodes
from herodotus_agents.registry import LoadedAgents
from herodotus_record import reasons
from herodotus_record.model import Code
from herodotus_record.typed_decoding import decode_json
from herodotus_record.version import __version__
from scheduler.engine.columns import InvalidAmountError, NodeObjectColumns
from scheduler.engine.formulas import measurements
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.engine.framework.verdicts import Verdicts
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.extenders import wire

_log: Final = logging.getLogger(__name__)

MAX_NODES: Final = 15_000  # in one request: three times the largest cluster that Kubernetes supports
NO_BIND: Final = "no agent binds pods: leave the extender's bindVerb empty"

T = TypeVar("T")


class BadRequestError(Exception):
    """A request is invalid; the message gives the reason."""


class TooManyNodesError(Exception):
    """A request has more than MAX_NODES nodes."""


def create_app(loaded: LoadedAgents, node_cache: NodeCache | None = None) -> Flask:
    """Return the WSGI application that serves the loaded agents.

    `node_cache` supplies the nodes for requests that contain only node names (`nodeCacheCapable`).
    """
    app = Flask("herodotus_agents", static_folder=None)
    _add_error_handlers(app)
    _add_info_routes(app, loaded)
    _add_rewards_route(app, node_cache)

    @app.post("/scheduler/predicates/<verb>")
    def filter_nodes(verb: str) -> Response:
        predicate = loaded.predicates.get(verb)
        if predicate is None:
            return _respond_unknown_verb("predicate", verb, loaded)
        args = _decode_body(wire.ExtenderArgs)
        pod, nodes = _decode_pod(args.pod), _decode_nodes(args, node_cache)
        _log.info("==> %s pod=%s nodes=%d", request.path, pod.full_name, nodes.slots)
        result = predicate.filter(pod, nodes, explain=_wants_inputs())
        return _respond_with_inputs(_filter_result(args, nodes.names, result.answer), result.inputs)

    @app.post("/scheduler/priorities/<verb>")
    def prioritize_nodes(verb: str) -> Response:
        priority = loaded.priorities.get(verb)
        if priority is None:
            return _respond_unknown_verb("priority", verb, loaded)
        args = _decode_body(wire.ExtenderArgs)
        pod, nodes = _decode_pod(args.pod), _decode_nodes(args, node_cache)
        _log.info("==> %s pod=%s nodes=%d", request.path, pod.full_name, nodes.slots)
        result = priority.prioritize(pod, nodes, explain=_wants_inputs())
        return _respond_with_inputs(_host_priorities(nodes.names, result.answer), result.inputs)

    @app.post("/scheduler/preemption")
    def preemption() -> Response:
        return _respond(_keep_victims(_decode_body(wire.ExtenderPreemptionArgs)))

    @app.post("/scheduler/bind")
    def bind() -> Response:
        args = _decode_body(wire.ExtenderBindingArgs)
        if loaded.bind is None:
            return _respond(wire.ExtenderBindingResult(error=NO_BIND))
        try:
            loaded.bind(args.pod_namespace, args.pod_name, args.pod_uid, args.node)
        except BindError as e:
            return _respond(wire.ExtenderBindingResult(error=str(e)))
        return _respond(wire.ExtenderBindingResult())

    return app


def _add_info_routes(app: Flask, loaded: LoadedAgents) -> None:
    """Add the route /version, and the route /, which lists the loaded agents and their verbs."""

    @app.get("/version")
    def version() -> Response:
        return Response(__version__ + "\n", content_type="text/plain; charset=utf-8")

    @app.get("/")
    def index() -> Response:
        verbs = {"predicates": sorted(loaded.predicates), "priorities": sorted(loaded.priorities)}
        return _respond({"version": __version__, "agents": list(loaded.agents), "failed": loaded.failed, **verbs})


def _add_rewards_route(app: Flask, node_cache: NodeCache | None) -> None:
    """Add the route /rewards, which returns how well pods of each type did on each node.

    These rewards are learned by the `monitor` command and read from node annotations, so the route answers 404 without
    `node_cache`.
    """

    @app.get("/rewards")
    def rewards() -> Response:
        if node_cache is None:
            return _respond_error(404, "rewards are read from node annotations: start the service with --watch-nodes")
        return _respond({node.name: _parse_rewards(node) for node in node_cache.list_all()})


def _parse_rewards(node: NodeView) -> dict[str, float]:
    """Return the rewards in a node's annotation by pod type: numbers up to 1 that say how well such pods did there.

    Pods of a type without an entry always did well. If the annotation is missing or invalid, there are no entries.
    """
    text = node.annotations.get(measurements.REWARDS)
    try:
        return decode_json(text, dict[str, float]) if text else {}
    except msgspec.MsgspecError:
        return {}


def _add_error_handlers(app: Flask) -> None:
    """Add handlers that make every error response `{"Error": reason}`, the key that kube-scheduler reads."""

    @app.errorhandler(BadRequestError)
    @app.errorhandler(InvalidAmountError)
    def bad_request(error: Exception) -> Response:
        return _respond_error(400, str(error))

    @app.errorhandler(TooManyNodesError)
    def too_many_nodes(error: Exception) -> Response:
        return _respond_error(413, str(error))

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        return _respond_error(error.code or 500, error.description or error.name)

    @app.errorhandler(Exception)
    def unexpected(error: Exception) -> Response:
        _log.exception("%s failed", request.path, exc_info=error)
        return _respond_error(500, f"{request.path} failed: {type(error).__name__}: {error}")


def _decode_body(kind: type[T]) -> T:
    body = request.get_data()
    _log.debug("%s %s", request.path, body[:2000])
    try:
        return wire.decode(kind, body)
    except wire.WireError as e:
        raise BadRequestError(f"cannot decode the body as {kind.__name__}: {e}") from e


def _decode_pod(raw: msgspec.Raw) -> PodInfo:
    """Decode a pod and check its requests. Raises BadRequestError."""
    try:
        pod = PodInfo(decode_json(raw, Pod))
        _ = pod.requests
    except ValueError as e:  # msgspec.ValidationError is one too
        raise BadRequestError(f"Pod: {e}") from e
    return pod


def _decode_nodes(args: wire.ExtenderArgs, node_cache: NodeCache | None) -> NodeObjectColumns:
    """Return the nodes of a request in its order, from its Node objects, or from the cache if it has only names.

    Raises BadRequestError or TooManyNodesError.
    """
    if args.node_names is not None:
        if node_cache is None:
            raise BadRequestError(
                "NodeNames without Nodes: nodeCacheCapable needs the service to run with --watch-nodes"
            )
        return node_cache.get_columns(args.node_names)
    if args.nodes is None:
        raise BadRequestError("the request has neither Nodes nor NodeNames")
    if len(args.nodes.items or ()) > MAX_NODES:
        raise TooManyNodesError(f"the request has {len(args.nodes.items or ())} nodes; the limit is {MAX_NODES}")
    try:
        return NodeObjectColumns(decode_nodes(args.nodes.items or ()))
    except msgspec.MsgspecError as e:
        raise BadRequestError(f"Nodes: {e}") from e


def _wants_inputs() -> bool:
    """Return whether the request's Accept header prefers a response with the measurements behind the result."""
    return request.accept_mimetypes.best_match([wire.JSON, wire.EXPLAINED], default=wire.JSON) == wire.EXPLAINED


def _respond_with_inputs(answer: Any, inputs: Sequence[NodeInputs]) -> Response:
    """Return kube-scheduler's message `answer`, with the measurements behind it if the request prefers that."""
    if not _wants_inputs():
        return _respond(answer)
    extended = wire.ExplainedAnswer(
        answer=msgspec.Raw(wire.encode(answer)), inputs=[_encode_inputs(each) for each in inputs]
    )
    return Response(wire.encode(extended), content_type=wire.EXPLAINED)


def _encode_inputs(inputs: NodeInputs) -> wire.ExplainedInputs:
    """Convert the measurements behind a result to the wire format, in which NaN and infinity become null."""
    return wire.ExplainedInputs(
        source=inputs.source,
        numbers=[
            wire.InputNumber(name=n.name, unit=n.unit, digits=n.digits, values=n.values.tolist())
            for n in inputs.numbers
        ],
        measured=None if inputs.measured_s is None else inputs.measured_s.tolist(),
        stale=None if inputs.stale is None or not inputs.stale.any() else inputs.stale.tolist(),
    )


def _host_priorities(nodes: Sequence[str], points: Sequence[int]) -> list[wire.HostPriority]:
    return [wire.HostPriority(host=name, score=score) for name, score in zip(nodes, points, strict=True)]


def _filter_result(args: wire.ExtenderArgs, nodes: Sequence[str], verdicts: Verdicts) -> wire.ExtenderFilterResult:
    """Return the extender's response to a filter request: the accepted nodes, and the rejected ones with reasons.

    The accepted nodes are unchanged Node objects or names, depending on what the request contained.
    """
    names, items = args.node_names, args.nodes.items if args.nodes else None
    failed: dict[Code, dict[str, str]] = {Code.UNSCHEDULABLE: {}, Code.UNSCHEDULABLE_AND_UNRESOLVABLE: {}}
    if verdicts.ids is not None:
        codes = verdicts.codes(len(nodes)).tolist()
        texts = ["; ".join(map(reasons.format_reason, verdict.reasons)) for verdict in verdicts.table]
        for name, code, number in zip(nodes, codes, verdicts.ids.tolist(), strict=True):
            if code:
                failed[code][name] = texts[number]
        names = names and [name for name, code in zip(names, codes, strict=True) if not code]
        items = items and [raw for raw, code in zip(items, codes, strict=True) if not code]
    return wire.ExtenderFilterResult(
        nodes=wire.NodeList(metadata=args.nodes.metadata, items=items or []) if args.nodes and names is None else None,
        node_names=names,
        failed_nodes=failed[Code.UNSCHEDULABLE],
        failed_and_unresolvable_nodes=failed[Code.UNSCHEDULABLE_AND_UNRESOLVABLE] or None,
    )


def _keep_victims(args: wire.ExtenderPreemptionArgs) -> wire.ExtenderPreemptionResult:
    """Return the preemption victims of the request unchanged, as UIDs, because agents take no part in preemption."""
    meta = args.node_name_to_meta_victims
    if meta is None:
        meta = {node: _to_meta_victims(victims) for node, victims in (args.node_name_to_victims or {}).items()}
    return wire.ExtenderPreemptionResult(node_name_to_meta_victims=dict(meta))


def _to_meta_victims(victims: wire.Victims) -> wire.MetaVictims:
    pods = [wire.MetaPod(uid=_decode_pod(raw).uid) for raw in victims.pods or ()]
    return wire.MetaVictims(pods=pods, num_pdb_violations=victims.num_pdb_violations)


def _respond_unknown_verb(kind: str, verb: str, loaded: LoadedAgents) -> Response:
    failed = "; ".join(f"agent {name} failed: {reason}" for name, reason in loaded.failed.items())
    return _respond_error(404, f"no agent has the {kind} {verb}" + (f" ({failed})" if failed else ""))


def _respond_error(code: int, reason: str) -> Response:
    return Response(wire.encode({"Error": reason}), code, content_type="application/json")


def _respond(message: Any) -> Response:
    return Response(wire.encode(message), content_type="application/json")
