"""One simulated cluster: its start and end, and direct access to objects for tests and the demo.

    with SimulatedCluster(objects=[...]) as sim:
        sim.url, sim.create({...}), sim.get("Pod", "default", "web"), sim.list("Node")

Does not own: HTTP (`server`), the verbs (`registry`). Invariant: it listens on loopback only, because it has no
authentication. Leaving the `with` block ends every thread.
"""

from __future__ import annotations

import copy
import ipaddress
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from herodotus_sim.controllers import ControllerManager
from herodotus_sim.faults import FaultInjector
from herodotus_sim.kinds import NAMESPACE, NODE, POD, ApiResource, resource_for_name, resource_for_type
from herodotus_sim.kubelets import Kubelets
from herodotus_sim.options import Options
from herodotus_sim.patches import MERGE_PATCH, apply_patch
from herodotus_sim.routes import Router
from herodotus_sim.selectors import build_predicate
from herodotus_sim.server import SimulatedServer
from herodotus_sim.storage import ObjectStorage, to_storage_form
from herodotus_sim.strategy import complete_node, initial_objects, prepare_for_update
from herodotus_sim.subresources import assign_node
from herodotus_sim.wire import Object, SimulatedRequest, SimulatedResponse

_CONTEXT = "herodotus-sim"
_LOADED_FIRST = {"Namespace": 0, "PriorityClass": 1}


