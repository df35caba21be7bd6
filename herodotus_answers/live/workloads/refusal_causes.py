"""Find why the API server refuses to create the pods of a workload: quotas, webhooks, policies, lacking objects.

The refusal is known from a controller's event or condition, as the message of an admission plugin. Its form is fixed in
kube-apiserver's plugin/pkg/admission; what it says is looked up in the cluster where that may be read.

Owns: these causes and their remedies. Does not own: finding the message (`workload_state`), quotas and LimitRanges
(`amount_causes`). Pure.

Invariant: an object is only said not to exist if the API server says so now, or said so in the message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from herodotus_answers.live.messages import find_remedy
from herodotus_answers.live.pod_facts import clean, find_manager, make_cause, make_remedy, quote_patch
from herodotus_answers.live.pods.claim_causes import describe_finalizers
from herodotus_answers.live.service_faults import NO_SERVICE, find_service_fault
from herodotus_answers.live.workloads.amount_causes import explain_limit_range, explain_quota
from herodotus_answers.live.workloads.template_changes import Refusal, change_template, is_template_mutable
from herodotus_answers.quantities import parse_quantity
from herodotus_record.units import begin_sentence

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import LiveCause, Remedy
    from herodotus_answers.live.workload_objects import Workload

Json = dict[str, Any]
# What controllers and the API server's error put before the message of an admission plugin.
_BEFORE: Final = re.compile(
    r"^(?:Error creating(?: job)?: |create (?:Pod|Claim) \S+ (?:for Pod \S+ )?in StatefulSet \S+ failed error: |"
    r'Failed to create new replica set "[^"]*": |failed to create PVC \S+ |'
    r'(?:pods|jobs\.batch|replicasets\.apps|persistentvolumeclaims) "[^"]*" is forbidden: |pods is forbidden: )'
)
_SERVICE_ACCOUNT: Final = re.compile(r'service ?account (?:\S+/)?"?([\w.-]+)"?(?::| was not found| not found)', re.I)
_PRIORITY_CLASS: Final = re.compile(r"no PriorityClass with name (\S+) was found")
_RUNTIME_CLASS: Final = re.compile(r'RuntimeClass "([^"]+)" not found|runtimeclasses\S* "([^"]+)" not found', re.I)
_FAILED_WEBHOOK: Final = re.compile(r'failed calling webhook "([^"]+)": (?:failed to call webhook: )?(.*)')
_CALLED: Final = re.compile(r'^(?:Post|Get) "([^"]+)": (.*)$')
# Of the errors of a call: those of a server that was reached.
_ANSWERED: Final = re.compile(r"x509|\btls:|certificate|HTTP response|expected response|status code", re.I)
_DENYING_WEBHOOK: Final = re.compile(r'admission webhook "([^"]+)" denied the request(?:: | )?(.*)')
_UNLISTED_SECRET: Final = re.compile(
    r'secret\.?(?:Secret)?Name="([^"]+)" is not allowed because service account ([\w.-]+) does not reference', re.I
)
_CLAIM_DELETED: Final = re.compile(r"(?:pvc|PVC|persistentvolumeclaim) \"?([\w.-]+)\"? is being deleted")
_REFUSES: Final = re.compile(r"forbidden|denied|not (?:allowed|permitted)|invalid|exceeded|unable to validate", re.I)
_POLICY: Final = re.compile(r"ValidatingAdmissionPolicy '([^']+)' with binding '([^']+)' denied request: (.*)")
# What evanphx/json-patch, which the API server uses, says of an operation that it cannot carry out.
_PATCH_FAILED: Final = re.compile(
    r"(?P<why>(?:\w+ operation does not apply|testing (?:value|path) (?P<tested>\S+) failed|jsonpatch)\b"
    r"(?:.*?(?:path|key): \"?(?P<path>/[^\s\":]+))?.*)"
)
_POD_SECURITY: Final = re.compile(r'violates PodSecurity "([^":]+)(?::([^"]+))?": (.*)')
_VIOLATIONS: Final = re.compile(r",\s+(?![^(]*\))")  # the commas between violations, not those in parentheses
_CONTAINERS: Final = re.compile(r"containers? ((?:\"[^\"]+\"(?:, )?)+)")
_OPENSHIFT: Final = "unable to validate against any security context constraint"
_INVALID: Final = re.compile(r'^(?:Pod|Job\S*|ReplicaSet\S*) "[^"]*" is invalid: (.*)$')
_ELEMENT: Final = re.compile(r"\bspec\.(initContainers|containers|volumes)\[(\d+)\]")
# A request above a limit: the container's index, the request, the resource and the limit.
_REQUESTED: Final = re.compile(
    r'containers\[(\d+)\]\.resources\.requests: Invalid value: "([^"]+)": must be less than or equal to (\S+) limit of'
    r" ([\w.]*\w)"
)
_TERMINATING: Final = "because it is being terminated"
_TAKEN: Final = re.compile(r'(?:pods|jobs\.batch) "([^"]+)" already exists')
# What pod security demands of containers, by the beginning of a violation, as fields of a securityContext.
_DEMANDS: Final[dict[str, Json]] = {
    "allowPrivilegeEscalation": {"allowPrivilegeEscalation": False},
    "unrestricted capabilities": {"capabilities": {"drop": ["ALL"]}},
    "runAsNonRoot": {"runAsNonRoot": True},
    "seccompProfile": {"seccompProfile": {"type": "RuntimeDefault"}},
    "privileged": {"privileged": False},
}
_CONFIGURATIONS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_NAMED: Final = 4  # webhooks in a sentence
_SHORT: Final = 60  # characters of a violation that is shown as it is


def explain_refusal(refusal: Refusal, workload: Workload) -> LiveCause:
    """Return why the API server refuses to create pods of a workload."""
    message = original = clean(refusal.message)
    while (match := _BEFORE.match(message)) is not None:
        message = message[match.end() :]
    refusal = refusal._replace(message=message, original=original)
    causes = (cause for explain in _EXPLAIN if (cause := explain(refusal, workload)) is not None)
    return next(causes, None) or _explain_other(refusal, workload)


def find_missing_references(workload: Workload) -> Iterator[LiveCause]:
    """Yield a cause for each object that the pod template names, that pods cannot be created without, and that lacks.

    They explain pods that do not exist where no event says why.
    """
    spec = workload.pod_spec
    for field, kind in _REFERENCES.items():
        name = spec.get(field)
        if name and workload.objects.is_absent(kind, name, workload.namespace):
            yield _explain_missing(kind, name, Refusal("", f"spec.template.spec.{field}", None, 0), workload)


# --- objects that the template names --------------------------------------------------------------------------------


_REFERENCES: Final = {
    "serviceAccountName": "ServiceAccount",
    "priorityClassName": "PriorityClass",
    "runtimeClassName": "RuntimeClass",
}
_CODES: Final = {
    "ServiceAccount": "service-account-missing",
    "PriorityClass": "priority-class-missing",
    "RuntimeClass": "runtime-class-missing",
}
_FIELDS: Final = {kind: field for field, kind in _REFERENCES.items()}


def _explain_reference(refusal: Refusal, workload: Workload) -> LiveCause | None:
    if match := _PRIORITY_CLASS.search(refusal.message):
        return _explain_missing("PriorityClass", match[1], refusal, workload)
    if match := _RUNTIME_CLASS.search(refusal.message):
        return _explain_missing("RuntimeClass", match[1] or match[2], refusal, workload)
    if match := _SERVICE_ACCOUNT.search(refusal.message):
        return _explain_missing("ServiceAccount", match[1], refusal, workload)
    return None


def _explain_unlisted_secret(refusal: Refusal, workload: Workload) -> LiveCause | None:
    """Return the cause that a ServiceAccount only lets pods use the Secrets that it lists."""
    match = _UNLISTED_SECRET.search(refusal.message)
    if match is None:
        return None
    secret, account = match.groups()
    is_for_pulls = "imagePullSecret" in refusal.message
    field, what = ("imagePullSecrets", "pull with") if is_for_pulls else ("secrets", "use")
    text = f"pods of ServiceAccount {account} may only {what} the Secrets that it lists (annotation"
    text += f" kubernetes.io/enforce-mountable-secrets), and {secret} is not among its {field}"
    # A patch of imagePullSecrets would replace the list; secrets are merged by name.
    patch = quote_patch({field: [{"name": secret}]})
    command = None if is_for_pulls else workload.kubectl(f"patch serviceaccount {account}", "-p", patch)
    remedies = [
        make_remedy(
            f"let the pods of ServiceAccount {account} use Secret {secret}, too: add it to its {field}", command
        ),
        make_remedy(f"do without Secret {secret} in the template of {_template_owner(workload)}"),
    ]
    return _make(refusal, "secret-not-listed", text, f"ServiceAccount/{account}", remedies)


def _explain_missing(kind: str, name: str, refusal: Refusal, workload: Workload) -> LiveCause:
    """Return the cause that an object which the pods name did not exist when they were to be created."""
    objects, namespace = workload.objects, workload.namespace
    where = f" in namespace {namespace}" if kind == "ServiceAccount" else ""
    of, field = f"{kind}/{name}", _FIELDS[kind]
    if objects.get(kind, name, namespace).object is not None:
        text = f"{kind} {name} did not exist{where} at the last attempt; it exists now, and the controller tries again"
        return _make(refusal, _CODES[kind], text, of)
    is_named = workload.pod_spec.get(field) == name
    if kind == "ServiceAccount":
        text = f"ServiceAccount {name} does not exist{where}, and the pods are to run as it"
        create = workload.kubectl(f"create serviceaccount {name}")
        remedies = [make_remedy(f"create ServiceAccount {name}{where}; it also needs the roles of the program", create)]
    elif kind == "PriorityClass":
        text = f"PriorityClass {name} does not exist, and the pods are to have its priority"
        create = f"kubectl create priorityclass {name} --value=0"
        remedies = [
            make_remedy(
                f"create PriorityClass {name}, here with value 0, as pods without a class have (it cannot be changed)",
                create,
            )
        ]
    else:
        text = f"RuntimeClass {name} does not exist, and the pods are to run with it"
        remedies = [make_remedy(f"create RuntimeClass {name} with the handler that the nodes' runtimes have for it")]
    if not is_named:
        text += f"; the template of {workload.label} does not name it now"
    remedies += _change_reference(kind, name, workload) if is_named else []
    return _make(refusal, _CODES[kind], text, of, remedies)


def _change_reference(kind: str, name: str, workload: Workload) -> list[Remedy]:
    """Return how the template can name another object, one that exists, or none."""
    listed = workload.objects.list_objects(kind, workload.namespace if kind == "ServiceAccount" else "").items
    names = [str(each["metadata"]["name"]) for each in listed]
    names = [each for each in names if not each.startswith("system-")]
    field = _FIELDS[kind]
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    remedies = [change_template(workload, f"name {kind} {each}, which exists", {field: each}) for each in near]
    if kind != "ServiceAccount":
        remedies.append(change_template(workload, f"name no {kind}", {field: None}))
    return remedies


# --- webhooks and policies ------------------------------------------------------------------------------------------


def _explain_failed_webhook(refusal: Refusal, workload: Workload) -> LiveCause | None:
    match = _FAILED_WEBHOOK.search(refusal.message)
    if match is None:
        return None
    name, error = match.groups()
    called = _CALLED.match(error)
    url, why = called.groups() if called else ("", error)
    service = _parse_service(url)
    text = f"admission webhook {name} cannot be called: {_shorten_dial(why)}"
    remedies: list[Remedy] = []
    inspect = ""
    if service:
        namespace, service_name = service
        fault = find_service_fault(namespace, service_name, workload.objects)
        text += f" (Service {namespace}/{service_name}{f', which {fault}' if fault else ''})"
        what = find_remedy("webhook", why, server=f"the pods behind Service {service_name} in {namespace}")
        if fault == NO_SERVICE and not _ANSWERED.search(why):
            what = f"install Service {service_name} in {namespace} again, or remove the webhook if nothing needs it"
        remedies.append(make_remedy(what))
        inspect = f"kubectl get service,endpointslices,pods -n {namespace}"
    elif url:
        text += f" (at {urlsplit(url).netloc})"
        remedies.append(make_remedy(find_remedy("webhook", why, server=urlsplit(url).netloc)))
    else:
        remedies.append(make_remedy(find_remedy("webhook", why, server=f"the server of webhook {name}")))
    of = None
    for configuration, index, hook in _find_webhooks(name, workload):
        kind, config = configuration["kind"], configuration["metadata"]["name"]
        of = f"{kind}/{config}"
        policy = hook.get("failurePolicy") or "Fail"
        text += f"; {kind} {config} has failurePolicy {policy}"
        if policy == "Fail":
            patch = f'[{{"op":"replace","path":"/webhooks/{index}/failurePolicy","value":"Ignore"}}]'
            what = f"let pods be created without webhook {name} while it fails, whatever it checks or adds"
            remedies.append(make_remedy(what, f"kubectl patch {kind.lower()} {config} --type=json -p '{patch}'"))
        break
    return _make(refusal, "webhook-failed", text, of, remedies, inspect)


def _shorten_dial(why: str) -> str:
    """Return an error of a connection without the address that it was dialled at, where the rest says enough."""
    return re.sub(r"^dial tcp ([\d.:\[\]a-f]+): (?:connect: )?", r"\1: ", why)


def _parse_service(url: str) -> tuple[str, str] | None:
    """Return namespace and name of the Service that a webhook's URL is for, or None for other hosts."""
    parts = (urlsplit(url).hostname or "").split(".") if url else []
    return (parts[1], parts[0]) if len(parts) >= 3 and parts[2] == "svc" else None


