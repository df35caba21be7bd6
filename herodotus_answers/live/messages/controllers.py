"""What messages of admission, controllers, queues and autoscalers ask for.

Owns: the patterns and the remedies, in the form that `topics` describes. Does not own: which message explains a pod.

Sources: Kubernetes v1.33 to v1.36 (plugin/pkg/admission, pkg/controller), Kueue, Karpenter, cluster-autoscaler.
"""

from __future__ import annotations

from typing import Final

from herodotus_answers.live.messages.topics import RemediesByTopic

REMEDIES: Final[RemediesByTopic] = {
    # why Kueue does not admit a Job
    "kueue": (
        (
            r"(LocalQueue|ClusterQueue) (\S+) is (?:inactive|stopped)",
            "let {0} {1} admit Jobs again: see its stopPolicy and its condition Active",
        ),
        (
            r"(LocalQueue|ClusterQueue) (\S+) (?:doesn't|does not) exist",
            "create {0} {1}, or correct the label kueue.x-k8s.io/queue-name of {owner}",
        ),
        (
            r"insufficient unused quota (?:in cohort )?for (\S+) in flavor ([^\s,]+)",
            "wait until other Jobs of the ClusterQueue end, request less {0}, or raise its quota in flavor {1}",
        ),
        (
            r"insufficient quota for (\S+) in flavor ([^\s,]+)",
            "request less {0}, or raise the quota of the ClusterQueue in flavor {1}: it never has that much",
        ),
    ),
    # why Volcano lets a group wait for its queue
    "queue": (
        (
            r"queue resource quota insufficient",
            "wait until other pods of the queue end, request less, or raise the capability of Volcano's Queue",
        ),
    ),
    # why the API server cannot call a webhook
    "webhook": (
        (
            r"unknown authority|self-signed|failed to parse certificate|no certificate",
            "put the CA of the certificate of {server} into caBundle of the webhook's configuration (cert-manager's CA"
            " injector does that), or give the server a certificate of that CA",
        ),
        (r"certificate has expired|not yet valid", "renew the certificate of {server}"),
        (
            r"certificate is (?:not )?valid for|IP SANs|Common Name",
            "give {server} a certificate for the name that the API server calls",
        ),
        (
            r"could not find the requested resource|\b404\b",
            "correct the path of the webhook, which {server} does not serve",
        ),
        (
            r"deadline exceeded|timeout|no route to host",
            "make {server} run and answer in time, also through the network between the API server and the pods",
        ),
        (r"", "make {server} run and answer"),
    ),
    # why the API server refuses a pod, beyond quotas, policies, webhooks and lacking objects
    "admission": (
        (
            r"selector conflicts with its namespace",
            "correct nodeSelector ({selector}) in the template of {owner}, or the annotation"
            " scheduler.alpha.kubernetes.io/node-selector of the namespace",
        ),
        (
            r"labels conflict with its namespace whitelist",
            "drop the node selector ({selector}) from the template of {owner}, or let the configuration of the"
            " admission"
            " plugin PodNodeSelector allow it in the namespace",
        ),
        (
            r"conflict: runtimeClass\.scheduling\.nodeSelector\[(\S+)\] = (\S+);",
            "drop the node selector {0} from the template of {owner}, or name another runtimeClassName: its"
            " RuntimeClass"
            " selects {0}={1}",
        ),
        (
            r"Overhead (?:doesn't match|set without)",
            "drop overhead from {owner}: the RuntimeClass of the pod sets it at admission",
        ),
        (
            r"the (?:integer|string) value of (\w+) \(\S+\) must not be provided in pod spec; priority admission",
            "leave {0} out of {owner}: its priorityClassName, or the default class, sets it; a webhook may add it",
        ),
        (
            r"has TopologyKey (\S+) but only key (\S+) is allowed",
            "use topologyKey {1}, not {0}, in the required pod anti-affinity of {owner}, or make it preferred",
        ),
        (r"namespaces \"([^\"]+)\" not found", "create namespace {0} again, or {owner} in another one"),
        (
            r"MutatingAdmissionPolicy '([^']+)'",
            "correct MutatingAdmissionPolicy {0}, whose mutation fails for the pod (whoever owns it)",
        ),
        (
            r"request is too large",
            "make the template of {owner} smaller, such as its annotations and environment: the API server cannot"
            " store it",
        ),
        (
            r"decode slice|cannot unmarshal|strict decoding|readObjectStart|json: ",
            "see which mutating webhooks change pods, and correct the one that makes a pod which cannot be read",
        ),
        (
            r"namespace tolerations whitelist",
            "drop from {owner} the tolerations that the annotations of the namespace do not allow",
        ),
        (
            r"no API token found",
            "see why kube-controller-manager makes no token for the pods' ServiceAccount",
        ),
        (r"priorityClass is not permitted", "run {owner} in kube-system, or without that priorityClassName"),
        (
            r"cannot set blockOwnerDeletion|cannot create resource",
            "grant the account that the message names the right that it lacks (a Role and its binding)",
        ),
        (r"image policy webhook", "use an image in {owner} that the image policy allows"),
        (
            r"etcdserver|timed? ?out|too many requests|connection refused|has been modified|not yet ready to handle"
            r"|unable to (?:handle the request|calculate quota)",
            "wait for the controller, which tries again; if it lasts, see kube-apiserver and etcd",
        ),
        (r"forbidden|not allowed|not permitted|denied", "change the template of {owner} as the message demands"),
    ),
    # why a ValidatingAdmissionPolicy refuses a pod
    "policy": (
        (
            r"no params found|params? .*not found",
            "create the parameters that paramRef of ValidatingAdmissionPolicyBinding {binding} names, or correct"
            " paramRef"
            " or its parameterNotFoundAction (whoever owns the policy): no change of the pod helps",
        ),
        (
            r"failed to configure|resulted in error|compilation (?:error|failed)|no such key|no such overload"
            r"|exceeded (?:budget|CPU limit)|runtime cost",
            "correct ValidatingAdmissionPolicy {policy}, which fails by itself (whoever owns it), or state in the"
            " template"
            " of {owner} the field that its expression reads",
        ),
        (r"", "change the template of {owner} as the policy demands"),
    ),
    # why the API server refuses a claim that a controller makes for a pod
    "claim": (
        (
            r"exceeded quota: (\S+), requested: (\S+), used: \S+, limited: (\S+)",
            "delete claims in {namespace} that nothing needs, with the pods that use them, or raise ResourceQuota {0}"
            " (limit {2}; the claim asks {1})",
        ),
        (
            r"failed quota: ([^\s:]+): must specify (.*)",
            "state {1} in {source}: ResourceQuota {0} of {namespace} demands it",
        ),
        (
            r"status unknown for quota: (\S+)",
            "see why kube-controller-manager does not compute the status of ResourceQuota {0}",
        ),
        (
            r"maximum (\S+) usage per \w+ is ([\d.]+\w*)",
            "ask for at most {1} {0} in {source}, or raise the maximum in the LimitRange of {namespace}",
        ),
        (
            r"minimum (\S+) usage per \w+ is ([\d.]+\w*)",
            "ask for at least {1} {0} in {source}, or lower the minimum in the LimitRange of {namespace}",
        ),
        (
            r"admission webhook \"([^\"]+)\" denied",
            "change {source} as webhook {0} demands",
        ),
        (
            r"failed calling webhook \"([^\"]+)\"",
            "make the server of webhook {0} run and answer",
        ),
        (
            r"ValidatingAdmissionPolicy '([^']+)'",
            "change {source} as ValidatingAdmissionPolicy {0} demands",
        ),
        (
            r"User \"([^\"]+)\" cannot|cannot set blockOwnerDeletion",
            "grant the account that the message names the right that it lacks (a Role and its binding)",
        ),
        (r"because it is being terminated", "create the pod in another namespace: {namespace} is being deleted"),
        (r"is invalid|Invalid value|Unsupported value", "correct in {source} the field that the message names"),
        (
            r"etcdserver|timed? ?out|too many requests|connection refused|has been modified",
            "wait for kube-controller-manager, which tries again; if it lasts, see kube-apiserver and etcd",
        ),
        (
            r"",
            "change in {source} or the namespace what the message names; kube-controller-manager tries again by itself",
        ),
    ),
    # why an autoscaler, a cloud or a controller of machines makes no node
    "new-node": (
        (
            r"Resource \"([\w./-]+)\" was requested but not registered",
            "make the device plugin of {0} run on {machine}, and see the log of its pod there",
        ),
        (
            r"StartupTaint \"([^\"]+)\" still exists",
            "make the agent run on {machine} that removes its taint {0}, and see the log of its pod there",
        ),
        (
            r"KnownEphemeralTaint \"([^\"]+)\" still exists",
            "see why the kubelet or the cloud controller manager does not remove the taint {0} of {machine}",
        ),
        (r"Node status is NotReady", "see why {machine} is not ready: kubectl describe node {machine}"),
        (
            r"UnregisteredTaintNotFound|taint must be present",
            "let the kubelet of {machine} register with the taint karpenter.sh/unregistered (user data of its"
            " NodeClass)",
        ),
        (
            r"insufficient ?(?:instance)? ?capacity|out of resources|stockout|resource_pool_exhausted"
            r"|AllocationFailed|SkuNotAvailable|no capacity|not have enough capacity",
            "let the pod and the node group use other zones, machine types or purchase options (spot, on demand), or"
            " wait:"
            " the cloud has no such machine now",
        ),
        (
            r"free addresses|IP_SPACE_EXHAUSTED|SubnetIsFull|not enough (?:free )?(?:IP|addresses)|no (?:free"
            r"|available) IP",
            "free addresses in the nodes' subnet, or give the node group another one: no new machine gets an address",
        ),
        (
            r"vcpu|quota|limit ?exceeded|exceed\w* .*limit|Limit of",
            "raise the quota that the message names at the cloud, or let the node group use machines that another quota"
            " counts (whoever runs the cluster)",
        ),
        (
            r"UnauthorizedOperation|AccessDenied|not authorized|forbidden|permission",
            "grant what makes machines the rights that the message names (whoever runs the cluster)",
        ),
        (
            r"NodeClass|launch ?template|\bAMIs?\b|image .*not found|instance profile|security ?group|subnet",
            "correct the machine's template, which the message names (NodeClass, launch template, machine set)",
        ),
        (
            r"not registered with cluster|failed to register|ScaleUpTimedOut|NodeNotFound",
            "see why {machine} does not join: its boot log and its kubelet's, its role (which the cluster has to"
            " admit),"
            " and its way to the API server; the autoscaler gives it up after 15 minutes and tries another",
        ),
        (r"", "mend what the message names about {machine} (whoever runs the cluster)"),
    ),
    # why a HorizontalPodAutoscaler cannot compute a number of pods
    "autoscaler": (
        (
            r"missing request for (\S+) in container (\S+)",
            "state a request for {0} of container {1} in the template of {owner}: the metric is a share of it",
        ),
        (
            r"controlled by multiple HPAs: \[([^\]]+)\]",
            "delete all but one of the autoscalers {0}; one may have several metrics",
        ),
        (
            r"(?:from|for) (custom|external) metrics? API|(custom|external)\.metrics\.k8s\.io",
            "make the {0} metrics API serve the metric: its adapter, and the metric's name there",
        ),
        (
            r"metrics API|metrics\.k8s\.io|no metrics returned|did not receive metrics",
            "make the resource metrics API answer: install metrics-server, or see why it does not run",
        ),
        (
            r"scale is missing a selector",
            "let the scale subresource of {owner} state its selector (labelSelectorPath), by which pods are counted",
        ),
        (
            r"current scale:.*(?:not found|no matches|could not find)",
            "correct scaleTargetRef of the autoscaler: what it names does not exist or cannot be scaled",
        ),
        (
            r"update the target scale",
            "let the API server accept the new number of pods: see its words, such as a webhook's or a policy's",
        ),
    ),
}
