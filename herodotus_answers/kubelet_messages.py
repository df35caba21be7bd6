"""What the messages of kubelets, container runtimes, registries and volume drivers ask for: who has to do what.

The first pattern that occurs in a message has the remedy. Nothing in the cluster confirms it, so every remedy is
labelled as not checked. A message without a pattern has no remedy: then its own words have to do.

Owns: the patterns and the remedies. Does not own: which message explains a pod (`kubelet_causes`, `pod_ending`). Pure.

Sources: Kubernetes v1.33 to v1.36 (pkg/kubelet, pkg/volume, pkg/controller/volume/attachdetach), containerd, CRI-O,
runc, and public reports.
"""

from __future__ import annotations

import re
from typing import Final, Literal

Topic = Literal["image", "sandbox", "volume", "start", "end", "eviction", "rejection"]

# By topic: a pattern of the message, and the remedy. A remedy may use the groups of the pattern as {0}, {1}, and what
# `find_remedy` is given: {node}, {platform} (its architecture), {image}, {container}, {runtime} (the RuntimeClass), and
# {owner}, whose pod template or manifest has to change.
_REMEDIES: Final[dict[Topic, tuple[tuple[str, str], ...]]] = {
    "image": (
        (
            r"no match for platform|no matching manifest|exec format error",
            "use an image that is built for {platform}, or let the pod select nodes of an architecture that it has",
        ),
        (
            r"toomanyrequests|\b429\b|rate ?limit",
            "wait until the registry's limit allows more pulls, pull with credentials (imagePullSecrets of {owner}), or"
            " use a mirror",
        ),
        (r"x509|certificate", "let the container runtime of {node} trust the registry's certificate, or renew it"),
        (
            r"HTTP response to HTTPS client",
            "serve the registry of {image} with TLS, or list it as insecure in the container runtime of {node}",
        ),
        (r"no space left on device", "free disk space on {node}: the image does not fit"),
        (
            r"no such host|server misbehaving",
            "correct the registry's name in {image}, or the name resolution of {node}",
        ),
        (
            r"denied|unauthorized|authoriz|authentication required|no basic auth|\b40[13]\b",
            "let the pod pull {image}: an imagePullSecret with credentials for it in {owner} or its ServiceAccount; if"
            " there is no such repository, correct the name",
        ),
        (
            r"not found|manifest unknown|does not exist|NotFound",
            "correct the image in {owner}, or push it: the registry has no {image}",
        ),
        (
            r"i/o timeout|connection re|no route to host|deadline exceeded|TLS handshake timeout|EOF|\b50[0234]\b",
            "make the registry of {image} reachable from {node} (network, firewall, proxy, the registry itself)",
        ),
        (
            r"",
            "correct the image in {owner} if its name or tag is wrong; otherwise give {node} access to the registry"
            " (imagePullSecrets, network)",
        ),
    ),
    "sandbox": (
        (
            r'no runtime for "([^"]+)" is configured|runtime handler "?([\w.-]+)"?',
            "configure the handler {0} in the container runtime of {node}, or let RuntimeClass {runtime} select nodes"
            " that have it",
        ),
        (
            r"failed to assign an IP|no IP addresses available|no (?:more|available) (?:IPs?|addresses)|IPAM",
            "free addresses for pods on {node}: fewer pods there, or a larger range for its network plugin",
        ),
        (
            r"sandbox image|pause",
            "let {node} pull the sandbox image, which is set in its container runtime",
        ),
        (
            r'plugin type="([^"]+)"',
            "make the network plugin {0} work on {node}: see its own pod there",
        ),
        (
            r"NetworkPluginNotReady|network is not ready|cni",
            "install or repair the network plugin on {node}: see its own pod there",
        ),
    ),
    "volume": (
        (
            r"driver name (\S+) not found in the list of registered|does not contain driver (\S+)",
            "make the CSI driver {0} run on {node}: its node plugin is not registered there",
        ),
        (
            r"hostPath type check failed: (\S+) is not (.*)",
            "make {0} on {node} what the volume's hostPath.type demands, or change the type in {owner}",
        ),
        (
            r"maximum number of (?:attached )?volumes|attachment limit|AttachVolumeLimit",
            "end pods with volumes on {node}, which has as many as can be attached",
        ),
        (
            r"UnauthorizedOperation|AccessDenied|not authorized|PermissionDenied|\bforbidden\b",
            "grant the storage driver the rights that the message names",
        ),
        (r"(configmap|secret) \"([^\"]+)\" not found", "create the {0} {1}, or correct its name in {owner}"),
        (
            r"NotFound|not found|does not exist|No such file",
            "restore what the message names on the storage, or correct the volume: it is not there",
        ),
        (
            r"wrong fs type|bad superblock|bad option",
            "install the file system's tools on {node}, or repair the volume's file system",
        ),
        (
            r"access denied by server|permission denied",
            "let the storage server allow {node} to mount the volume",
        ),
        (
            r"connection refused|timed out|no route to host|deadline exceeded",
            "make the storage of the volume, and its driver on {node}, answer",
        ),
    ),
    "start": (
        (
            r"runAsNonRoot and image will run as root",
            "set runAsUser of {container} to a user that is not root, in {owner}, or use an image with such a user",
        ),
        (
            r"image has non-numeric user \(([^)]*)\)",
            "set runAsUser of {container} to the number of user {0}, in {owner}",
        ),
        (
            r"couldn't find key (\S+) in (ConfigMap|Secret) \S*?([^/\s]+)$",
            "add the key {0} to {1} {2}, or correct it in {owner}",
        ),
        (r"exec format error", "use an image that is built for {platform}, in {owner}"),
        (
            r'exec: "([^"]+)": (?:permission denied)',
            "make {0} executable in the image, or correct the command of {container} in {owner}",
        ),
        (
            r'exec: "([^"]+)"|stat (\S+): no such file',
            "correct the command of {container} in {owner}, or use an image that has {0}",
        ),
        (
            r"mount a directory onto a file|not a directory",
            "correct mountPath or subPath of {container} in {owner}: one is a file and the other a directory",
        ),
        (r"subPath", "correct subPath of {container} in {owner}, or what is there in the volume"),
        (r"(configmap|secret) \"([^\"]+)\" not found", "create the {0} {1}, or correct its name in {owner}"),
        (
            r"name .* is reserved for|context deadline exceeded",
            "see why the container runtime of {node} is slow: its log, the load of the node and of its disk",
        ),
    ),
    # how a container ended, as `exit code N`
    "end": (
        (
            r"exit code 0\b",
            "let the program of {container} run on, or run it as a Job: what ends, even with success, is started again",
        ),
        (r"exit code 12[67]\b", "correct the command of {container} in {owner}: the image lacks it, or cannot run it"),
    ),
    "eviction": (
        (
            r"Container (\S+) was using ([^,\s]+), request is ([^,\s]+)",
            "request what container {0} uses, {1} and not {2}, in {owner}, or let it use less: pods that use more than"
            " they request are evicted first",
        ),
        (
            r'EmptyDir volume "([^"]+)" exceeds the limit "([^"]+)"',
            "raise sizeLimit of volume {0}, now {1}, in {owner}, or write less to it",
        ),
        (
            r'Container (\S+) exceeded its local ephemeral storage limit "([^"]+)"',
            "raise the ephemeral-storage limit of container {0}, now {1}, in {owner}, or write less",
        ),
        (
            r"local storage usage exceeds the total limit of containers (\S+)",
            "raise the ephemeral-storage limits in {owner}, now {0} together, or write less",
        ),
        (r"low on resource: (?:ephemeral-storage|inodes|imagefs|nodefs)|DiskPressure", "free disk space on {node}"),
        (r"low on resource: pids|PIDPressure", "find what uses up the process ids of {node}, and end it"),
        (r"low on resource: memory|MemoryPressure", "find what uses the memory of {node} beyond its requests"),
    ),
    "rejection": (
        (
            r"(?:unregistered device|unhealthy devices|unavailable for) ([\w./-]*\w)",
            "make the device plugin of {0} run on {node}, and its devices healthy",
        ),
        (
            r"Resources cannot be allocated with Topology locality",
            "request what fits into one NUMA node of {node}, or relax its kubelet's topologyManagerPolicy",
        ),
        (
            r"Predicate NodeAffinity failed|didn't match Pod's node affinity",
            "remove nodeName from {owner}, or name a node with the labels that its selector and affinity want",
        ),
        (r"shutting down", "start {node} again, or remove it"),
    ),
}


def find_remedy(topic: Topic, message: str, **facts: str) -> str:
    """Return what has to be done about a message; "" if that is not known."""
    for pattern, text in _REMEDIES[topic]:
        if match := re.search(pattern, message, re.IGNORECASE):
            return text.format(*filter(None, match.groups()), **facts)
    return ""
