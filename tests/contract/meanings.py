"""What the references say that no code describes: variables of the environment, and kube-scheduler's own fields."""

from __future__ import annotations

from typing import Final

from herodotus_agents import settings
from scheduler.config.extenders import Extender, ManagedResource, TlsConfig
from scheduler.config.types import ClientConnection, Configuration, LeaderElection, PluginRef, ProfileConfig

# What a process reads of its environment. Those of the extender service and the annotators are in their settings.
VARIABLES: Final = {
    "kubectl herodotus": {
        "HERODOTUS_ENDPOINT": "as `--endpoint`",
        "HERODOTUS_SERVICE": "as `--service`",
        "KUBECONFIG": "as kubectl's: files, the first of which that says something counts",
        "KUBECACHEDIR": "as kubectl's: where it is remembered how the service is reached (default `~/.kube/cache`)",
        "KUBECTL_PATH": "the kubectl that is asked (default: the one on PATH)",
        "KUBECTL_HERODOTUS_PAGER": "shows screens that are longer than the terminal; empty or `cat`: none",
        "PAGER": "the same, where the one above is not set (default less)",
        "NO_COLOR": "no colour, whatever its value",
        "TERM": "`dumb`: no colour",
        "COLUMNS": "columns of the terminal, instead of asking it",
        "HERODOTUS_DEBUG": "`1`: the traceback of an unexpected error",
        "PATH": "where kubectl is looked for",
        "HOME": "where `~` is; on Windows `USERPROFILE`",
    },
    "scheduler": {
        "KUBECONFIG": "where there is no `--kubeconfig`; before the service account of a pod",
        "KUBERNETES_SERVICE_HOST": "set by Kubernetes: the service account of the pod is used",
    },
    "decisions service": {
        "HERODOTUS_DATABASE_URL": "where there is neither `--data` nor `--database-url`: keeps a password out of"
        " the list of processes",
        "XDG_STATE_HOME": "the database's folder, where nothing else says it (default `~/.local/state`)",
        "KUBECONFIG": "where there is no `--kubeconfig`; before the service account of a pod",
        "KUBERNETES_SERVICE_HOST": "set by Kubernetes: the service account of the pod is used",
    },
    "extender service and annotators": {
        "CLUSTER_CONF": "`in-cluster`, `out-of-cluster`, or a kubeconfig's path",
        "KUBERNETES_SERVICE_HOST": "set by Kubernetes: the service account of the pod is used",
        "LOG_LEVEL": f"{', '.join(settings.LEVELS)}",
    },
    "install.sh": {
        "PYTHON": "the interpreter (default python3)",
        "XDG_DATA_HOME": "where the private environment is (default `~/.local/share`)",
    },
}
# Of kube-scheduler's own fields; a plugin's arguments say theirs themselves.
MEANINGS: Final[dict[type, dict[str, str]]] = {
    Configuration: {
        "apiVersion": "",
        "kind": "",
        "parallelism": "threads that bind pods",
        "leaderElection": "below",
        "clientConnection": "below",
        "enableProfiling": "`/debug` on the HTTPS port",
        "enableContentionProfiling": "read, without effect",
        "percentageOfNodesToScore": "per cent of the nodes at which the search for feasible ones may end; absent or 0:"
        " every node (kube-scheduler: a share that falls with their number; `--adaptive-sampling`)",
        "podInitialBackoffSeconds": "wait after the first failed attempt; doubled with each further one",
        "podMaxBackoffSeconds": "the longest such wait",
        "profiles": "below; pods choose one by `spec.schedulerName`",
        "extenders": "below; asked in this order",
        "delayCacheUntilActive": "read, without effect",
    },
    LeaderElection: {
        "leaderElect": "`--no-leader-elect` wins",
        "leaseDuration": "a Lease that was not renewed for so long may be taken",
        "renewDeadline": "who could not renew it for so long gives up, and ends",
        "retryPeriod": "between tries",
        "resourceLock": "nothing else is there any more",
        "resourceName": "kube-scheduler's default is kube-scheduler",
        "resourceNamespace": "",
    },
    ClientConnection: {
        "kubeconfig": "as `--kubeconfig`",
        "acceptContentTypes": "read, without effect",
        "contentType": "read, without effect: JSON is spoken",
        "qps": "read, without effect",
        "burst": "read, without effect",
    },
    ProfileConfig: {
        "schedulerName": "required where there are several profiles",
        "percentageOfNodesToScore": "instead of the file's",
        "plugins": "what is enabled and disabled, by extension point; `*` in `disabled`: all",
        "pluginConfig": "arguments: `name`, `args`",
    },
    PluginRef: {"name": "", "weight": "of a score plugin; 0: 1, or what it is by default"},
    Extender: {
        "urlPrefix": "required",
        "filterVerb": "appended to the prefix; empty: not asked",
        "preemptVerb": "likewise",
        "prioritizeVerb": "likewise",
        "bindVerb": "likewise; one extender at most binds",
        "weight": "of its scores; required with `prioritizeVerb`",
        "enableHTTPS": "also where the prefix says http",
        "tlsConfig": "below",
        "httpTimeout": "of a call",
        "nodeCacheCapable": "it is sent names of nodes alone",
        "managedResources": "it is asked only about pods that request one of these",
        "ignorable": "where it fails, pods are placed without it",
    },
    TlsConfig: {
        "insecure": "its certificate is not verified",
        "serverName": "the name in its certificate",
        "certFile": "the certificate shown to it",
        "keyFile": "the key to that",
        "caFile": "the authority of its certificate",
        "certData": "instead of the file: PEM, base64",
        "keyData": "likewise",
        "caData": "likewise",
    },
    ManagedResource: {
        "name": "",
        "ignoredByScheduler": "NodeResourcesFit does not count it",
    },
}
