"""What messages about a pod's sandbox, images and containers ask for: of kubelets, runtimes and registries.

Owns: the patterns and the remedies, in the form that `topics` describes. Does not own: which message explains a pod.

Sources: Kubernetes v1.33 to v1.36 (pkg/kubelet), containerd, CRI-O, runc, and public reports.
"""

from __future__ import annotations

from typing import Final

from herodotus_answers.live.messages.topics import RemediesByTopic

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

REMEDIES: Final[RemediesByTopic] = {
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
            r'plugin type="([^"]+)".*(?:\b429\b|too ?many ?requests)',
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
            "use a build of {image} that is made for {platform}, in {owner}, or let the pod select nodes of an"
            " architecture that it has",
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
}
