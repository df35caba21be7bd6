"""Meanings that the references need and no code states: environment variables and kube-scheduler's own fields."""

from __future__ import annotations

from typing import Final

from herodotus_agents import settings
from scheduler.config.extenders import ExtenderConfig, ManagedResource, TlsConfig
from scheduler.config.types import (
    ClientConnection,
    Configuration,
    LeaderElectionConfiguration,
    PluginRef,
    ProfileConfig,
)

# What a process reads of its environment. Those of the extender service and the annotators are in their settings.
VARIABLES: Final = {
    "kubectl herodotus": {
        "HERODOTUS_ENDPOINT": "as `--endpoint`",
        "HERODOTUS_SERVICE": "as `--service`",
        "KUBECONFIG": "as for kubectl: a list of files; the first one that sets a value takes precedence",
        "KUBECACHEDIR": "as for kubectl: caches how the service is reached (default `~/.kube/cache`)",
        "KUBECTL_PATH": "the kubectl to run (default: the one on PATH)",
        "KUBECTL_HERODOTUS_PAGER": "pager for screens longer than the terminal; empty or `cat`: none",
        "PAGER": "the same, if `KUBECTL_HERODOTUS_PAGER` is not set (default less)",
        "NO_COLOR": "no colour, if set to any value",
        "TERM": "`dumb`: no colour",
        "COLUMNS": "width of the screen in columns, instead of the terminal's",
        "HERODOTUS_DEBUG": "`1`: print the traceback of an unexpected error",
        "PATH": "where to look for kubectl",
        "HOME": "the home directory `~`; on Windows `USERPROFILE`",
    },
    "scheduler": {
        "KUBECONFIG": "used without `--kubeconfig`; takes precedence over the service account of a pod",
        "KUBERNETES_SERVICE_HOST": "set by Kubernetes: the service account of the pod is used",
    },
    "decisions service": {
        "HERODOTUS_DATABASE_URL": "used without `--data` and `--database-url`: keeps a password out of"
        " the list of processes",
        "HERODOTUS_READ_DATABASE_URL": "used without `--read-database-url`",
        "XDG_STATE_HOME": "parent of the database's directory, if nothing else names one (default `~/.local/state`)",
        "KUBECONFIG": "used without `--kubeconfig`; takes precedence over the service account of a pod",
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
        "parallelism": "number of threads that bind pods",
        "leaderElection": "see below",
        "clientConnection": "see below",
        "enableProfiling": "serve `/debug` on the HTTPS port",
        "enableContentionProfiling": "read, without effect",
        "percentageOfNodesToScore": "percentage of nodes after which the search for feasible ones may end; absent or 0:"
        " every node (kube-scheduler: an adaptive share; `--adaptive-sampling`)",
        "podInitialBackoffSeconds": "wait after the first failed attempt; doubled with each further one",
        "podMaxBackoffSeconds": "the longest such wait",
        "profiles": "see below; pods choose one by `spec.schedulerName`",
        "extenders": "see below; called in this order",
        "delayCacheUntilActive": "read, without effect",
        "featureGates": "feature gates by name, which `--feature-gates` overrides; kube-scheduler has only the flag",
        "kubernetesVersion": "version of Kubernetes whose rules apply, such as v1.34.2; kube-scheduler has none",
        "emulatedVersion": "version whose feature gates apply, as with kube-scheduler's --emulated-version",
        "versionSource": "where kubernetesVersion comes from, as records state it; set by the process",
    },
    LeaderElectionConfiguration: {
        "leaderElect": "`--no-leader-elect` takes precedence",
        "leaseDuration": "how long a Lease is valid without renewal",
        "renewDeadline": "a leader that cannot renew the Lease for so long ends",
        "retryPeriod": "time between tries",
        "resourceLock": "`leases` is the only type left",
        "resourceName": "kube-scheduler's default is kube-scheduler",
        "resourceNamespace": "",
    },
    ClientConnection: {
        "kubeconfig": "as `--kubeconfig`",
        "acceptContentTypes": "read, without effect",
        "contentType": "read, without effect: requests use JSON",
        "qps": "read, without effect",
        "burst": "read, without effect",
    },
    ProfileConfig: {
        "schedulerName": "required if there are several profiles",
        "percentageOfNodesToScore": "overrides the file's",
        "plugins": "what is enabled and disabled, by extension point; `*` in `disabled`: all",
        "pluginConfig": "arguments: `name`, `args`",
    },
    PluginRef: {"name": "", "weight": "weight of a score plugin; 0 means 1, or the plugin's default weight"},
    ExtenderConfig: {
        "urlPrefix": "required",
        "filterVerb": "appended to the prefix; empty: not called",
        "preemptVerb": "likewise",
        "prioritizeVerb": "likewise",
        "bindVerb": "likewise; at most one extender binds",
        "weight": "weight of its scores; required with `prioritizeVerb`",
        "enableHTTPS": "use TLS even if the prefix begins with http",
        "tlsConfig": "see below",
        "httpTimeout": "time-out of a call",
        "nodeCacheCapable": "send it only names of nodes",
        "managedResources": "call it only for pods that request one of these",
        "ignorable": "if it fails, pods are scheduled without it",
    },
    TlsConfig: {
        "insecure": "do not verify its certificate",
        "serverName": "the name in its certificate",
        "certFile": "client certificate",
        "keyFile": "key of the client certificate",
        "caFile": "authority of its certificate",
        "certData": "instead of the file: PEM, base64",
        "keyData": "likewise",
        "caData": "likewise",
    },
    ManagedResource: {
        "name": "",
        "ignoredByScheduler": "NodeResourcesFit does not count it",
    },
}
