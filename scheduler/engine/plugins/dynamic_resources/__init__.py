"""DynamicResources: finds nodes with devices for the pod's resource claims, and chooses the devices.

`claims` finds the pod's claims, `devices` keeps the cluster's devices, `attempt` holds what an attempt found out. The
search for devices is in `scheduler.engine.dra`. Source: pkg/scheduler/framework/plugins/dynamicresources v1.36.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, AllocatedDevice, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.dra.allocator import Allocator, InvalidPoolError
from scheduler.engine.dra.explain import find_shortage
from scheduler.engine.dra.extended_resources import CLAIM_NAME, build_requests, find_backed, may_be_backed
from scheduler.engine.dra.features import AllocatorFeatures
from scheduler.engine.dra.requests import AllocationError
from scheduler.engine.formulas.allocation import default_normalize
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.interface import DryRun, Mask, Scores
from scheduler.engine.framework.plugin import (
    Args,
    BasePlugin,
    DependsOn,
    GatedArgument,
    Handle,
    PluginInput,
)
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import (
    SKIP,
    SKIPPED,
    Pending,
    PostFilterResult,
    PreFilterResult,
    Verdicts,
    error,
    unresolvable,
    unschedulable,
)
from scheduler.engine.objects import quantity, times
from scheduler.engine.objects.pod import PodGroupKey, PodInfo
from scheduler.engine.objects.pod_groups import find_pod_group
from scheduler.engine.objects.problems import Problem, invalid
from scheduler.engine.objects.resource_api import (
    ClaimMetadata,
    DeviceClaim,
    DeviceClass,
    ResourceClaim,
    ResourceClaimSpec,
)
from scheduler.engine.objects.selectors import InvalidSelectorError, node_matches_any_term
from scheduler.engine.objects.types import Node
from scheduler.engine.plugins.dynamic_resources import binding, binding_conditions
from scheduler.engine.plugins.dynamic_resources.attempt import ClaimsOfAttempt, NodeAllocation
from scheduler.engine.plugins.dynamic_resources.binding import ClaimBindingError, ReservedDevices
from scheduler.engine.plugins.dynamic_resources.claims import (
    PodClaim,
    UnusableDeviceClaimError,
    find_claims,
    find_extended_claim,
    find_group_claims,
    find_pod_claims,
    is_reserved_for_pod,
)
from scheduler.engine.plugins.dynamic_resources.devices import ClusterDevices, PendingAllocation, match_selector
from scheduler.engine.plugins.dynamic_resources.node_results import NodeResults, ResultsByClaims
from scheduler.engine.plugins.dynamic_resources.reporting import build_devices, list_users, name_shared
from scheduler.engine.rules import Rules
from scheduler.engine.rules.feature_gates import (
    BINDING_CONDITIONS,
    CLAIM_DEVICE_STATUS,
    CONSUMABLE_CAPACITY,
    DEVICE_TAINT_RULES,
    DEVICE_TAINTS,
    EXTENDED_RESOURCE,
    FILTER_TIMEOUT,
    FRACTIONAL_CAPACITY,
    GROUP_CLAIMS,
    PARTITIONABLE_DEVICES,
    PRIORITIZED_LIST,
)
from scheduler.engine.rules.version_rules import (
    ALL_IN_SUBREQUEST,
    DEVICE_NODE_ERRORS,
    DEVICE_SCORES,
    POOLS_OF_SEVERAL_NODES,
    SELECTOR_ERRORS_EXPLAINED,
    TAINT_RULES_SELECT,
)

NO_CLAIMS = unschedulable(Reason("no-claims"))
INVALID_POOLS = unresolvable(Reason("invalid-pools"))


class DynamicResourcesArgs(Args, frozen=True):
    """Arguments of DynamicResources: timeouts as Go durations.

    `filter_timeout` limits the search for devices on one node, `binding_timeout` the wait for binding conditions.
    """

    filter_timeout: str = "10s"
    binding_timeout: str = "10m0s"

    def problems(self) -> Iterator[Problem]:
        yield from _too_short("filterTimeout", self.filter_timeout, 0, "must be zero or positive")
        yield from _too_short("bindingTimeout", self.binding_timeout, 1, "must be at least 1 second")


def _too_short(path: str, text: str, least_s: int, detail: str) -> Iterator[Problem]:
    try:
        if times.parse_seconds(text) < least_s:
            yield invalid(path, times.normalize(text), detail)
    except ValueError as e:
        yield invalid(path, text, str(e))


@dataclass(frozen=True)
class _PreFilterRan:
    """An empty state by which PostFilter sees that PreFilter ran."""


class DynamicResources(BasePlugin):
    """The plugin that allocates devices for resource claims, and for extended resources that device classes back.

    Like kube-scheduler's, it searches on the nodes that no earlier filter rejects, in order, because the search keeps
    state from one node to the next.
    """

    name = "DynamicResources"
    reads = frozenset({PluginInput.NODE, PluginInput.OBJECTS})
    depends_on = DependsOn.ROW
    score_state = ClaimsOfAttempt
    rule_at: ClassVar = {"score": DEVICE_SCORES}
    args_type = DynamicResourcesArgs
    gated_args: ClassVar = {
        "filterTimeout": GatedArgument((FILTER_TIMEOUT,), "DRASchedulingFilterTimeout feature gate is disabled"),
        "bindingTimeout": GatedArgument(
            (BINDING_CONDITIONS, CLAIM_DEVICE_STATUS),
            "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled",
        ),
    }
    fails_without: ClassVar = dict.fromkeys(("filter", "score", "reserve", "preBind"), ("preFilter", "not found"))

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._devices = handle.objects.derived(ClusterDevices)
        self._results = ResultsByClaims()
        # pods that passed Reserve in the cycle of their group, whose result is open
        self._provisional: dict[PodGroupKey, set[str]] = {}
        self._filter_timeout_s = times.parse_seconds(args.filter_timeout)
        self._binding_timeout_s = times.parse_seconds(args.binding_timeout)

    @cached_property
    def _features(self) -> AllocatorFeatures:
        """The allocator's features by the feature gates of the profile."""
        return _select_features(self.rules)

    @property
    def _uses_group_claims(self) -> bool:
        """Whether the feature gate for resource claims of pod groups is on."""
        return self.rules.enabled(GROUP_CLAIMS)

    def events_to_register(self) -> Iterator[ClusterEventWithHint]:
        either = ActionType.ADD | ActionType.UPDATE
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        yield ClusterEventWithHint(EventResource.NODE, nodes)
        yield ClusterEventWithHint(EventResource.RESOURCE_CLAIM, either, self._is_schedulable_after_claim_change)
        generated = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        yield ClusterEventWithHint(EventResource.POD, generated, self._is_schedulable_after_pod_change)
        yield ClusterEventWithHint(EventResource.DEVICE_CLASS, either)
        yield ClusterEventWithHint(EventResource.RESOURCE_SLICE, either)

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return not pod.pod.spec.resource_claims and not any(may_be_backed(name) for name in pod.requests)

    def pre_enqueue(self, pod: PodInfo) -> Verdict:
        """Reject a pod, so that it stays out of the active queue, until its claims exist."""
        if not pod.pod.spec.resource_claims:
            return SUCCESS
        try:
            find_claims(pod, self.handle.objects, of_groups=self._uses_group_claims)
        except UnusableDeviceClaimError as e:
            return unresolvable(e.reason)
        return SUCCESS

    # --- PreFilter --------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Write the pod's claims into `state`; return Skip if it has neither claims nor resources of device classes.

        Rejects the pod if one of its claims cannot be used.
        """
        state.write(_PreFilterRan())
        try:
            claims = find_pod_claims(pod, self.handle.objects, of_groups=self._uses_group_claims)
            attempt = self._start(pod, claims, state)
            if attempt is None:
                return SKIPPED
            self._check_claims(attempt)
        except UnusableDeviceClaimError as e:
            return PreFilterResult(unresolvable(e.reason))
        state.write(attempt)
        return PreFilterResult()

    def _start(self, pod: PodInfo, pod_claims: Sequence[PodClaim], state: CycleState) -> ClaimsOfAttempt | None:
        """Return the attempt's initial state, or None if the pod needs no devices.

        It needs devices for claims (`pod_claims`) and for extended resources that device classes back. The state has an
        `Allocator` if a claim has no allocation yet.
        """
        claims = [each.claim for each in pod_claims]
        self._devices.update_classes()
        backed = self._devices.backed if self.rules.enabled(EXTENDED_RESOURCE) else {}
        extended = find_backed(pod, backed) if backed else {}
        if not claims and not extended:
            return None
        self._devices.update()
        shared = self._share_pending(pod, claims) if state.is_pod_group_cycle else {}
        attempt = ClaimsOfAttempt(claims, [each.consumer for each in pod_claims], self._uses_group_claims, shared)
        if extended:
            claim = find_extended_claim(pod, self.handle.objects) or _build_extended_claim(pod)
            attempt = replace(attempt, claims=[*claims, claim], extended=len(claims), extended_requests=extended)
        if any(True for _ in attempt.to_allocate()):
            devices = self._devices
            attempt.allocator = Allocator(
                devices.allocated, devices.classes, devices.slices, match_selector, self._features
            )
        return attempt

    def _share_pending(self, pod: PodInfo, claims: list[ResourceClaim]) -> dict[int, PendingAllocation]:
        """Add, to unallocated `claims`, the allocations that earlier pods of the same group reserved in this cycle.

        Each such claim is replaced in the list by a copy. Returns the allocations by index in `claims`.
        """
        shared = {}
        for number, claim in enumerate(claims):
            pending = None if claim.status.allocation is not None else self._devices.find_pending(claim)
            if pending is not None and pending.group is not None and pending.group == pod.pod_group:
                shared[number] = pending
                status = msgspec.structs.replace(claim.status, allocation=pending.allocation)
                claims[number] = msgspec.structs.replace(claim, status=status)
        return shared

    def _check_claims(self, attempt: ClaimsOfAttempt) -> None:
        """Raise UnusableDeviceClaimError if an unallocated claim cannot be allocated now.

        That is so if another attempt's allocation of the claim is pending, if a device class does not exist, or if a
        request is of a kind that this scheduler, or its feature gates, do not support.
        """
        for i in attempt.to_allocate():
            claim = attempt.claims[i]
            if self._devices.find_pending(claim) is not None:
                raise UnusableDeviceClaimError("device-claim-in-flight", claim=claim.full_name)
            for request in () if i == attempt.extended else claim.spec.devices.requests or ():
                if request.exactly is not None:
                    classes = {request.name: request.exactly.device_class_name}
                elif request.first_available:
                    if not self._features.prioritized_list:
                        raise UnusableDeviceClaimError(
                            "prioritized-list-disabled", claim=claim.full_name, request=request.name
                        )
                    classes = {f"{request.name}/{sub.name}": sub.device_class_name for sub in request.first_available}
                else:
                    raise UnusableDeviceClaimError("request-unknown", claim=claim.full_name, request=request.name)
                for name, device_class in classes.items():
                    if device_class not in self._devices.classes:
                        missing = {"request": name, "device_class": device_class}
                        raise UnusableDeviceClaimError("device-class-not-found", **missing)

    # --- Filter -----------------------------------------------------------------------------------------------------

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Search for devices on every node of `nodes`, which may be copies of some rows, and return the verdicts.

        Unlike `filter_remaining`, it uses no results of earlier attempts.
        """
        attempt, results = state.read(ClaimsOfAttempt), NodeResults()
        verdicts = results.refresh(nodes, nodes.live, None, lambda node: self._search(attempt, pod, node))
        attempt.nodes = {**attempt.nodes, **results.allocations}
        return verdicts

    def filter_remaining(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, remaining: Mask) -> Verdicts:
        """Return a verdict on each node of the mask `remaining`, and NOT_RUN for all other nodes.

        A node is rejected if it lacks devices for a claim, or if it cannot use the devices of an allocated claim. The
        allocations on accepted nodes are stored in the attempt's state.
        """
        attempt = state.read(ClaimsOfAttempt)
        results, devices = self._find_results(attempt, pod)
        verdicts = results.refresh(nodes, remaining, devices, lambda node: self._search(attempt, pod, node))
        attempt.nodes = results.allocations
        return verdicts

    def _find_results(self, attempt: ClaimsOfAttempt, pod: PodInfo) -> tuple[NodeResults, ClusterDevices | None]:
        """Return the cached results of earlier attempts with equal claims, and the cluster's devices to update them by.

        If results for these claims may not be cached, returns new, empty results and None.
        """
        claims = attempt.claims if attempt.extended is None else attempt.claims[: attempt.extended]
        is_new = attempt.extended is None or attempt.claims[attempt.extended].metadata.name == CLAIM_NAME
        is_reusable = is_new and attempt.allocator is not None and all(c.status.allocation is None for c in claims)
        if not is_reusable or self._devices.slices.has_ambiguous_pools:
            return NodeResults(), None
        extended = pod.spec_digest if attempt.extended is not None else b""
        classes = self.handle.objects.revision_of(DeviceClass)
        key = (classes, extended, msgspec.msgpack.encode([(name_shared(pod, claim), claim.spec) for claim in claims]))
        return self._results.get(key), self._devices

    def _search(self, attempt: ClaimsOfAttempt, pod: PodInfo, node: Node) -> tuple[Verdict, NodeAllocation | None]:
        """Return the verdict on a node, and the allocation of the pod's unallocated claims there.

        The allocation is None if the node is rejected, or if there is nothing to allocate.
        """
        try:
            extended = self._build_node_claim(attempt, pod, node)
            if extended is None and not attempt.has_user_claims:
                return SUCCESS, None
            unavailable = self._find_unavailable(attempt, node)
            allocation = None if attempt.allocator is None else self._allocate(attempt, node, extended)
        except UnusableDeviceClaimError as e:
            return unresolvable(e.reason), None
        except (AllocationError, InvalidSelectorError) as e:
            return error(str(e)), None
        except InvalidPoolError:
            return INVALID_POOLS, None
        except TimeoutError:
            return error(f"node {node.metadata.name}: timed out trying to allocate devices"), None
        if attempt.allocator is not None and allocation is None:
            return self._explain(attempt, node, pod, extended), None
        if unavailable:
            attempt.unavailable |= unavailable
            names = ", ".join(attempt.claims[i].full_name for i in sorted(unavailable))
            return unresolvable(Reason("device-claim-elsewhere", {"claims": names})), None
        return SUCCESS, allocation

    def _allocate(self, attempt: ClaimsOfAttempt, node: Node, extended: NodeAllocation | None) -> NodeAllocation | None:
        """Return the allocation of the pod's unallocated claims on the node, or None if the node lacks the devices.

        `extended` is the node's own claim for extended resources, if it has one.
        """
        assert attempt.allocator is not None
        claims = self._claims_on(attempt, extended)
        timeout_s = self._filter_timeout_s if self.rules.enabled(FILTER_TIMEOUT) else 0.0
        deadline = time.monotonic() + timeout_s
        results = attempt.allocator.allocate(
            node, claims, (lambda: time.monotonic() > deadline) if timeout_s else lambda: False
        )
        if results is None:
            return None
        score = attempt.compute_score(results)
        if extended is None:
            return NodeAllocation(results, score=score)
        return NodeAllocation(results, extended.extended_claim, extended.mappings, score)

    def _explain(self, attempt: ClaimsOfAttempt, node: Node, pod: PodInfo, extended: NodeAllocation | None) -> Verdict:
        """Return the rejection of a node that lacks devices; its reason says which request lacks how many, and why."""
        assert attempt.allocator is not None
        numbers = list(attempt.to_allocate())
        shortage = find_shortage(attempt.allocator, node, self._claims_on(attempt, extended))
        claim = attempt.claims[numbers[shortage.claim]] if numbers else None
        params = {
            "claim": "" if claim is None else name_shared(pod, claim),
            "request": shortage.request,
            "needed": str(shortage.needed),
            "devices": str(shortage.devices),
            "usable": str(shortage.usable),
            "stoppers": shortage.stoppers,
        }
        if extended is not None and claim is not None and claim is attempt.claims[-1]:
            # the claim does not exist: the scheduler makes it for the pod's extended resources
            resources = [m.resource for m in extended.mappings if m.request == shortage.request.partition("/")[0]]
            params |= {"claim": "", "request": "", "extendedResource": ", ".join(dict.fromkeys(resources))}
        if shortage.holders:
            params |= {"holders": ", ".join(shortage.holders)}
            if users := list_users(self.handle.objects, shortage.holders):
                params |= {"users": ", ".join(users)}
        return unresolvable(Reason("cannot-allocate", params))

    def _claims_on(self, attempt: ClaimsOfAttempt, extended: NodeAllocation | None) -> list[ResourceClaim]:
        """Return the unallocated claims, the last one replaced by the claim of `extended` if that is not None."""
        claims = [attempt.claims[i] for i in attempt.to_allocate()]
        if extended is not None:
            assert extended.extended_claim is not None
            claims[-1] = extended.extended_claim
        return claims

    def _build_node_claim(self, attempt: ClaimsOfAttempt, pod: PodInfo, node: Node) -> NodeAllocation | None:
        """Return the claim for the pod's extended resources that the node's devices provide; None if there are none.

        A resource in the node's allocatable is provided by a device plugin instead. Raises UnusableDeviceClaimError if
        the node provides one of the resources in neither way, or if an earlier attempt created the claim.
        """
        if attempt.extended is None:
            return None
        claim = attempt.claims[attempt.extended]
        if claim.spec.devices.requests is not None:
            raise UnusableDeviceClaimError("extended-claim-left")
        allocatable = node.status.allocatable or {}
        resources = []
        for name in attempt.extended_requests:
            if name in self._devices.backed and not quantity.parse(allocatable.get(name, 0)):
                resources.append(name)
            elif name not in allocatable:
                raise UnusableDeviceClaimError("extended-resource-missing", resource=name)
        if (not resources and not attempt.has_user_claims) or claim.status.allocation is not None:
            return None
        requests, mappings = build_requests(pod, resources, self._devices.backed)
        spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests or None))
        return NodeAllocation((), msgspec.structs.replace(claim, spec=spec), mappings)

    def _find_unavailable(self, attempt: ClaimsOfAttempt, node: Node) -> set[int]:
        """Return the indices of the allocated claims that the pod cannot use on this node.

        Those are claims whose node selector does not match the node, or whose devices' binding conditions failed or
        timed out.
        """
        unavailable = set()
        for i, claim in enumerate(attempt.claims):
            allocation = claim.status.allocation
            if allocation is None:
                continue
            reach = allocation.node_selector
            if reach is not None and not node_matches_any_term(reach.node_selector_terms or (), node):
                unavailable.add(i)
                continue
            if not self._features.binding_conditions:
                continue
            try:
                late = not binding_conditions.is_ready(claim) and binding_conditions.is_late(
                    claim, self._binding_timeout_s, time.time()
                )
            except binding_conditions.DeviceBindingError:
                late = True
            if late:
                unavailable.add(i)
        return unavailable

    # --- PostFilter and Score ---------------------------------------------------------------------------------------

    def post_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, codes: NDArray[np.uint8], dry_run: DryRun
    ) -> PostFilterResult:
        """Make one claim of the pod allocatable anew, and return Unschedulable with what was done as the reason.

        The first that applies: deallocate a claim that some node cannot use and no other pod uses, delete the claim
        that an earlier attempt made for extended resources, or remove the group's reservation from a claim.
        """
        if not state.find(_PreFilterRan):
            return PostFilterResult(error("not found"))
        attempt = state.find(ClaimsOfAttempt)
        if attempt is None:
            return PostFilterResult(NO_CLAIMS)
        for i in sorted(attempt.unavailable - {attempt.extended} - attempt.shared.keys()):
            claim = attempt.claims[i]
            users = claim.status.reserved_for or ()
            if not users or (len(users) == 1 and users[0].uid == pod.uid):
                attempt.freed = claim
                attempt.writes.append(f"update/status {claim.full_name}")
                self.handle.writes.submit(partial(binding.deallocate, claim=claim), "deallocate resourceclaim")
                return PostFilterResult(unschedulable(Reason("device-claim-deallocated")))
        if attempt.extended is not None and attempt.claims[attempt.extended].metadata.name != CLAIM_NAME:
            claim = attempt.claims[attempt.extended]
            attempt.writes += [f"update {claim.full_name}", f"delete {claim.full_name}"]
            self.handle.writes.submit(lambda api: api.delete_claim(claim), "delete resourceclaim")
            return PostFilterResult(unschedulable(Reason("extended-claim-deleted")))
        freed = self._unreserve_group_claim(pod)
        if freed is not None:
            attempt.writes.append(f"update/status {freed.full_name}")
            return PostFilterResult(unschedulable(Reason("group-claim-unreserved")))
        return PostFilterResult(unschedulable(Reason("still-unschedulable")))

    def _unreserve_group_claim(self, pod: PodInfo) -> ResourceClaim | None:
        """Remove the group's reservation from its first allocated claim, unless a pod of the group is scheduled.

        A later attempt may then deallocate the claim. Returns the claim, or None if no reservation is removed.
        """
        key = pod.pod_group
        if not self._uses_group_claims or key is None:
            return None
        group = find_pod_group(self.handle.objects, key)
        scheduled = self.handle.pod_groups.count_scheduled(key) - len(self._provisional.get(key, ()))
        if group is None or scheduled > 0:
            return None
        for claim in find_group_claims(group, self.handle.objects):
            if claim.status.allocation is not None and is_reserved_for_pod(pod, claim, of_groups=True):
                uid = group.metadata.uid
                unreserve = partial(binding.unreserve_group, claim=claim, group=uid)
                self.handle.writes.submit(unreserve, "unreserve resourceclaim")
                return claim
        return None

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return each node's raw score, which is higher for earlier subrequests of requests with `firstAvailable`.

        The score is 0 without such requests.
        """
        scores = np.zeros(nodes.slots, np.int64)
        attempt = state.find(ClaimsOfAttempt)
        if attempt is not None and attempt.has_alternatives and self._features.prioritized_list:
            for slot in np.flatnonzero(feasible).tolist():
                allocation = attempt.nodes.get(nodes.names[slot])
                scores[slot] = 0 if allocation is None else allocation.score
        return scores

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Scale the scores so that the highest becomes 100."""
        return default_normalize(raw, feasible)

    def list_devices(self, state: CycleState, pod: PodInfo, node: str) -> tuple[AllocatedDevice, ...]:
        """Return the devices that the pod's claims have or would get on a node, including claims allocated before."""
        attempt = state.find(ClaimsOfAttempt)
        if attempt is None:
            return ()
        remaining = iter(attempt.nodes[node].results if node in attempt.nodes else ())
        return build_devices(pod, [(c, c.status.allocation or next(remaining, None)) for c in attempt.claims])

    # --- Reserve and PreBind ----------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Count the devices that the pod's claims get on `node` as allocated; return an error if Filter found none."""
        if state.is_pod_group_cycle and pod.pod_group is not None:
            self._provisional.setdefault(pod.pod_group, set()).add(pod.uid)
        attempt = state.find(ClaimsOfAttempt)
        if attempt is not None:
            in_cycle = state.is_pod_group_cycle
            try:
                state.write(binding.reserve(self._devices, attempt, pod, node, in_pod_group_cycle=in_cycle))
            except ClaimBindingError as e:
                return error(str(e))
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Free the devices that `reserve` counted, and remove the pod's reservations from claims that were written."""
        self._end_provisional(pod)
        attempt, reserved = state.find(ClaimsOfAttempt), state.find(ReservedDevices)
        if attempt is not None and reserved is not None:
            binding.unreserve(self.handle.writes, self._devices, attempt, reserved, pod)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Return Skip if the pod has neither claims nor devices for extended resources, else Success.

        Also ends the pod's provisional placement in the cycle of its group.
        """
        self._end_provisional(pod)
        return SKIP if state.find(ClaimsOfAttempt) is None else SUCCESS

    def _end_provisional(self, pod: PodInfo) -> None:
        """Remove the pod from those that are placed provisionally in the cycle of their group.

        It will be bound, or its placement was undone.
        """
        key = pod.pod_group
        placed = None if key is None else self._provisional.get(key)
        if key is not None and placed is not None:
            placed.discard(pod.uid)
            if not placed:
                del self._provisional[key]

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Pending:
        """Write the claims to the API server, and return Pending until drivers report their binding conditions.

        Returns Success if no device has binding conditions. If the profile disables Reserve, returns an error for a
        claim that was not allocated before.
        """
        attempt = state.find(ClaimsOfAttempt)
        if attempt is None:
            return SUCCESS
        reserved = state.find(ReservedDevices) or ReservedDevices(node, NodeAllocation(()))
        try:
            timestamps = self._features.binding_conditions
            binding.write_claims(self.handle.writes, attempt, reserved, pod, with_timestamps=timestamps)
        except ClaimBindingError as e:
            return error(str(e))
        if not self._features.binding_conditions or not binding.has_binding_conditions(reserved):
            return SUCCESS
        late = error("device binding timeout: context deadline exceeded")
        what = f"binding conditions for device on node {node}"
        return Pending(lambda: self._check_ready(reserved), self._binding_timeout_s, late, what)

    def _check_ready(self, reserved: ReservedDevices) -> Verdict | None:
        try:
            ready = binding.is_ready(self.handle.objects, reserved, self._binding_timeout_s, time.time())
        except ClaimBindingError as e:
            return error(str(e))
        return SUCCESS if ready else None

    # --- queueing hints ---------------------------------------------------------------------------------------------

    def _is_schedulable_after_claim_change(self, pod: PodInfo, old: ResourceClaim | None, new: ResourceClaim) -> bool:
        """Return whether a claim of the pod was created or changed its status, or any claim lost its allocation.

        The result is False while a claim of the pod does not exist.
        """
        try:
            claims = find_claims(pod, self.handle.objects, check_owner=False)
        except UnusableDeviceClaimError:
            return False
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return True
        if all(claim.metadata.uid != new.metadata.uid for claim in claims):
            return False
        return old is None or old.status != new.status

    def _is_schedulable_after_pod_change(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> bool:
        """Return whether `new` is the waiting pod itself and all of its claims exist now."""
        if new.uid != pod.uid:
            return False
        try:
            find_claims(new, self.handle.objects, of_groups=self._uses_group_claims)
        except UnusableDeviceClaimError:
            return False
        return True


def _select_features(rules: Rules) -> AllocatorFeatures:
    """Return the allocator's features by the feature gates in `rules`.

    Binding conditions also need the gate for the status of devices in claims.
    """
    return AllocatorFeatures(
        prioritized_list=rules.enabled(PRIORITIZED_LIST),
        consumable_capacity=rules.enabled(CONSUMABLE_CAPACITY),
        fractional_capacity=rules.enabled(FRACTIONAL_CAPACITY),
        partitionable_devices=rules.enabled(PARTITIONABLE_DEVICES),
        device_taints=rules.enabled(DEVICE_TAINTS),
        device_taint_rules=rules.enabled(DEVICE_TAINT_RULES),
        unselective_taint_rules=not rules.enabled(TAINT_RULES_SELECT),
        binding_conditions=rules.enabled(BINDING_CONDITIONS) and rules.enabled(CLAIM_DEVICE_STATUS),
        tolerates_invalid_pools=rules.enabled(DEVICE_NODE_ERRORS),
        completes_pools=rules.enabled(POOLS_OF_SEVERAL_NODES),
        keeps_alternative=rules.enabled(ALL_IN_SUBREQUEST),
        explains_selector_errors=rules.enabled(SELECTOR_ERRORS_EXPLAINED),
    )


def _build_extended_claim(pod: PodInfo) -> ResourceClaim:
    """Return a new claim for a pod's extended resources; its requests are added for each node later."""
    return ResourceClaim(metadata=ClaimMetadata(name=CLAIM_NAME, namespace=pod.namespace))
