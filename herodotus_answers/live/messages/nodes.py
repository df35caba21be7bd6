"""What messages about a node ask for: why it evicts or rejects pods, is not ready, or has no device ready.

Owns: the patterns and the remedies, in the form that `topics` describes. Does not own: which message explains a pod.

Sources: Kubernetes v1.33 to v1.36 (pkg/kubelet), containerd, CRI-O, runc, and public reports.
"""

from __future__ import annotations

from typing import Final

from herodotus_answers.live.messages.topics import Remedies, RemediesByTopic

# What the kubelet says where the plugin of a DRA driver has not registered.
UNREGISTERED_DRIVER: Final = r"(?:DRA|plugin) (?:driver|name) \"?([\w.-]+)\"?.* (?:not registered|not found)"

REMEDIES: Final[RemediesByTopic] = {
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
            r"forbidden sysctl|SysctlForbidden",
            "allow the sysctl on {node} (allowedUnsafeSysctls of the kubelet), or drop it from {owner}",
        ),
        (
            r"(?:unregistered device|unhealthy devices|unavailable for) ([\w./-]*\w)",
            "make the device plugin of {0} run on {node}, and its devices healthy",
        ),
        (
            r"/device-plugins/(\S+)\.sock",
            "make the device plugin of {0}.sock run on {node}: it does not answer",
        ),
        (
            r"no set of running pods found to reclaim resources: \[\(res: ([\w./-]+)",
            "make room for {0} on {node}: it has no pods of lower priority that the kubelet could end for this one",
        ),
        (
            r"cannot get node info",
            "see why the kubelet of {node} cannot read its own Node: the API server, and the kubelet's credentials",
        ),
        (
            r"SupplementalGroupsPolicy",
            "run the pod on nodes whose runtime supports it (status.features.supplementalGroupsPolicy), or drop"
            " supplementalGroupsPolicy: Strict from {owner}",
        ),
        (
            r"PodLevelResources",
            "enable the feature gate PodLevelResources for the kubelet of {node}, or state resources of the containers"
            " alone in {owner}",
        ),
        (
            r"node features that are not available: ([^;]+)",
            "run the pod on nodes that declare {0} (status.declaredFeatures), or upgrade the kubelet of {node}",
        ),
        (
            r"AppArmor is not enabled",
            "run the pod on nodes with AppArmor, or set appArmorProfile to Unconfined in {owner}, if it may run"
            " without",
        ),
        (
            r"memory ?manager.*NUMA|NUMA nodes? with enough memory",
            "request memory that one NUMA node of {node} has free, or relax its kubelet's memoryManagerPolicy",
        ),
        (
            r"cpu ?manager.*not enough|not enough (?:free physical )?cpus",
            "request fewer whole cores than {node} has free for exclusive use, or relax its kubelet's cpuManagerPolicy",
        ),
        (
            r"Resources cannot be allocated with Topology locality",
            "request what fits into one NUMA node of {node}, or relax its kubelet's topologyManagerPolicy",
        ),
        (
            r"kubernetes\.io/os\W+label doesn't match",
            "let a scheduler choose the node, without nodeName in {owner}, or correct its selector kubernetes.io/os:"
            " {node} has another operating system",
        ),
        (
            r"Predicate NodeAffinity failed|didn't match Pod's node affinity",
            "correct the node selector or affinity of {owner}, or the labels of {node}, if one of them is wrong",
        ),
        (
            r"enough resource: (\S+), requested: \d+, used: (\d+), capacity: (\d+)",
            "make room on {node}, where {1} of {2} {0} are used; if {owner} has a nodeName, let a scheduler choose the"
            " node instead",
        ),
        (
            r"SMT Alignment Error: requested (\d+) cpus not multiple cpus per core = (\d+)",
            "request a multiple of {1} cpus in {owner}, not {0}: {node} gives whole cores alone (full-pcpus-only of its"
            " kubelet)",
        ),
        (
            r"OS field doesn't match node OS",
            "select nodes of the operating system of spec.os in {owner} (kubernetes.io/os), or correct spec.os:"
            " {node} has another one, and a pod as it is may be sent there again",
        ),
        (r"shutting down", "start {node} again, or remove it"),
        (r"no space left on device", "free disk space on {node}: its kubelet can write nothing"),
    ),
    # what the kubelet of a node that is not ready reports
    "node": (
        (
            r"container runtime (?:is|status)|PLEG",
            "start the container runtime of {node} again: its kubelet runs, and reports that the runtime does not",
        ),
        (
            r"NetworkPluginNotReady|network is not ready|\bcni\b",
            "install or repair the network plugin on {node}: see its own pod there",
        ),
        (r"shutting down", "start {node} again, or remove it"),
        (r"CSINode|\bCSI\b", "see why the kubelet of {node} cannot update its CSINode: the API server, and its log"),
        (r"", "mend what the kubelet of {node} reports, or replace the node"),
    ),
    "devices": (
        (
            UNREGISTERED_DRIVER,
            "make the DRA driver {0} run on {node}: its plugin is not registered there",
        ),
        (
            r"not allowed to use ResourceClaim|not (?:reserved|allocated)",
            "delete the pod, so that it is scheduled anew: its claim is not allocated and reserved for it",
        ),
        (
            r"different UID \S+ still exists",
            "wait until the kubelet of {node} has released the devices of the earlier claim of that name: its pod was"
            " deleted by force",
        ),
        (
            r"connection re|deadline ?exceeded|code = Unavailable|error while dialing",
            "make the DRA driver of the claim answer on {node}: see its own pod there",
        ),
        (r"", "see what the DRA driver of the claim logs on {node}"),
    ),
}

# Faults of a node's kernel and disks, whatever the message is about.
FAULTS: Final[Remedies] = (
    (
        r"dial unix \S*/(?:containerd|crio|cri-dockerd|dockershim|docker)\.sock|container runtime is down",
        "start the container runtime of {node} again: it does not answer its kubelet",
    ),
    (
        r"fork/exec \S+ resource temporarily unavailable|pthread_create failed",
        "end processes on {node}, or raise its limits of processes: it cannot start another",
    ),
    (
        r"not support user namespaces|user namespaces? (?:is |are )?not supported|newuidmap|idmap(?:ped)? mount"
        r"|mount_setattr",
        "run the pod on nodes whose kernel, file system and container runtime support user namespaces, or drop"
        " hostUsers: false from {owner}",
    ),
    (
        r"cgroup\S*:? .*(?:no space left on device|cannot allocate memory)",
        "reboot {node}, or replace it: its kernel cannot create another control group, although its disk may have"
        " space; on another node the pod would start",
    ),
    (
        r"(?:inotify|fsnotify|fs watcher).*(?:no space left on device|too many open files)",
        "raise fs.inotify.max_user_watches and max_user_instances on {node}: its kernel allows no more watches",
    ),
    (
        r"(?:/var/log/|/var/lib/(?:containerd|docker|containers)/|/var/lib/kubelet/(?!pods/)|/(?:var/)?run/"
        r"|kubernetes\.io~(?:empty-dir|configmap|secret|projected|downward-api)/)\S*: read-only file system",
        "cordon {node} and repair its disk, whose file system is read-only, or replace the node; if something makes the"
        " pod anew, delete it, so that it gets another node",
    ),
    (
        r'configmap "kube-root-ca\.crt" not found',
        "see why kube-controller-manager does not publish kube-root-ca.crt, which it makes in every namespace",
    ),
)