def _find_webhooks(name: str, workload: Workload) -> Iterator[tuple[Json, int, Json]]:
    """Yield the configurations of a webhook, with its position in them and itself."""
    for kind in _CONFIGURATIONS:
        for configuration in workload.objects.list_objects(kind).items:
            for index, hook in enumerate(configuration.get("webhooks") or ()):
                if hook.get("name") == name:
                    yield {**configuration, "kind": kind}, index, hook


def _explain_denial(refusal: Refusal, workload: Workload) -> LiveCause | None:
    if match := _POLICY.search(refusal.message):
        policy, binding, why = match.groups()
        text = f"ValidatingAdmissionPolicy {policy} (binding {binding}) denies it: {why}"
        what = find_remedy("policy", why, policy=policy, binding=binding, owner=_template_owner(workload))
        return _make(refusal, "policy-denied", text, f"ValidatingAdmissionPolicy/{policy}", [make_remedy(what)])
    match = _DENYING_WEBHOOK.search(refusal.message)
    if match is None:
        return None
    name, why = match.groups()
    of = next((f"{each['kind']}/{each['metadata']['name']}" for each, _, _ in _find_webhooks(name, workload)), None)
    text = f"admission webhook {name} denies it: {why or 'without explanation'}"
    what = f"change the template of {_template_owner(workload)} as the webhook demands"
    return _make(refusal, "webhook-denied", text, of, [make_remedy(what)])