class SimulatedCluster:
    """A simulated cluster: an API server that serves HTTP on loopback, with optional kubelets and controllers.

    Tests and the demo also read and change its objects directly.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        options: Options | None = None,
        **settings: Any,
    ) -> None:
        """Create a cluster; `settings` are fields of Options: `SimulatedCluster(run_pods=True)`."""
        check_loopback(host)
        self.options = replace(options or Options(), **settings)
        self.store = ObjectStorage(self.options.history_limit)
        self._routes = Router(self.store, self.options)
        self.faults = FaultInjector(self._routes.handle, self.store, self.options.faults)
        self._host, self._port = host, port
        self._server: SimulatedServer | None = None
        self._threads: list[threading.Thread] = []
        self._kubelets: Kubelets | None = None
        self._controllers: ControllerManager | None = None
        for kind, obj in initial_objects():
            self._routes.verbs.insert(kind, "", obj)
        self.load(objects)

    def start(self) -> SimulatedCluster:
        """Start to serve, start the controllers and kubelets that the options enable, and return this cluster."""
        self._server = SimulatedServer((self._host, self._port), self.faults, self.store, self.options.latency_s)
        accept = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="sim-accept", daemon=True
        )
        accept.start()
        self._threads.append(accept)
        if self.options.run_controllers:
            self._controllers = ControllerManager(self._routes.verbs)
            self._controllers.start()
        if self.options.run_pods:
            self._kubelets = Kubelets(self.store)
            self._kubelets.start()
        return self

    def stop(self) -> None:
        """Close every connection and end all threads."""
        if self._server is None:
            return
        self._server.close()
        for thread in self._threads:
            thread.join()
        if self._kubelets is not None:
            self._kubelets.join()
        if self._controllers is not None:
            self._controllers.join()
        self._server = None

    def __enter__(self) -> SimulatedCluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def handle(self, request: SimulatedRequest) -> SimulatedResponse:
        """Handle a request without faults, as another API server of the cluster does. Raises StatusError."""
        return self._routes.handle(request)

    @property
    def url(self) -> str:
        """Return the base URL of the server; raise RuntimeError before the start."""
        if self._server is None:
            raise RuntimeError("the simulated cluster is not started")
        host, port = self._server.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def write_kubeconfig(self, path: str | Path) -> Path:
        """Write a kubeconfig whose current context is this cluster, and return its path."""
        named = {"name": _CONTEXT}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": _CONTEXT,
            "clusters": [{**named, "cluster": {"server": self.url}}],
            "users": [{**named, "user": {}}],
            "contexts": [{**named, "context": {"cluster": _CONTEXT, "user": _CONTEXT, "namespace": "default"}}],
        }
        target = Path(path)
        target.write_text(yaml.safe_dump(config, sort_keys=False))
        return target

    def load(self, objects: Iterable[Object]) -> None:
        """Create objects, first those that admission looks up.

        A namespace that an object is in and that does not exist is created too.

        Raises KeyError for an unsupported kind, StatusError for an object that exists or is not valid.
        """
        for obj in sorted(objects, key=lambda o: _LOADED_FIRST.get(o.get("kind", ""), len(_LOADED_FIRST))):
            kind = resource_for_type(obj.get("apiVersion", ""), obj.get("kind", ""))
            namespace = (obj.get("metadata") or {}).get("namespace", "default") if kind.namespaced else ""
            if namespace and self.store.find(NAMESPACE, "", namespace) is None:
                self._routes.verbs.insert(NAMESPACE, "", {"metadata": {"name": namespace}})
            if kind is NAMESPACE and self.store.find(NAMESPACE, "", obj["metadata"]["name"]) is not None:
                continue
            self.create(obj)

    def create(self, obj: Object) -> Object:
        """Create an object and return a copy of it as stored.

        Unlike over HTTP, its status is kept, and a node gets the defaults of a Ready node. Raises KeyError for an
        unsupported kind, StatusError for an object that exists or is not valid.
        """
        kind = resource_for_type(obj.get("apiVersion", ""), obj.get("kind", ""))
        namespace = (obj.get("metadata") or {}).get("namespace", "default") if kind.namespaced else ""
        new = copy.deepcopy(obj)
        if kind is NODE:
            new = complete_node(new)
        return copy.deepcopy(self._routes.verbs.insert(kind, namespace, new, keep_status=True).to_object(kind))

    def get(self, kind: str, namespace: str, name: str) -> Object:
        """Return a copy of an object; `kind` may be any name that kubectl accepts. Raises StatusError 404."""
        row = resource_for_name(kind)
        return copy.deepcopy(self.store.get(row, namespace if row.namespaced else "", name).to_object(row))

    def list(self, kind: str, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        """Return copies of all objects of a kind that match the namespace, label selector and field selector.

        An empty namespace or selector matches everything.
        """
        row = resource_for_name(kind)
        selected = build_predicate(row, namespace, "", labels, fields)
        with self.store.lock:
            matching = [v for v in self.store.list_sorted(row) if selected.matches(v.obj)]
        return [copy.deepcopy(v.to_object(row)) for v in matching]

    def update(self, obj: Object) -> Object:
        """Replace an object, its spec and status at once, and return a copy of the stored object."""
        kind = resource_for_type(obj.get("apiVersion", ""), obj.get("kind", ""))
        new = copy.deepcopy(obj)
        return self._write(kind, new["metadata"].get("namespace", "default"), new["metadata"]["name"], lambda _: new)

    def patch(self, kind: str, namespace: str, name: str, patch: Any, type_: str = MERGE_PATCH) -> Object:
        """Patch an object, its spec and status at once, and return a copy; `type_` is the patch's media type."""
        own_patch = copy.deepcopy(patch)
        return self._write(resource_for_name(kind), namespace, name, lambda obj: apply_patch(type_, obj, own_patch))

    def bind(self, namespace: str, name: str, node: str) -> Object:
        """Bind a pod to a node and return a copy of the pod.

        Raises StatusError 404 if the pod does not exist, 409 if it is bound already or must not be bound.
        """
        return copy.deepcopy(
            self.store.guaranteed_update(POD, namespace, name, lambda pod: assign_node(pod, {}, node)).to_object(POD)
        )

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object; raise StatusError 404 if it does not exist."""
        row = resource_for_name(kind)
        with self.store.lock:
            self._routes.verbs.remove(row, self.store.get(row, namespace if row.namespaced else "", name))

    def compact(self) -> None:
        """Discard the history of changes, so that a watch from any earlier version gets the error 410."""
        self.store.compact()

    def _write(self, kind: ApiResource, namespace: str, name: str, change: Callable[[Object], Object]) -> Object:
        def changed(old: Any) -> Object:
            new = to_storage_form(kind, change(old.to_object(kind)))
            after = prepare_for_update(kind, old, new, "")
            return {**after, "status": new["status"]} if "status" in new else after

        written = self.store.guaranteed_update(kind, namespace if kind.namespaced else "", name, changed)
        return copy.deepcopy(written.to_object(kind))


def check_loopback(host: str) -> None:
    """Raise ValueError unless `host` is localhost or a loopback address, which other machines cannot reach."""
    try:
        safe = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        safe = False
    if not safe:
        raise ValueError(f"{host} is not a loopback address; the simulated API server has no authentication")
