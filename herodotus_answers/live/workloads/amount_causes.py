"""Find why a ResourceQuota or a LimitRange refuses the pods of a workload, with amounts, and what would let them in.

Owns: these causes and their remedies, arithmetic with quantities. Does not own: other refusals (`refusal_causes`).
Pure.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.objects import read_owner
from herodotus_answers.live.pod_facts import is_true, make_cause, make_remedy, quote_patch
from herodotus_answers.live.quota_amounts import EXCEEDED, format_limit, parse_amounts, strip_kind
from herodotus_answers.live.workload_objects import has_ended_job
from herodotus_answers.live.workloads.quota_scopes import describe_scope, has_scope, list_selectors, list_ways_out
from herodotus_answers.live.workloads.template_changes import Refusal, change_template
from herodotus_answers.quantities import format_available_amount, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from herodotus_answers.live.declarations import LiveCause, Remedy
    from herodotus_answers.live.workload_objects import Workload

Json = dict[str, Any]
# Messages of kube-apiserver's plugin/pkg/admission/resourcequota and limitranger.
_FAILED: Final = re.compile(r"failed quota: ([^\s:]+): must specify (.*)")
_INSUFFICIENT: Final = re.compile(r"insufficient quota to (?:match these scopes|consume): (.*)")
_SELECTOR: Final = re.compile(r"\{(\w+) (\w+) \[([^\]]*)\]\}")
_UNKNOWN: Final = re.compile(r"status unknown for quota: (\S+), resources: (\S+)")
_BOUND: Final = re.compile(
    r"(maximum|minimum) (\S+) usage per (\w+) is ([\d.]+[A-Za-z]*)"
    r"(?:, but (limit|request) is ([\d.]+[A-Za-z]*)|\. No (limit|request) is specified)"
)
_RATIO: Final = re.compile(r"(\S+) max limit to request ratio per (\w+) is ([\d.]+), but (.*?)(?:[\],]|$)")
_EXAMPLES: Final = {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "1Gi"}
_JOBS: Final = "count/jobs.batch"
# How many Jobs that have ended a CronJob keeps, with the API server's defaults.
_HISTORY: Final = {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
_SCALED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")


# --- quotas ---------------------------------------------------------------------------------------------------------


def explain_quota(refusal: Refusal, workload: Workload) -> LiveCause | None:
    """Return the cause if a message is about a ResourceQuota."""
    message = refusal.message
    if match := EXCEEDED.search(message):
        name, *lists = match.groups()
        return _explain_exceeded(name, [parse_amounts(each) for each in lists], refusal, workload)
    if match := _FAILED.search(message):
        return _explain_needs(match[1], match[2], refusal, workload)
    if match := _UNKNOWN.search(message):
        name, resources = match.groups()
        text = f"ResourceQuota {name} has no status yet for {resources}; the quota controller has to compute it"
        remedy = make_remedy("see why kube-controller-manager does not compute the status of the quota")
        return _make(refusal, "quota-exceeded", text, name, [remedy], workload)
    if match := _INSUFFICIENT.search(message):
        text = f"no ResourceQuota of namespace {workload.namespace} covers the pods, and one has to: {match[1]}"
        remedy = make_remedy(f"create a ResourceQuota in {workload.namespace} that covers them (an administrator)")
        ways_out = list_ways_out(_parse_selectors(match[1]), "no quota then has to cover them", workload)
        return make_cause("quota-exceeded", text, refusal.source, at=refusal.at, remedies=[remedy, *ways_out])
    return None


def _parse_selectors(listed: str) -> list[Json]:
    """Return the selectors in a list such as `[{PriorityClass In [high low]}]`, as Go prints them."""
    return [
        {"scopeName": scope, "operator": operator, "values": values.split()}
        for scope, operator, values in _SELECTOR.findall(listed)
    ]


def _explain_exceeded(name: str, amounts: list[dict[str, str]], refusal: Refusal, workload: Workload) -> LiveCause:
    requested, used, limited = amounts
    quota = workload.objects.get("ResourceQuota", name, workload.namespace).object
    status = (quota or {}).get("status") or {}
    facts, rows = [], list[tuple[str, Fraction, Fraction, Fraction]]()
    has_room = bool(status)
    for key, asked in requested.items():
        present = [(status.get("used") or {}).get(key), (status.get("hard") or {}).get(key)]
        numbers = [
            parse_quantity(each) for each in (asked, present[0] or used.get(key), present[1] or limited.get(key))
        ]
        if None in numbers:
            facts.append(f"{key}: asks {asked}, used {used.get(key)} of {limited.get(key)}")
            has_room = False
            continue
        ask, in_use, hard = (number for number in numbers if number is not None)
        has_room = has_room and in_use + ask <= hard
        rows.append((key, ask, in_use, hard))
        shown = [format_limit(key, each) for each in (ask, in_use, hard)]
        facts.append(f"{key}: {_of_each(workload, key)} asks {shown[0]}, used {shown[1]} of {shown[2]}")
    scope = describe_scope(quota)
    text = f"ResourceQuota {name}{scope} has too little left. {'; '.join(facts)}"
    if has_room:
        text = f"ResourceQuota {name}{scope} had too little left at the last attempt, and has room now: the controller"
        text += f" tries again. {'; '.join(facts)}"
        return _make(refusal, "quota-exceeded", text, name, [], workload)
    text += "".join(f"; {each}" for each in _list_defaults([*requested], workload))
    ways_out = list_ways_out(list_selectors(quota), f"ResourceQuota {name} then does not count them", workload)
    relaxing = [*_leave_best_effort(name, quota, workload), *_relax(name, rows, quota, refusal, workload), *ways_out]
    ended = _list_ended([*requested], workload)
    if ended:
        text += f"; {_tell_ended(ended, workload)}"
        relaxing = [*_remove_ended(ended, max(1, refusal.missing), workload), *relaxing]
    return _make(refusal, "quota-exceeded", text, name, relaxing, workload)


def _list_defaults(keys: list[str], workload: Workload) -> list[str]:
    """Return clauses on the amounts that LimitRanges give to containers of the pods, for these resources of a quota."""
    clauses = []
    containers = [*(workload.pod_spec.get("initContainers") or ()), *(workload.pod_spec.get("containers") or ())]
    limits = [
        (str(each["metadata"]["name"]), limit)
        for each in workload.objects.list_objects("LimitRange", workload.namespace).items
        for limit in each["spec"].get("limits") or ()
        if limit.get("type") == "Container"
    ]
    for key in keys:
        resource = strip_kind(key)
        field = "limit" if key.startswith("limits.") else "request"
        lacking = [str(each["name"]) for each in containers if not _states(each, field, resource)]
        for name, limit in limits if lacking else ():
            amount = (limit.get("default" if field == "limit" else "defaultRequest") or {}).get(resource)
            if amount is not None:
                who = f"container {lacking[0]}" if len(lacking) == 1 else f"each of the containers {', '.join(lacking)}"
                clauses.append(
                    f"LimitRange {name} gives {who} the {resource} {field} {amount}: the template states none"
                )
    return clauses


def _states(container: Json, field: str, resource: str) -> bool:
    """Return whether a container states an amount: a limit is its request too, if it states no other."""
    resources = container.get("resources") or {}
    fields = ("limits",) if field == "limit" else ("requests", "limits")
    return any(resource in (resources.get(each) or {}) for each in fields)


def _list_ended(keys: list[str], workload: Workload) -> list[Json]:
    """Return the Jobs of the namespace that have ended, oldest first, if the quota counts Jobs as objects."""
    if _JOBS not in keys:
        return []
    jobs = [{**job, "kind": "Job"} for job in workload.objects.list_objects("Job", workload.namespace).items]
    ended = [job for job in jobs if has_ended_job(job)]
    return sorted(ended, key=lambda job: (str((job.get("status") or {}).get("startTime")), job["metadata"]["name"]))


def _tell_ended(ended: list[Json], workload: Workload) -> str:
    count = len(ended)
    jobs = "1 Job that has ended counts" if count == 1 else f"{count} Jobs that have ended count"
    kept = sum(read_owner(job) == workload.label for job in ended)
    if not kept or not workload.is_read:
        return f"{jobs} until it is deleted" if count == 1 else f"{jobs} until they are deleted"
    spec = workload.spec
    limits = [f"{each} {spec.get(each, default)}" for each, default in _HISTORY.items()]
    return f"{jobs}, and {workload.label} keeps {kept} of them ({', '.join(limits)})"


def _remove_ended(ended: list[Json], missing: int, workload: Workload) -> list[Remedy]:
    """Return what removes Jobs that have ended: a shorter history of the CronJob, and their deletion."""
    remedies = []
    done = [job for job in ended if read_owner(job) == workload.label and is_true(job, "Complete")]
    if workload.kind == "CronJob" and workload.is_read and len(done) >= missing:
        keep = {"successfulJobsHistoryLimit": len(done) - missing}
        text = f"keep fewer Jobs that have ended: successfulJobsHistoryLimit {len(done) - missing} of {workload.label}"
        command = workload.kubectl(f"patch cronjob {workload.name}", "-p", quote_patch({"spec": keep}))
        remedies.append(make_remedy(text, command))
    names = [str(job["metadata"]["name"]) for job in ended[:missing]]
    text = f"delete {'a Job' if len(names) == 1 else 'Jobs'} that {'has' if len(names) == 1 else 'have'} ended, with"
    text += " its pods and logs, and let ttlSecondsAfterFinished in the Job template delete later ones"
    return [*remedies, make_remedy(text, workload.kubectl(f"delete job {' '.join(names)}"))]


def _of_each(workload: Workload, key: str) -> str:
    if strip_kind(key) == "storage" or "persistentvolumeclaims" in key:
        return "each claim"
    return "each pod" if workload.kind != "CronJob" else "each Job or pod"


def _leave_best_effort(name: str, quota: Json | None, workload: Workload) -> list[Remedy]:
    """Return the remedy that states requests, if the quota counts only pods without them."""
    if not has_scope(quota, "BestEffort"):
        return []
    wanted = ["requests.cpu", "requests.memory"]
    for other in workload.objects.list_objects("ResourceQuota", workload.namespace).items:
        if has_scope(other, "NotBestEffort"):  # it counts the pods then
            wanted += [key for key in other["spec"].get("hard") or () if strip_kind(key) in _EXAMPLES and "." in key]
    containers = [str(each["name"]) for each in workload.pod_spec.get("containers") or ()]
    note = f"ResourceQuota {name} then does not count the pods"
    return [_state_amounts(dict.fromkeys(wanted, containers), workload, note)]


def _relax(
    name: str,
    rows: list[tuple[str, Fraction, Fraction, Fraction]],
    quota: Json | None,
    refusal: Refusal,
    workload: Workload,
) -> list[Remedy]:
    """Return what lets the missing pods in: more quota, smaller pods, or fewer of them."""
    missing, created = max(1, refusal.missing), len(workload.active)
    short = [row for row in rows if row[2] + row[1] * missing > row[3]]
    if not short:
        return []
    hard = {key: format_limit(key, used + ask * missing) for key, ask, used, _ in short}
    raised = ", ".join(f"{key} to {amount}" for key, amount in hard.items())
    patch = quote_patch({"spec": {"hard": hard}})
    command = workload.kubectl(f"patch resourcequota {name}", "-p", patch) if quota else None
    pods = "the missing pod" if missing == 1 else f"the {missing} missing pods"
    remedies = [make_remedy(f"raise ResourceQuota {name} for {pods}: {raised} (an administrator)", command)]
    for key, ask, used, limit in short if len(short) == 1 else ():
        per_pod = (limit - (used - ask * created)) / (created + missing)
        if strip_kind(key) in _EXAMPLES and 0 < per_pod < ask:
            most = f"{format_available_amount(strip_kind(key), per_pod)} {key}"
            remedies.append(make_remedy(f"let each pod ask for at most {most}, so that all {created + missing} fit"))
    if workload.kind in _SCALED and created:
        command = workload.kubectl(f"scale {workload.kind.lower()} {workload.name}", f"--replicas={created}")
        remedies.append(make_remedy(f"ask for no more pods than exist: {created}", command))
    return remedies


def _explain_needs(name: str, needs: str, refusal: Refusal, workload: Workload) -> LiveCause:
    """Return the cause that a quota counts amounts that containers do not state."""
    containers = [str(each["name"]) for each in workload.pod_spec.get("containers") or ()]
    wanted: dict[str, list[str]] = {}
    for part in needs.split(";"):
        resources, _, named = part.partition(" for: ")
        for resource in resources.split(","):
            if resource.strip():
                wanted[resource.strip()] = [each.strip() for each in named.split(",") if each.strip()] or containers
    listed = "; ".join(
        f"{resource} of {'container' if len(names) == 1 else 'containers'} {', '.join(names)}" if names else resource
        for resource, names in wanted.items()
    )
    text = f"ResourceQuota {name} counts amounts that the pods have to state and do not: {listed}"
    remedies = [_state_amounts(wanted, workload)]
    what = f"give namespace {workload.namespace} a LimitRange with default amounts (an administrator)"
    return _make(refusal, "quota-needs-amounts", text, name, [*remedies, make_remedy(what)], workload)


def _state_amounts(wanted: dict[str, list[str]], workload: Workload, note: str = "") -> Remedy:
    """Return the remedy that states amounts of containers in the template, with examples of amounts.

    `note` says what else it does.
    """
    by_container: dict[str, Json] = {}
    unknown = []
    for resource, names in wanted.items():
        field = "limits" if resource.startswith("limits.") else "requests"
        example = _EXAMPLES.get(strip_kind(resource))
        if example is None or not names:
            unknown.append(resource)
            continue
        for name in names:
            by_container.setdefault(name, {}).setdefault(field, {})[strip_kind(resource)] = example
    if unknown or not by_container:
        return make_remedy(f"state {', '.join(wanted)} in the containers' resources{f'; {note}' if note else ''}")
    init = {each.get("name") for each in workload.pod_spec.get("initContainers") or ()}
    spec: Json = {}
    for name, resources in by_container.items():
        group = "initContainers" if name in init else "containers"
        spec.setdefault(group, []).append({"name": name, "resources": resources})
    examples = ", ".join(dict.fromkeys(f"{strip_kind(each)} {_EXAMPLES[strip_kind(each)]}" for each in wanted))
    return change_template(
        workload, f"state {', '.join(wanted)} of the containers (for example {examples})", spec, note
    )


def _make(
    refusal: Refusal, code: str, text: str, quota: str, remedies: Iterable[Remedy], workload: Workload
) -> LiveCause:
    return make_cause(
        code,
        text,
        refusal.source,
        of=f"ResourceQuota/{quota}",
        at=refusal.at,
        remedies=[*remedies],
        inspect=workload.kubectl(f"describe resourcequota {quota}"),
    )


# --- limit ranges ---------------------------------------------------------------------------------------------------


def explain_limit_range(refusal: Refusal, workload: Workload) -> LiveCause | None:
    """Return the cause if a message is about a LimitRange."""
    bounds, ratios = list(_BOUND.finditer(refusal.message)), list(_RATIO.finditer(refusal.message))
    if not bounds and not ratios:
        return None
    name = _find_limit_range([(m[3], "max" if m[1] == "maximum" else "min", m[2], m[4]) for m in bounds], workload)
    facts = []
    for bound in bounds:
        most, resource, kind, amount, field, given, lacking = bound.groups()
        word = "at most" if most == "maximum" else "at least"
        stated = f"a {field} of {given} is stated" if field else f"no {lacking} is stated"
        facts.append(f"{word} {amount} {resource} per {kind}, and {stated}")
    for ratio in ratios:
        resource, kind, most, why = ratio.groups()
        facts.append(f"the {resource} limit of a {kind} may be at most {most} times its request, and {why}")
    who = f"LimitRange {name}" if name else f"a LimitRange of namespace {workload.namespace}"
    text = f"{who} allows {'; '.join(facts)}"
    spec = _fit_containers([bound.groups() for bound in bounds], workload) if not ratios else None
    what = f"change the resources in the template of {workload.label} so that the LimitRange allows them"
    if any(bound[3] == "PersistentVolumeClaim" for bound in bounds):
        what = f"change the claims of {workload.label}: delete it, and create it anew with other volumeClaimTemplates,"
        what += " which cannot be changed"
    remedies = [make_remedy(what)]
    if spec:
        remedies = [change_template(workload, "state resources that the LimitRange allows", spec)]
    inspect = workload.kubectl(f"describe limitrange {name}".strip())
    of = f"LimitRange/{name}" if name else None
    return make_cause("limit-range", text, refusal.source, of=of, at=refusal.at, remedies=remedies, inspect=inspect)


def _find_limit_range(bounds: list[tuple[str, str, str, str]], workload: Workload) -> str:
    """Return the LimitRange with these bounds, as (type, min or max, resource, amount); "" if it cannot be read."""
    for each in workload.objects.list_objects("LimitRange", workload.namespace).items:
        for limit in each["spec"].get("limits") or ():
            for kind, field, resource, amount in bounds:
                has = parse_quantity((limit.get(field) or {}).get(resource))
                if limit.get("type") == kind and has is not None and has == parse_quantity(amount):
                    return str(each["metadata"]["name"])
    return ""


def _fit_pod(bounds: list[tuple[str | Any, ...]], workload: Workload) -> Json | None:
    """Return the part of a pod spec that lowers the amounts of the pod as a whole, or None if it states none."""
    lowered: Json = {}
    for field, amounts in (workload.pod_spec.get("resources") or {}).items():
        for _, resource, _, most, *_ in bounds:
            if field in ("limits", "requests") and _is_above(amounts.get(resource), most):
                lowered.setdefault(field, {})[resource] = most
    return {"resources": lowered} if lowered else None


def _is_above(stated: object, amount: object) -> bool:
    numbers = (parse_quantity(stated), parse_quantity(amount))
    return numbers[0] is not None and numbers[1] is not None and numbers[0] > numbers[1]


def _fit_containers(bounds: list[tuple[str | Any, ...]], workload: Workload) -> Json | None:
    """Return the part of a pod spec whose containers state amounts within the bounds, or None if they cannot.

    The bounds are the groups of _BOUND. Those of a claim, or of a pod that states no amounts as a whole, leave the
    choice to the user.
    """
    if all(bound[0] == "maximum" and bound[2] == "Pod" for bound in bounds):
        return _fit_pod(bounds, workload)
    spec: Json = {}
    for group in ("initContainers", "containers"):
        for container in workload.pod_spec.get(group) or ():
            resources = container.get("resources") or {}
            limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
            changed: Json = {}
            for most, resource, kind, amount, *_ in bounds:
                if kind != "Container":
                    return None
                bound = parse_quantity(amount)
                for field, amounts in (("limits", limits), ("requests", requests)):
                    stated = parse_quantity(amounts.get(resource)) if resource in amounts else None
                    needs = stated is None and field == ("limits" if most == "maximum" else "requests")
                    is_beyond = stated is not None and bound is not None
                    if is_beyond and stated is not None and bound is not None:
                        is_beyond = stated > bound if most == "maximum" else stated < bound
                    if needs or is_beyond:
                        changed.setdefault(field, {})[resource] = amount
            if changed:
                spec.setdefault(group, []).append({"name": container["name"], "resources": changed})
    return spec or None