def _explain_patch(refusal: Refusal, workload: Workload) -> LiveCause | None:
    """Return the cause that the patch of a mutating webhook, or of a policy, does not apply to the pod."""
    match = _PATCH_FAILED.search(refusal.message)
    if match is None:
        return None
    path = match["path"] or match["tested"] or ""
    text = f"the patch that a mutating webhook makes does not apply to the pod: {match['why']}"
    hooks = list(dict.fromkeys(_list_webhooks_of_pods(workload)))
    text += f"; webhooks that may change pods: {', '.join(hooks[:_NAMED])}" if hooks else ""
    where = _template_owner(workload)
    remedies = [make_remedy(f"correct the webhook{f', which changes {path}' if path else ''}: see its log")]
    field = re.match(r"/(?:spec|metadata)/\w+", path)
    if field and "missing" in match["why"]:
        what = f"state {field[0][1:].replace('/', '.')} in the template of {where}, if the patch only needs it to exist"
        remedies.append(make_remedy(what))
    of = f"MutatingWebhookConfiguration/{hooks[0].partition(' ')[0]}" if len(hooks) == 1 else None
    look = "kubectl get mutatingwebhookconfigurations"
    return _make(refusal, "webhook-patch-failed", text, of, remedies, look)


def _list_webhooks_of_pods(workload: Workload) -> Iterator[str]:
    """Yield the mutating webhooks that are called for new pods, as CONFIGURATION (WEBHOOK)."""
    for configuration in workload.objects.list_objects("MutatingWebhookConfiguration").items:
        for hook in configuration.get("webhooks") or ():
            rules = hook.get("rules") or ()
            if any({"pods", "*", "*/*"} & {*(rule.get("resources") or ())} for rule in rules):
                yield f"{configuration['metadata']['name']} ({hook.get('name')})"


