"""Compares each decision of the real kube-scheduler about a pod with claims with our engine's, and the devices.

Owns: the comparison, and what drivers and kube-controller-manager do to claims meanwhile. Does not own: the cluster
(`random_devices`), how kube-scheduler is read (`real_scheduler`), our decision (`scheduler.offline.evaluate`).
Invariant: our engine sees the objects as they were read back before the pod was decided, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from scheduler.engine.objects.resource_api import to_json
from scheduler.engine.objects.watched_kinds import KINDS
from scheduler.engine.plugins.dynamic_resources.attempt import ClaimsOfAttempt, NodeAllocation
from scheduler.engine.rules.feature_gates import BINDING_CONDITIONS, CONSUMABLE_CAPACITY
from scheduler.offline.evaluate import evaluate
from scheduler.offline.evaluate.engine import EvaluatedPod
from tests.cached_results import differences_when_repeated
from tests.e2e import local_parity
from tests.e2e.cluster import Cluster
from tests.e2e.parity import Figures
from tests.e2e.random_devices import API, NAMESPACE, READY, IncomingPod, RandomDevices
from tests.e2e.real_scheduler import Attempt, GateSettings, KubeScheduler
from tests.processes import eventually

Json = dict[str, Any]

DRA = f"/apis/{API}"
CLAIMS = f"{DRA}/namespaces/{NAMESPACE}/resourceclaims"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
COLLECTIONS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    **{kind.decode_as.__name__: kind.path for kind in KINDS},
}
ADMIN_ACCESS = {"resource.kubernetes.io/admin-access": "true"}
FREED = {"status": {"allocation": None, "reservedFor": None, "devices": None}}

# Errors of kube-scheduler's PreBind that are bugs (docs/parity.md, "Intended differences").
_PRE_BIND: Final = 'running PreBind plugin "DynamicResources": '
NO_MAPPINGS: Final = re.compile(f"{_PRE_BIND}nil or empty request mappings")
NAMED_TWICE: Final = re.compile(f"{_PRE_BIND}.*reservedFor\\[\\d+\\]: Duplicate value")


class DeviceParity:
    """One random cluster with devices and a kube-scheduler, which runs until `stop`."""

    def __init__(
        self,
        api: Cluster,
        binary: Path,
        directory: Path,
        seed: int,
        keep: Path | None = None,
        settings: GateSettings | None = None,
    ) -> None:
        """Replace the objects of an earlier seed with those of this one; `keep` is a folder for differing cases."""
        settings = settings or GateSettings()
        # without both gates kube-scheduler uses its stable allocator, which tries pools in a random order
        self._compares_devices = any(map(settings.rules.enabled, (CONSUMABLE_CAPACITY, BINDING_CONDITIONS)))
        self.figures = Figures()
        self._api, self._seed, self._keep = api, seed, keep
        self._random = RandomDevices(seed)
        self._running: list[Json] = []
        self._clear()
        self._create()
        configuration = self._random.configuration()
        self._configuration = {**configuration, **settings.configuration()}
        self._scheduler = KubeScheduler(binary, api.kubeconfig, configuration, directory, settings)

    def stop(self) -> None:
        self._scheduler.stop()

    def _clear(self) -> None:
        for path in (PODS, "/api/v1/nodes", f"{DRA}/resourceslices", f"{DRA}/deviceclasses"):
            if path != PODS or self._api.find(f"/api/v1/namespaces/{NAMESPACE}") is not None:
                self._api.delete_all(path)
        for claim in self._api.items(f"{DRA}/resourceclaims"):
            self._delete_claim(claim)

    def _create(self) -> None:
        random, api = self._random, self._api
        if api.find(f"/api/v1/namespaces/{NAMESPACE}") is None:
            api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": ADMIN_ACCESS}})
        api.create_all("/api/v1/nodes", random.nodes())
        api.create_all(f"{DRA}/deviceclasses", random.classes())
        api.create_all(f"{DRA}/resourceslices", random.slices())

    def _objects(self) -> list[Json]:
        return [{**item, "kind": kind} for kind, path in COLLECTIONS.items() for item in self._api.items(path)]

    # --- one pod ----------------------------------------------------------------------------------------------------

    def decide(self, number: int) -> None:
        """Create the next pod, wait for kube-scheduler's decision, compare, and bring the cluster to rest."""
        incoming = self._random.incoming(number)
        for claim in incoming.claims:
            self._api.create(CLAIMS, claim)
        objects = self._objects()
        pod = self._api.create(PODS, incoming.pod)
        name = f"{NAMESPACE}/{pod['metadata']['name']}"
        if incoming.generated:
            pod, made = self._generate(pod, incoming)
            objects += made
        case = {"id": name, "config": self._configuration, "objects": objects, "pod": pod}
        evaluated = evaluate(case)
        ours = evaluated.outcome()
        if ours.get("preEnqueue"):
            self._compare_kept_out(pod, name, ours)
            return
        before = len(self.figures.disagreements)
        attempt = self._attempt(name)
        self.figures.counts["decisions with claims"] += 1
        self.figures.same("cached results", name, [], differences_when_repeated(evaluated))
        if attempt.ended == "bound":
            self._compare_bound(pod, name, attempt, evaluated, ours, takes_over=_takes_over_allocation(pod, objects))
        else:
            self._compare_rejected(pod, name, attempt, evaluated, ours)
        if self._keep and len(self.figures.disagreements) > before:
            (self._keep / f"devices-{self._seed}-{name.replace('/', '-')}.json").write_text(json.dumps(case))
        if self._running and self._random.chance(0.2):
            self._end(self._running.pop(self._random.draw(len(self._running))))

    def _generate(self, pod: Json, incoming: IncomingPod) -> tuple[Json, list[Json]]:
        """Make the claims of a pod's templates, as kube-controller-manager does; return the pod and the claims."""
        metadata, made, statuses = pod["metadata"], [], []
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        for name, claim in incoming.generated.items():
            claim["metadata"]["ownerReferences"] = [owner]
            made.append({**self._api.create(CLAIMS, claim), "kind": "ResourceClaim"})
            statuses.append({"name": name, "resourceClaimName": claim["metadata"]["name"]})
        self._api.patch(f"{PODS}/{metadata['name']}/status", {"status": {"resourceClaimStatuses": statuses}})
        return {**pod, "status": {**pod["status"], "resourceClaimStatuses": statuses}}, made

    def _attempt(self, name: str) -> Attempt:
        """Return the pod's first attempt when it has ended; drivers report binding conditions meanwhile."""

        def ended() -> bool:
            attempts = self._scheduler.attempts_of(name)
            return bool(attempts) and bool(attempts[0].ended)

        self._scheduler.wait_for(ended, f"an attempt of {name}", meanwhile=self._attach)
        return self._scheduler.attempts_of(name)[0]

    def _attach(self) -> None:
        """Report the binding conditions of allocated devices as true, as their drivers do."""
        for claim in self._api.items(CLAIMS):
            status = claim.get("status", {})
            results = status.get("allocation", {}).get("devices", {}).get("results", ())
            waiting = [r for r in results if r.get("bindingConditions")]
            if waiting and not status.get("devices"):
                condition = {
                    "type": READY,
                    "status": "True",
                    "reason": "Attached",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
                devices = [
                    {key: r[key] for key in ("driver", "pool", "device")} | {"conditions": [condition]} for r in waiting
                ]
                self._api.patch(f"{CLAIMS}/{claim['metadata']['name']}/status", {"status": {"devices": devices}})

    # --- comparing --------------------------------------------------------------------------------------------------

    def _compare_kept_out(self, pod: Json, name: str, ours: Json) -> None:
        """Compare the reason why PreEnqueue keeps the pod out of the active queue with the pod's condition."""
        self.figures.counts["kept out of the queue"] += 1
        condition = eventually(lambda: self._api.condition(*name.split("/")) or None, f"the condition of {name}")
        self.figures.same("PreEnqueue", name, condition["message"], ", ".join(ours["preEnqueue"]["reasons"]))
        self._end(pod)

    def _compare_bound(
        self, pod: Json, name: str, attempt: Attempt, evaluated: EvaluatedPod, ours: Json, *, takes_over: bool
    ) -> None:
        figures = self.figures
        feasible, totals = ours.get("feasible") or [], ours.get("totals") or {}
        best = [node for node in feasible if not totals or totals[node] == max(totals.values())]
        figures.same("feasible counts", name, attempt.feasible, len(feasible))
        if attempt.totals:
            figures.same("totals", name, attempt.totals, totals)
        figures.same("chosen nodes", name, attempt.node, attempt.node if attempt.node in best else best)
        bound = eventually(lambda: self._bound(name), f"{name} to have a node")
        self._compare_devices(bound, name, attempt.node, evaluated)
        self._api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": {"phase": "Running"}})
        if not takes_over:  # local mode frees the claims that only this pod uses, as kube-controller-manager does
            self._compare_locally(name, attempt)
        self._running.append(bound)

    def _bound(self, name: str) -> Json | None:
        pod = self._api.get(f"{PODS}/{name.partition('/')[2]}")
        return pod if pod["spec"].get("nodeName") else None

    def _compare_devices(self, pod: Json, name: str, node: str, evaluated: EvaluatedPod) -> None:
        """Compare the allocations in the API server with those that our engine finds for the node."""
        attempt = evaluated.result.state.find(ClaimsOfAttempt)
        if attempt is None:
            return
        found = attempt.nodes.get(node, NodeAllocation(()))
        results = dict(zip(attempt.to_allocate(), found.results, strict=False))
        for number, claim in enumerate(attempt.claims):
            expected = results.get(number)
            claim_name = claim.metadata.name
            if number == attempt.extended:
                status = pod["status"].get("extendedResourceClaimStatus")
                if expected is None or not expected.devices.results:
                    self.figures.same("extended resources without a claim", name, status, None)
                    continue
                mappings = [
                    {"containerName": m.container, "resourceName": m.resource, "requestName": m.request}
                    for m in found.mappings
                ]
                self.figures.same("request mappings", name, status["requestMappings"], mappings)
                claim_name = status["resourceClaimName"]
            written = self._api.get(f"{CLAIMS}/{claim_name}")
            if number == attempt.extended:
                assert found.extended_claim is not None
                self.figures.same("claims made", name, _plain(written["spec"]), to_json(found.extended_claim.spec))
            users = [user["uid"] for user in written["status"]["reservedFor"]]
            self.figures.same("reservations", name, pod["metadata"]["uid"] in users, True)
            if expected is not None and self._compares_devices:
                self.figures.same(
                    "allocations", name, _plain(written["status"]["allocation"]), _plain(to_json(expected))
                )
                self.figures.counts["devices"] += len(expected.devices.results or ())

    def _compare_locally(self, name: str, attempt: Attempt) -> None:
        """Compare the attempt with local mode's answer about the bound pod, whose claims are allocated by now."""
        answer = local_parity.explain_locally(self._api, json.dumps(self._configuration), *name.split("/"))
        self.figures.same("local feasible counts", name, attempt.feasible, answer["nodes"]["feasible"])
        self.figures.same("local nodes", name, attempt.node, answer["outcome"]["node"])
        if attempt.totals:
            self.figures.same("local totals", name, attempt.totals, local_parity.totals(answer))

    def _compare_rejected(self, pod: Json, name: str, attempt: Attempt, evaluated: EvaluatedPod, ours: Json) -> None:
        if _meets_a_bug(attempt.message, evaluated):
            self.figures.counts["pods that kube-scheduler cannot bind"] += 1
            self.figures.same("pods without a node", name, False, not ours.get("feasible"))
            self._end(pod)
            return
        message = ours.get("fitError") or ours.get("cycleError", "")
        errors = {
            f'running "DynamicResources" filter plugin: {reason}'
            for verdicts in (ours.get("filters") or {}).values()
            for verdict in [verdicts.get("DynamicResources", {})]
            if verdict.get("code") == "Error"
            for reason in verdict["reasons"]
        }
        if attempt.message in errors:  # of several nodes with errors it reports any
            message = attempt.message
        self.figures.same("messages", name, attempt.message, message)
        for write in (ours.get("preemption") or {}).get("claimWrites") or ():
            self._compare_claim_write(name, write)
        self._end(pod)

    def _compare_claim_write(self, name: str, write: str) -> None:
        verb, _, claim = write.partition(" ")
        if verb != "update/status":
            return
        path = f"{CLAIMS}/{claim.partition('/')[2]}"

        def is_freed() -> bool:  # or allocated anew by the next attempt
            self._scheduler.read()
            return (
                "allocation" not in self._api.get(path).get("status", {}) or len(self._scheduler.attempts_of(name)) > 1
            )

        self.figures.counts["deallocations"] += 1
        eventually(is_freed, f"{claim} to be deallocated")

    # --- kube-controller-manager --------------------------------------------------------------------------------------

    def _end(self, pod: Json) -> None:
        """Delete a pod, and do with its claims what kube-controller-manager does then."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self._api.delete(f"{PODS}/{name}")
        self._scheduler.wait_for(lambda: f"{NAMESPACE}/{name}" in self._scheduler.gone, f"{name} to be gone")
        freed: Counter[str] = Counter()
        for claim in self._api.items(CLAIMS):
            owners = {owner["uid"] for owner in claim["metadata"].get("ownerReferences", ())}
            users = claim.get("status", {}).get("reservedFor") or []
            left = [user for user in users if user["uid"] != uid]
            path = f"{CLAIMS}/{claim['metadata']['name']}"
            if uid not in owners and (left or not users):
                if len(left) < len(users):
                    self._api.patch(f"{path}/status", {"status": {"reservedFor": left}})
                continue
            if uid not in owners and self._random.chance(0.4):  # the controller has not come to it yet
                self._api.patch(f"{path}/status", {"status": {"reservedFor": None}})
                continue
            full_name = f"{NAMESPACE}/{claim['metadata']['name']}"
            results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
            freed[full_name] = self._scheduler.freed[full_name] + sum(not r.get("adminAccess") for r in results)
            if uid in owners:
                self._delete_claim(claim)
            else:
                self._api.patch(f"{path}/status", FREED)
        self._scheduler.wait_for(lambda: freed <= self._scheduler.freed, f"the devices of {name} to be free")

    def _delete_claim(self, claim: Json) -> None:
        path = f"{DRA}/namespaces/{claim['metadata']['namespace']}/resourceclaims/{claim['metadata']['name']}"
        self._api.patch(f"{path}/status", FREED)
        if claim["metadata"].get("finalizers"):
            self._api.patch(path, {"metadata": {"finalizers": None}})
        self._api.delete(path)


def _plain(value: Any) -> Any:
    """Return a part of a claim without what is random: share IDs and the time of the allocation."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if k not in ("shareID", "allocationTimestamp") and v is not None}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _takes_over_allocation(pod: Json, objects: Iterable[Json]) -> bool:
    """Return whether one of the pod's claims is allocated, but has no user since the last one ended."""
    names = {each.get("resourceClaimName") for each in pod["spec"].get("resourceClaims") or ()}
    return any(
        claim["metadata"]["name"] in names
        and "allocation" in claim.get("status", {})
        and not claim["status"].get("reservedFor")
        for claim in objects
        if claim["kind"] == "ResourceClaim"
    )


def _meets_a_bug(message: str, evaluated: EvaluatedPod) -> bool:
    """Return whether kube-scheduler's message is that of a bug whose condition the pod meets.

    The claim for extended resources gets an allocation on a node and has no mappings there; or the pod names a claim
    twice.
    """
    attempt = evaluated.result.state.find(ClaimsOfAttempt)
    if attempt is None:
        return False
    if NO_MAPPINGS.match(message):
        return attempt.extended is not None and any(
            found.results and not found.mappings for found in attempt.nodes.values()
        )
    names = [claim.full_name for claim in attempt.claims]
    return bool(NAMED_TWICE.match(message)) and len(set(names)) < len(names)
