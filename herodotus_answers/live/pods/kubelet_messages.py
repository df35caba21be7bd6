"""What messages of kubelets, container runtimes, registries, drivers and webhooks ask for: who has to do what.

The first pattern that occurs in a message has the remedy. Nothing in the cluster confirms it, so every remedy is
labelled as not checked. For a message without a pattern, the remedy names at most the log to read.

Owns: the patterns and the remedies. Does not own: those of volumes on nodes (`volume_messages`), which message explains
a pod (`kubelet_causes`, `pod_ending`, `claim_causes`, `refusal_causes`). Pure.

Sources: Kubernetes v1.33 to v1.36 (pkg/kubelet, pkg/volume, pkg/controller/volume/attachdetach), containerd, CRI-O,
runc, and public reports.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from herodotus_answers.live.pods.volume_messages import UNREGISTERED_DRIVER, VOLUME_REMEDIES

Topic = Literal[
    "image",
    "sandbox",
    "volume",
    "start",
    "start-event",
    "end",
    "end-of-pod",
    "eviction",
    "rejection",
    "node",
    "devices",
    "provision",
    "webhook",
    "admission",
    "policy",
    "claim",
    "new-node",
    "autoscaler",
    "kueue",
]

# What a storage system says that has no space left.
LACKS_SPACE: Final = (
    r"ResourceExhausted|OutOfCapacity|(?:\bno|enough|insufficient|out of) (?:free )?(?:space|capacity|storage)"
)

# What the kubelet says where the node plugin of a CSI or a DRA driver has not registered, by topic.
_UNREGISTERED: Final[dict[str, str]] = {
    "volume": UNREGISTERED_DRIVER,
    "devices": r"(?:DRA|plugin) (?:driver|name) \"?([\w.-]+)\"?.* (?:not registered|not found)",
}

# Remedies of two topics.
_UNAUTHORIZED_PLUGIN: Final = (
    r'plugin type="([^"]+)".*(?:unauthorized|forbidden)',
    "give the network plugin {0} on {node} valid credentials, such as by a restart of its own pod there",
)
_NO_VIRTUALIZATION: Final = (
    r"/dev/kvm|\bKVM\b",
    "run the pod on nodes with hardware virtualization, by the scheduling of its RuntimeClass: {node} lacks or does not"
    " allow it",
)

# By topic: a pattern of the message, and the remedy. A remedy may use the groups of the pattern as {0}, {1}, and what
# `find_remedy` is given: {node}, {platform} (its architecture), {image}, {container}, {limit} (of its memory),
# {runtime} (the RuntimeClass), and {owner}, whose pod template or manifest has to change; of a claim {driver} and
# {storage_class}, and {remake:HOW}, how the claim is made anew; of a webhook {server}.
_REMEDIES: Final[dict[Topic, tuple[tuple[str, str], ...]]] = {
    "image": (
        (
            r"no match for platform|no matching manifest|no image found in (?:image index|manifest list)"
            r"|exec format error",
            "use an image that is built for {platform}, or let the pod select nodes of a platform that it has",
        ),
        (
            r"pull QPS exceeded",
            "wait: the kubelet of {node} limits its own pulls, and tries again; if many pods wait for it, raise"
            " registryPullQPS and registryBurst in its configuration",
        ),
        (
            r"toomanyrequests|\b429\b|rate ?limit",
            "wait until the registry's limit allows more pulls, pull with credentials (imagePullSecrets of {owner}), or"
            " use a mirror",
        ),
        (
            r"signature",
            "sign {image} as the policy of the container runtime of {node} demands, or let the policy accept it",
        ),
        (
            r"parse image|invalid reference format|InvalidImageName",
            "correct the image in {owner}: no image can have the name {image}",
        ),
        (
            r"proxyconnect",
            "make the HTTP proxy that the container runtime of {node} uses answer, or exempt the registry from it"
            " (NO_PROXY)",
        ),
        (r"current time \S+ is before", "set the clock of {node}, which is before the registry's certificate"),
        (r"x509|certificate", "let the container runtime of {node} trust the registry's certificate, or renew it"),
        (
            r"HTTP response to HTTPS client",
            "serve the registry of {image} with TLS, or list it as insecure in the container runtime of {node}",
        ),
        (
            r"media type text/html|invalid character '<' looking for beginning of value",
            "let {node} reach the registry of {image} itself, or mend the mirror, the proxy or the address that answers"
            " in its place: a web page came where the image should be",
        ),
        (
            r"media type .*(?:no longer|not) supported|schema ?1|manifest\.v1\+",
            "use a newer build of {image} in {owner}, or push it again with a newer tool: the container runtime of"
            " {node} no longer reads its format",
        ),
        (
            r"short-name|short name mode",
            "write the image in {owner} with its registry, not {image}: the container runtime of {node} takes no short"
            " names",
        ),
        (r"no space left on device|disk quota exceeded", "free disk space on {node}: the image does not fit"),
        (
            r"insufficient UIDs or GIDs",
            "give the container runtime of {node} more user ids (/etc/subuid, /etc/subgid), or use an image without"
            " files of such owners",
        ),
        (
            r"[Ff]ailed to inspect image",
            "see why the container runtime of {node} does not answer: its log, the load of the node and of its disk",
        ),
        (
            r"failed to (?:extract|register|verify) layer|ApplyLayer|invalid tar header|failed size validation"
            r"|unexpected commit digest|digest mismatch|unpack image on snapshotter|extraction snapshot|whiteout file",
            "pull {image} again, push it again, or use another build: {node} cannot unpack what it gets; if other nodes"
            " can, see the container runtime and the disk of {node}",
        ),
        (
            r"no such host|server misbehaving|failure in name resolution",
            "correct the registry's name in {image}, or the name resolution of {node}",
        ),
        (
            r"i/o timeout|timed out|connection re|no route to host|network is unreachable|deadline exceeded"
            r"|context canceled|handshake (?:timeout|failure)|\bEOF\b|\b50[0234]\b|registry is unavailable",
            "make the registry of {image} reachable from {node} (network, firewall, proxy, the registry itself)",
        ),
        (
            r"denied|unauthorized|authoriz|authentication required|no basic auth|\b40[13]\b",
            "let the pod pull {image}: give an imagePullSecret of {owner} or its ServiceAccount, or the account of"
            " {node} at a registry of its cloud, the right to; if there is no such repository, correct the name",
        ),
        (
            r"not found|manifest unknown|does not exist|NotFound|image has been deleted",
            "correct the image in {owner}, or push it: the registry has no {image}",
        ),
        (
            r"",
            "correct the image in {owner} if its name or tag is wrong; otherwise give {node} access to the registry"
            " (imagePullSecrets, network)",
        ),
    ),
    "sandbox": (
        (
            r"FQDN (\S+) is too long",
            "drop setHostnameAsFQDN from {owner}, or shorten its subdomain, its name or the name of its namespace:"
            " a host name has at most 64 characters",
        ),
        (
            r'no runtime for "([^"]+)" is configured|runtime handler "?([\w.-]+)"?',
            "configure the handler {0} in the container runtime of {node}, or let RuntimeClass {runtime} select nodes"
            " that have it",
        ),
        (
            r"failed to assign an IP|no (?:free )?IP addresses|no (?:more|available|free) (?:IPs?|addresses)"
            r"|range is full|failed to request \d* ?IPv?[46] addresses|No IPs left",
            "free addresses for pods on {node}: fewer pods there, or a larger range for its network plugin",
        ),
        (
            r"sandbox image|/pause:",
            "let {node} pull the sandbox image, which is set in its container runtime",
        ),
        (
            r"network-attachment-definition \((\S+)\) in namespace \((\S+)\)",
            "create the NetworkAttachmentDefinition {0} in namespace {1}, or correct the annotation of {owner} that"
            " names it",
        ),
        (
            r'failed to find plugin "([^"]+)" in path \[([^\]]+)\]',
            "put the program {0} into {1} on {node}: install the network plugin there again, or the package of CNI"
            " plugins",
        ),
        (
            r'plugin type="([^"]+)".*(?:\b429\b|[Tt]oo ?[Mm]any ?[Rr]equests)',
            "wait: the network plugin {0} on {node} limits how many pods it sets up at once; if it lasts, see its own"
            " pod there",
        ),
        (
            r'"([\w.-]+)" already has an IP address different from',
            "drain {node}, and delete the interface {0} there, which the network plugin then makes anew: it has an"
            " address of an earlier range of pods",
        ),
        _UNAUTHORIZED_PLUGIN,
        (
            r'plugin type="([^"]+)".*iptables',
            "see why iptables fails on {node}, which the network plugin {0} calls: its lock, its kernel modules, legacy"
            " or nft",
        ),
        (
            r'plugin type="([^"]+)"',
            "make the network plugin {0} work on {node}: see its own pod there",
        ),
        (
            r"write sysctl key (\S+?):? |/proc/sys/(\S+?): no such file",
            "drop the sysctl {0} from {owner}, or load the kernel module that provides it on {node}",
        ),
        (
            r"/proc/sys/(\S+?): (?:permission denied|read-only|operation not permitted)",
            "drop the sysctl {0} from {owner}: the container runtime of {node} may not set it",
        ),
        (
            r"(/\S*resolv\.conf): no such file",
            "make {0} on {node}, or let resolvConf of its kubelet name a file that exists there",
        ),
        _NO_VIRTUALIZATION,
        (
            r"memory limit too low|OOM-killed",
            "raise the memory limits in {owner}: the runtime cannot even set up the pod with them",
        ),
        (
            r"cgroupsPath to be of format",
            "set the same cgroup driver for the kubelet and the container runtime of {node}",
        ),
        (
            r"name .*is reserved",
            "see on {node} why an earlier attempt at the sandbox has not ended: the load, the disk, the network plugin;"
            " a restart of its container runtime frees the name",
        ),
        (
            r"deadline ?exceeded",
            "see why the container runtime of {node} is slow: its log, the load of the node and of its disk",
        ),
        (
            r"no space left on device",
            "free disk space on {node}: the sandbox has no room",
        ),
        (
            r"NetworkPluginNotReady|network is not ready|\bcni\b",
            "install or repair the network plugin on {node}: see its own pod there",
        ),
        (r"", "see the logs of the kubelet and of the container runtime of {node}"),
    ),
    "volume": VOLUME_REMEDIES,
    "start": (
        (
            r"PostStartHook|[Ll]ifecycle hook",
            "mend the postStart hook of {container} in {owner}, or what it calls: the kubelet ends a container whose"
            " hook fails",
        ),
        (
            r"runAsNonRoot and (?:image will run as root|runAsUser)|breaks non-root policy",
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
        (
            r"exec format error|operating system does not match",
            "use a build of {image} that is made for {platform}, in {owner}, or nodes of the platform that it is for",
        ),
        (
            r"memory limit too low|OOM-killed|OOM killed|minimum memory limit",
            "raise the memory limit of {container}{limit} in {owner}: the runtime cannot even start it with that",
        ),
        (
            r"unable to find user (\S+?):|no users found|no matching entries in passwd",
            "run {container} in {owner} as a user that its image has, or by number (runAsUser)",
        ),
        (
            r"chdir to cwd \(\"([^\"]+)\"\)",
            "correct workingDir of {container} in {owner}, or let its user enter {0} in the image",
        ),
        (
            r"failed to get (?:reader from content store|image from containerd)|content digest \S+ not found"
            r"|snapshot \S+ does not exist",
            "remove {image} from {node} (crictl rmi), so that the kubelet pulls it again: what {node} has of it is"
            " incomplete",
        ),
        (
            r"unsatisfied condition: ([\w.]+ ?[<>=]+ ?[\w.]+)",
            "update the GPU driver of {node}, or use an image in {owner} that its driver can serve: {image}"
            " demands {0}",
        ),
        (
            r"nvidia-container-cli|CDI device|select device driver|/dev/nvidia|libcuda",
            "make the GPU driver and the container toolkit of {node} work: the runtime cannot give the device",
        ),
        (
            r"seccomp profile|AppArmor profile|apparmor",
            "load the profile that the message names on {node}, or name another in {owner}",
        ),
        (
            r"capability",
            "correct the capabilities of {container} in {owner}: the runtime or the kernel of {node} does not know or"
            " allow the one that the message names",
        ),
        (
            r'custom device "([^"]+)"',
            "make the device {0} on {node}, such as by loading its kernel module, or run the pod on nodes that have it",
        ),
        (
            r"failed to sync (?:configmap|secret) cache|services have not yet been read",
            "wait for the kubelet of {node}, which has not read the object yet; if that lasts, start the kubelet again",
        ),
        (
            r'environment variable key "([^"]+)" not found in file "([^"]+)"',
            "write {0} into the file {1} before {container} starts, or correct its fileKeyRef in {owner}",
        ),
        (
            r"couldn't parse env file",
            "correct the file that fileKeyRef of {container} in {owner} names: KEY=VALUE lines",
        ),
        (
            r"recursive read-only",
            "drop recursiveReadOnly of {container} in {owner}, or use nodes whose kernel and runtime support it",
        ),
        (
            r'path "?([^"\s]+)"? is .*not (?:a )?shared',
            "make {0} a shared mount on {node} (mount --make-rshared), or drop mountPropagation of {container} in"
            " {owner}",
        ),
        (
            r'make mountpoint "([^"]+)".*read-only',
            "correct mountPath {0} of {container} in {owner}: it is inside a mount in which nothing can be made",
        ),
        (r"no space left on device", "free disk space on {node}"),
        (
            r"no command specified",
            "state the command of {container} in {owner}: {image} has none of its own",
        ),
        _NO_VIRTUALIZATION,
        (
            r"exec:? (/\S+): no such file",
            "correct the command of {container} in {owner}, or use an image that has {0} and the interpreter that its"
            " first line names, without Windows line ends",
        ),
        (
            r"system cannot find the (?:file|path) specified",
            "correct the command of {container} in {owner}, or use an image that has it: Windows does not find it",
        ),
        (
            r"volume-subpaths/([^/\s]+)/.*no such file or directory",
            "delete the pod, so that it is made anew: what subPath of {container} was bound to in volume {0} is no"
            " longer there, as after a change of its ConfigMap or Secret; a mount of the whole volume has no such"
            " problem",
        ),
        (
            r'exec: "([^"]+)": (?:permission denied)',
            "make {0} executable in the image, or correct the command of {container} in {owner}",
        ),
        (
            r"namespace path: lstat /proc/",
            "wait: the pod's sandbox ended while {container} started, and is made anew; if that lasts, see the load and"
            " the memory of {node}",
        ),
        (
            r"fulfil mount request: open (\S+): no such file",
            "make {0} on {node}, which the runtime mounts into {container}, or drop the mount from {owner}",
        ),
        (
            r'exec: "([^"]+)"|\bstat (\S+): no such file',
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
        (
            r"relabel|file label|setxattr|/proc/self/attr/",
            "correct seLinuxOptions in {owner}, or use volumes whose file system takes SELinux labels",
        ),
        (
            r"",
            "see in the logs of the kubelet and of the container runtime of {node} what keeps {container} from"
            " starting",
        ),
    ),
    # what else is reported about a pod that starts
    "start-event": (
        (
            r"SELinuxLabel .*conflicts with pod (\S+)",
            "give {owner} the seLinuxOptions of pod {0}, which uses the same volume, or set seLinuxChangePolicy:"
            " Recursive in both",
        ),
    ),
    # how a container ended, as `exit code N`, with its last words after a colon
    "end": (
        (
            r": .*exec format error",
            "use an image that is built for {platform}, in {owner}, or let the pod select nodes of an architecture that"
            " it has",
        ),
        (
            r"^exit code 0\b",
            "let the program of {container} run on, or run it as a Job: what ends, even with success, is started again",
        ),
        (
            r"^exit code 137:? *$",
            "see in the kernel log of {node} whether the kernel killed {container} for lack of memory; otherwise"
            " something sent it SIGKILL",
        ),
        (
            r"^exit code 132\b",
            "use an image that is built for the processor of {node}: the program has an instruction that it lacks",
        ),
        (
            r"^exit code 13[4-69]\b",
            "mend the program of {container}, which crashes in itself: see its log and a core dump, or use another"
            " version of the image",
        ),
        (
            r"iptables validation failed|ready for Istio|[Ff]ailed to validate networking configuration",
            "delete the pod once the network plugin of the mesh is ready on {node}: it redirects the traffic of a pod"
            " only when the pod's sandbox is made",
        ),
        (
            r"^exit code 12[67]:? *(?:$|.*(?:not found|no such file|permission denied|cannot execute|not executable))",
            "correct the command of {container} in {owner}, unless its log says otherwise: by the exit code, the image"
            " lacks it or cannot run it",
        ),
    ),
    # why the kubelet cannot end a pod
    "end-of-pod": (
        _UNAUTHORIZED_PLUGIN,
        (r'plugin type="([^"]+)"', "make the network plugin {0} work on {node}: see its own pod there"),
        (
            r"(?:signal init|kill container).*permission denied",
            "update the AppArmor profile of the container runtime on {node}, which forbids it to end the container; a"
            " restart of {node} ends it",
        ),
        (r"[Uu]n[Mm]ount|device is busy|target is busy", "see on {node} what still uses the volume, and end that"),
        (
            r"destroy network|[Cc][Nn][Ii]",
            "make the network plugin of {node} work: see its own pod there, and its configuration",
        ),
        (
            r"deadline exceeded|DeadlineExceeded|not stopped|did not (?:exit|kill)|connection refused",
            "start the container runtime of {node} again, or the node: it does not end the container",
        ),
        (r"", "see the log of the kubelet and of the container runtime of {node}"),
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
            _UNREGISTERED["devices"],
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
    # what a provisioner says that makes no volume for a claim
    "provision": (
        (
            r"storageclass\S* \"([\w.-]+)\" not found",
            "create StorageClass {0}, or {remake:with a class that exists}",
        ),
        (
            r"no volume plugin matched",
            "{remake:with a class of a CSI driver}: Kubernetes has no provisioner {driver} any more",
        ),
        (
            r"selector is not supported",
            "{remake:without selector}: {driver} makes new volumes, and selects none that exist",
        ),
        (
            r"mount ?options",
            "make StorageClass {storage_class} anew without the mountOptions that {driver} does not support",
        ),
        (
            r"operation with the given .*already exists|code = Aborted",
            "see why the earlier attempt of {driver} has not ended: the log of its controller, and the storage"
            " behind it;"
            " the claim itself needs no change",
        ),
        (
            r"code = AlreadyExists|different (?:capacity|size|parameters)",
            "delete the volume of the same name at the storage, if nothing needs its data: {driver} made it for an"
            " earlier"
            " attempt, with another size or other parameters",
        ),
        (
            r"Unauthorized|AccessDenied|not authorized|PermissionDenied|\bforbidden\b|AuthorizationFailed",
            "grant {driver} the rights that the message names, in the role or the credentials of its controller",
        ),
        (
            r"NoCredentialProviders|InvalidClientTokenId|Expired ?Token|authenticat|credentials|\b401\b",
            "give the controller of {driver} valid credentials for the storage",
        ),
        (
            r"no node was specified",
            "make StorageClass {storage_class} anew with volumeBindingMode: WaitForFirstConsumer, and then the claim:"
            " {driver} makes a volume on the node of the pod, which nothing knows before",
        ),
        (
            r"RequestLimitExceeded|Throttl|rate ?limit|too many requests|\b429\b",
            "wait: the provider limits requests, and {driver} tries again; if it lasts, find what else asks so often",
        ),
        (
            r"quota|limit ?exceeded|maximum number of",
            "raise the quota that the message names at the provider, or delete volumes that nothing needs",
        ),
        (
            r"secrets? \"?([\w.-]+)\"? not found|failed to get secret \S*?([\w.-]+)\b",
            "create the Secret {0} that StorageClass {storage_class} names for {driver}",
        ),
        (
            LACKS_SPACE,
            "free or add storage for StorageClass {storage_class}, or {remake:with less}",
        ),
        (
            r"snapshot (\S+) (?:is not ready|not bound)",
            "wait until VolumeSnapshot {0} is ready to use, or see why it is not: its conditions and events, and the"
            " controller of snapshots; the claim then gets its volume by itself",
        ),
        (
            r"(?:source PVC|claim in dataSource)\b.* not bound",
            "wait until the claim that this one clones has its volume, or see why it has none",
        ),
        (
            r"requested (?:volume )?size \S+ is less than the size (\S+)",
            "{remake:with at least the size of its source ({0} bytes)}",
        ),
        (
            r"DataSource|snapshot",
            "make what the claim's dataSource names, or {remake:with a dataSource that exists}",
        ),
        (
            r"access ?mode|volume capabilit",
            "{remake:with an access mode that {driver} supports, or with another class}",
        ),
        (
            r"OutOfRange|minimum|maximum (?:volume )?size|too (?:small|large)",
            "{remake:with a size that {driver} allows}",
        ),
        (
            r"InvalidArgument|invalid ?(?:option|parameter|value|input)|unknown parameter|template from params"
            r"|unsupported|not supported|(?:Sku|Type)NotAvailable",
            "correct the parameters of StorageClass {storage_class}, which has to be made anew for that, or"
            " {remake:with another class}",
        ),
        (
            r"does ?n[o']t support|lacks? (?:the )?capability",
            "{remake:with a class whose driver supports that}: {driver} does not",
        ),
        (
            r"\bKMS|encryption key",
            "let {driver} use the key that StorageClass {storage_class} names, or correct the key there",
        ),
        (
            r"topology",
            "make the node plugin of {driver} run on the node that was chosen, so that its CSINode has the topology",
        ),
        (
            r"Unavailable|Deadline ?Exceeded|connection refused|timed? ?out|no route|no such host|dialing",
            "make the storage behind {driver} answer its controller",
        ),
        (r"", "mend what {driver} reports, or {remake:with another class}"),
    ),
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


# Faults of a node's kernel and disks, tried before the patterns of these topics.
_NODE_PATTERNS: Final[tuple[tuple[str, str], ...]] = (
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
_ON_NODES: Final[tuple[Topic, ...]] = (
    "image",
    "sandbox",
    "volume",
    "start",
    "start-event",
    "end-of-pod",
    "rejection",
    "node",
)


def find_unregistered_driver(topic: Topic, message: str) -> str:
    """Return the CSI or DRA driver of which a message says that it is not registered on the node; "" if of none."""
    match = re.search(_UNREGISTERED[topic], message, re.IGNORECASE) if topic in _UNREGISTERED else None
    return next(filter(None, match.groups()), "") if match else ""


def find_remedy(topic: Topic, message: str, **facts: object) -> str:
    """Return what has to be done about a message; "" if that is not known. `facts` are what remedies name."""
    remedies = (*_NODE_PATTERNS, *_REMEDIES[topic]) if topic in _ON_NODES else _REMEDIES[topic]
    for pattern, text in remedies:
        if match := re.search(pattern, message, re.IGNORECASE):
            return str(text.format(*filter(None, match.groups()), **facts))
    return ""
