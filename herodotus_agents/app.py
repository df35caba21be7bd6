"""The extender service's routes, over the loaded agents.

Owns: paths, decoding, refusing, what an answer looks like. Does not own: what agents say, the server (`server`).

Invariant: a request that cannot be used is answered 400 with `{"Error": reason}`, an agent that raises 500 likewise;
neither ends the process, and no answer is empty.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from herodotus_agents.agent import BindError, ExplainedResult
from herodotus_agents.nodes import NodeCache
from herodotus_agents.objects import AmountError, NodeView, PodView, decode_nodes
from herodotus_agents.registry import LoadedAgents
from herodotus_record.version import __version__
from scheduler.engine.formulas import measurements
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.extenders import wire

_log: Final = logging.getLogger(__name__)

MAX_NODES: Final = 15_000  # of a request: three times the largest cluster that Kubernetes supports
NO_BIND: Final = "no agent binds pods: leave the extender's bindVerb empty"

T = TypeVar("T")


class BadRequestError(Exception):
    """A request that cannot be used, and why."""


class TooManyNodesError(Exception):
    """A request with more nodes than any cluster has."""


def create_app(loaded: LoadedAgents, known: NodeCache | None = None) -> Flask:
    """The WSGI application. `known`: nodes by name, for schedulers that send names alone."""
    app = Flask("herodotus_agents", static_folder=None)
    _errors(app)
    _about(app, loaded)
    _rewards(app, known)

    @app.post("/scheduler/predicates/<verb>")
    def filter_nodes(verb: str) -> Response:
        predicate = loaded.predicates.get(verb)
        if predicate is None:
            return _unknown("predicate", verb, loaded)
        args = _read(wire.ExtenderArgs)
        pod, nodes = _pod(args.pod), _nodes(args, known)
        said = predicate(pod, nodes)
        return _said(said, lambda rejected: _filtered(args, nodes, dict(rejected)))

    @app.post("/scheduler/priorities/<verb>")
    def prioritize_nodes(verb: str) -> Response:
        priority = loaded.priorities.get(verb)
        if priority is None:
            return _unknown("priority", verb, loaded)
        args = _read(wire.ExtenderArgs)
        pod, nodes = _pod(args.pod), _nodes(args, known)
        said = priority(pod, nodes)
        return _said(said, lambda points: _prioritized(nodes, points))

    @app.post("/scheduler/preemption")
    def preemption() -> Response:
        return _answer(_agreed(_read(wire.ExtenderPreemptionArgs)))

    @app.post("/scheduler/bind")
    def bind() -> Response:
        args = _read(wire.ExtenderBindingArgs)
        if loaded.bind is None:
            return _answer(wire.ExtenderBindingResult(error=NO_BIND))
        try:
            loaded.bind(args.pod_namespace, args.pod_name, args.pod_uid, args.node)
        except BindError as e:
            return _answer(wire.ExtenderBindingResult(error=str(e)))
        return _answer(wire.ExtenderBindingResult())

    return app


def _about(app: Flask, loaded: LoadedAgents) -> None:
    """Version and contents."""

    @app.get("/version")
    def version() -> Response:
        return Response(__version__ + "\n", content_type="text/plain; charset=utf-8")

    @app.get("/")
    def index() -> Response:
        verbs = {"predicates": sorted(loaded.predicates), "priorities": sorted(loaded.priorities)}
        return _answer({"version": __version__, "agents": list(loaded.agents), "failed": loaded.failed, **verbs})


def _rewards(app: Flask, known: NodeCache | None) -> None:
    """What the monitor has learnt, as it stands on the nodes."""

    @app.get("/rewards")
    def rewards() -> Response:
        if known is None:
            return _failure(404, "rewards are read from the nodes: the service needs to run with --watch-nodes")
        return _answer({node.name: _rewards_of(node) for node in known.list_all()})


def _rewards_of(node: NodeView) -> dict[str, float]:
    """Return the rewards on a node by pod type; a type that is absent always did well there."""
    text = node.annotations.get(measurements.REWARDS)
    try:
        return msgspec.json.decode(text, type=dict[str, float]) if text else {}
    except msgspec.MsgspecError:
        return {}


def _errors(app: Flask) -> None:
    """Every way to fail says why, under the key where schedulers look."""

    @app.errorhandler(BadRequestError)
    @app.errorhandler(AmountError)
    def bad(error: Exception) -> Response:
        return _failure(400, str(error))

    @app.errorhandler(TooManyNodesError)
    def too_many(error: Exception) -> Response:
        return _failure(413, str(error))

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        return _failure(error.code or 500, error.description or error.name)

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Response:
        _log.exception("%s failed", request.path, exc_info=error)
        return _failure(500, f"{request.path} failed: {type(error).__name__}: {error}")


def _read(kind: type[T]) -> T:
    body = request.get_data()
    _log.debug("%s %s", request.path, body[:2000])
    try:
        return wire.decode(kind, body)
    except wire.WireError as e:
        raise BadRequestError(f"the body is no {kind.__name__}: {e}") from e


def _pod(raw: msgspec.Raw) -> PodView:
    try:
        return msgspec.json.decode(raw, type=PodView)
    except msgspec.MsgspecError as e:
        raise BadRequestError(f"Pod: {e}") from e


def _nodes(args: wire.ExtenderArgs, known: NodeCache | None) -> Sequence[NodeView]:
    """The nodes of a request, in its order."""
    if args.node_names is not None:
        if known is None:
            raise BadRequestError(
                "NodeNames without Nodes: nodeCacheCapable needs the service to run with --watch-nodes"
            )
        return known.get(args.node_names)
    if args.nodes is None:
        raise BadRequestError("neither Nodes nor NodeNames")
    if len(args.nodes.items or ()) > MAX_NODES:
        raise TooManyNodesError(f"{len(args.nodes.items or ())} nodes, which are more than {MAX_NODES}")
    try:
        return decode_nodes(args.nodes.items or ())
    except msgspec.MsgspecError as e:
        raise BadRequestError(f"Nodes: {e}") from e


def _said(said: T | ExplainedResult[T], message: Callable[[T], Any]) -> Response:
    """The answer that every scheduler understands; with what it follows from, where the request asks for that."""
    explained = said if isinstance(said, ExplainedResult) else ExplainedResult(said)
    answer = message(explained.answer)
    asked = request.accept_mimetypes.best_match([wire.JSON, wire.EXPLAINED], default=wire.JSON)
    if asked != wire.EXPLAINED:
        return _answer(answer)
    told = wire.ExplainedAnswer(
        answer=msgspec.Raw(wire.encode(answer)), inputs=[_told(one) for one in explained.inputs]
    )
    return Response(wire.encode(told), content_type=wire.EXPLAINED)


def _told(inputs: NodeInputs) -> wire.ExplainedInputs:
    """On the wire, what is not finite is null."""
    return wire.ExplainedInputs(
        source=inputs.source,
        numbers=[
            wire.InputNumber(name=n.name, unit=n.unit, digits=n.digits, values=n.values.tolist())
            for n in inputs.numbers
        ],
        measured=None if inputs.measured_s is None else inputs.measured_s.tolist(),
        stale=None if inputs.stale is None or not inputs.stale.any() else inputs.stale.tolist(),
    )


def _prioritized(nodes: Sequence[NodeView], points: Sequence[int]) -> list[wire.HostPriority]:
    return [wire.HostPriority(host=n.name, score=p) for n, p in zip(nodes, points, strict=True)]


def _filtered(
    args: wire.ExtenderArgs, nodes: Sequence[NodeView], rejected: dict[str, str]
) -> wire.ExtenderFilterResult:
    """Nodes as they came where nodes came, names where names came."""
    if args.node_names is not None:
        left = [name for name in args.node_names if name not in rejected]
        return wire.ExtenderFilterResult(node_names=left, failed_nodes=rejected)
    assert args.nodes is not None
    items = [raw for raw, node in zip(args.nodes.items or (), nodes, strict=True) if node.name not in rejected]
    kept = wire.NodeList(metadata=args.nodes.metadata, items=items)
    return wire.ExtenderFilterResult(nodes=kept, failed_nodes=rejected)


def _agreed(args: wire.ExtenderPreemptionArgs) -> wire.ExtenderPreemptionResult:
    """Agents have no objection: the same victims, by UID."""
    meta = args.node_name_to_meta_victims
    if meta is None:
        meta = {node: _by_uid(victims) for node, victims in (args.node_name_to_victims or {}).items()}
    return wire.ExtenderPreemptionResult(node_name_to_meta_victims=dict(meta))


def _by_uid(victims: wire.Victims) -> wire.MetaVictims:
    pods = [wire.MetaPod(uid=_pod(raw).metadata.uid) for raw in victims.pods or ()]
    return wire.MetaVictims(pods=pods, num_pdb_violations=victims.num_pdb_violations)


def _unknown(kind: str, verb: str, loaded: LoadedAgents) -> Response:
    failed = "; ".join(f"agent {name} failed: {why}" for name, why in loaded.failed.items())
    return _failure(404, f"no agent has the {kind} {verb}" + (f" ({failed})" if failed else ""))


def _failure(code: int, why: str) -> Response:
    return Response(wire.encode({"Error": why}), code, content_type="application/json")


def _answer(message: Any) -> Response:
    return Response(wire.encode(message), content_type="application/json")