def _template_owner(workload: Workload) -> str:
    from herodotus_answers.live.workload_objects import find_parent

    return find_manager(workload.object, workload.objects) or find_parent(workload) or workload.label


# --- pod security ---------------------------------------------------------------------------------------------------


def _explain_pod_security(refusal: Refusal, workload: Workload) -> LiveCause | None:
    if _OPENSHIFT in refusal.message:
        text = f"no SecurityContextConstraints that its ServiceAccount may use allow the pod: {refusal.message}"
        what = f"lower what the template of {_template_owner(workload)} asks for, or grant its ServiceAccount another"
        return _make(refusal, "pod-security", text, None, [make_remedy(f"{what} SecurityContextConstraints")])
    match = _POD_SECURITY.search(refusal.message)
    if match is None:
        return None
    level, _version, listed = match.groups()
    violations = [each for each in _VIOLATIONS.split(listed) if each]
    namespace = workload.namespace
    listed = ", ".join(_shorten_violation(each) for each in violations)
    text = f"namespace {namespace} enforces PodSecurity {level}, which the pod violates: {listed}"
    contexts: dict[str, Json] = {}
    left = []
    for violation in violations:
        demand = next((context for of, context in _DEMANDS.items() if violation.startswith(of)), None)
        names = _list_quoted(violation)
        if demand is None or not names:
            left.append(violation.partition(" (")[0])
            continue
        for name in names:
            contexts.setdefault(name, {}).update(demand)
    remedies: list[Remedy] = []
    if contexts and not left:
        spec, note = _build_contexts(contexts, workload), "programs that need root or other rights then fail"
        remedies.append(change_template(workload, f"set the securityContext that {level} demands", spec, note))
    elif left:
        what = f"do without {', '.join(left)}"
        demanded = [f"{_describe_context(context)} of container {name}" for name, context in contexts.items()]
        what += f", and set {', '.join(demanded)}," if demanded else ""
        remedies.append(make_remedy(f"{what} in the template of {_template_owner(workload)}"))
    remedies.append(make_remedy(f"run it in a namespace whose pod security level allows it, not in {namespace}"))
    return _make(refusal, "pod-security", text, f"Namespace/{namespace}", remedies)


def _describe_context(context: Json) -> str:
    """Return the fields of a securityContext for a sentence: `privileged false and runAsNonRoot true`."""
    return " and ".join(f"{name} {json.dumps(value)}" for name, value in context.items())


def _shorten_violation(violation: str) -> str:
    """Return a violation with the containers or volumes that it is about, without what they must have."""
    what, _, details = violation.partition(" (")
    subject = re.match(r"(?:pod or )?((?:containers?|volumes?) \"[^)]*?\")(?: must| uses?|\)|$)", details)
    return f"{what} ({subject[1]})" if subject else violation if len(violation) < _SHORT else what


def _list_quoted(violation: str) -> list[str]:
    """Return the containers that a violation names."""
    match = _CONTAINERS.search(violation)
    return re.findall(r'"([^"]+)"', match[1]) if match else []


def _build_contexts(contexts: dict[str, Json], workload: Workload) -> Json:
    """Return the part of a pod spec that sets the securityContext of some containers."""
    init = {each.get("name") for each in workload.pod_spec.get("initContainers") or ()}
    spec: Json = {}
    for name, context in contexts.items():
        field = "initContainers" if name in init else "containers"
        spec.setdefault(field, []).append({"name": name, "securityContext": context})
    return spec


# --- other refusals -------------------------------------------------------------------------------------------------


def _explain_invalid(refusal: Refusal, workload: Workload) -> LiveCause | None:
    match = _INVALID.match(refusal.message)
    if match is None:
        return None
    errors = re.sub(r"^\[(.*)\]$", r"\1", match[1])
    where = _template_owner(workload)
    if added := _find_added(errors, workload):
        text = f"the pod is invalid: {errors}. The template of {where} has no {added}, so that an admission webhook"
        text += " or plugin added it"
        what = f"see which mutating webhooks change the pods of {workload.namespace}, and correct what they add"
        look = "kubectl get mutatingwebhookconfigurations"
        return _make(refusal, "webhook-made-invalid", text, None, [make_remedy(what)], look)
    text = f"the pod that the template of {where} describes is invalid: {errors}"
    if default := _find_default_limit(errors, workload):
        container, resource, requested, limit, who = default
        text += f". {begin_sentence(who)} gives container {container} the {resource} limit {limit}:"
        text += " the template states none"
        spec = {"containers": [{"name": container, "resources": {"limits": {resource: requested}}}]}
        remedies = [change_template(workload, f"state a {resource} limit of at least the request", spec)]
        return _make(refusal, "template-invalid", text, where, remedies)
    field = errors.partition(":")[0]
    what = f"correct {field} in the template of {where}"
    if not is_template_mutable(workload):
        what += f", which cannot be changed: delete {workload.label} and create it again"
    return _make(refusal, "template-invalid", text, where, [make_remedy(what)])


def _find_default_limit(errors: str, workload: Workload) -> tuple[str, str, str, str, str] | None:
    """Return the container, the resource, the request, the default limit below it, and the LimitRange that has it.

    None if the template states the limit. Without a LimitRange that has it, a webhook may have set the limit.
    """
    containers = workload.pod_spec.get("containers") or ()
    for index, requested, resource, limit in _REQUESTED.findall(errors):
        container = containers[int(index)] if int(index) < len(containers) else None
        if container is None or resource in ((container.get("resources") or {}).get("limits") or {}):
            continue
        who = f"a LimitRange of namespace {workload.namespace} or a webhook"
        for each in workload.objects.list_objects("LimitRange", workload.namespace).items:
            amounts = [(item.get("default") or {}).get(resource) for item in (each["spec"].get("limits") or ())]
            if any(amount is not None and parse_quantity(amount) == parse_quantity(limit) for amount in amounts):
                who = f"LimitRange {each['metadata']['name']}"
        return container["name"], resource, requested, limit, who
    return None


def _find_added(errors: str, workload: Workload) -> str:
    """Return the first container or volume in errors that the template lacks; "" if it has all, or is unread.

    The StatefulSet controller adds a volume for each of its claim templates before those of the template.
    """
    claims = len(workload.spec.get("volumeClaimTemplates") or ())
    for field, index in _ELEMENT.findall(errors) if workload.pod_spec else ():
        if int(index) >= len(workload.pod_spec.get(field) or ()) + (claims if field == "volumes" else 0):
            return f"{field}[{index}]"
    return ""


def _explain_namespace(refusal: Refusal, workload: Workload) -> LiveCause | None:
    if _TERMINATING not in refusal.message:
        return None
    namespace = workload.namespace
    text = f"namespace {namespace} is being deleted, and nothing can be created in it"
    what = f"create {workload.label} in another namespace, or create {namespace} again when it is gone"
    inspect = f"kubectl get namespace {namespace} -o jsonpath='{{.status.conditions}}'"
    return _make(refusal, "namespace-terminating", text, f"Namespace/{namespace}", [make_remedy(what)], inspect)


def _explain_claim_in_deletion(refusal: Refusal, workload: Workload) -> LiveCause | None:
    """Return the cause that a StatefulSet makes no pod as long as the claim of its number is being deleted."""
    match = _CLAIM_DELETED.search(refusal.message)
    if match is None:
        return None
    name = match[1]
    of, claim = f"PersistentVolumeClaim/{name}", workload.objects.get("PersistentVolumeClaim", name, workload.namespace)
    if claim.is_absent:
        text = f"claim {name} was being deleted at the last attempt; it is gone now, and the controller tries again"
        return _make(refusal, "claim-terminating", text, of)
    held = describe_finalizers(claim.object or {"metadata": {}})
    text = f"claim {name} is being deleted{held}, and {workload.label} makes claim and pod anew when it is gone"
    what = "let what holds the claim finish" if held else f"see what keeps claim {name}"
    what += ": its pod and a new, empty claim then follow by themselves"
    inspect = workload.kubectl(f"describe pvc {name}")
    return _make(refusal, "claim-terminating", text, of, [make_remedy(what)], inspect)


def _explain_taken(refusal: Refusal, workload: Workload) -> LiveCause | None:
    match = _TAKEN.search(refusal.message)
    if match is None:
        return None
    text = f"a pod or Job named {match[1]} exists already, and {workload.label} does not own it"
    if "object is being deleted" in refusal.message:
        text = f"the earlier {match[1]} is still being deleted, and a new one needs its name"
        return _make(refusal, "name-taken", text, f"Pod/{match[1]}", (), f"kubectl herodotus pod {match[1]}")
    what = f"delete {match[1]} if nothing else needs it, or rename it"
    return _make(refusal, "name-taken", text, f"Pod/{match[1]}", [make_remedy(what)])


def _explain_other(refusal: Refusal, workload: Workload) -> LiveCause:
    selector = workload.pod_spec.get("nodeSelector") or {}
    listed = ", ".join(f"{key}={value}" for key, value in selector.items()) or "none"
    advice = find_remedy("admission", refusal.original, owner=_template_owner(workload), selector=listed)
    remedies = [make_remedy(advice)] if advice else []
    verb = "the API server refuses it" if _REFUSES.search(refusal.original) else "the attempt failed"
    return _make(refusal, "creation-refused", f"{verb}: {refusal.message}", None, remedies)


def _make(
    refusal: Refusal,
    code: str,
    text: str,
    of: str | None = None,
    remedies: list[Remedy] | tuple[Remedy, ...] = (),
    inspect: str = "",
) -> LiveCause:
    return make_cause(code, text, refusal.source, of=of, at=refusal.at, remedies=remedies, inspect=inspect)


_EXPLAIN: Final[tuple[Callable[[Refusal, Any], LiveCause | None], ...]] = (
    _explain_failed_webhook,
    _explain_denial,
    _explain_patch,
    explain_quota,
    explain_limit_range,
    _explain_pod_security,
    _explain_unlisted_secret,
    _explain_reference,
    _explain_claim_in_deletion,
    _explain_namespace,
    _explain_taken,
    _explain_invalid,
)
