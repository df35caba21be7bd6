"""Messages of kubelets, registries, container runtimes and drivers, as people report them, and what they ask for."""

from __future__ import annotations

import pytest

from herodotus_answers.kubelet_messages import Topic, find_remedy

FACTS = {
    "node": "n1",
    "platform": "n1 (arm64)",
    "owner": "Deployment/web",
    "container": "container app",
    "image": "registry.example/web:1",
    "runtime": "gvisor",
    "driver": "csi.example",
    "storage_class": "gold",
    "server": "hook",
    "selector": "pool=b",
}


@pytest.mark.parametrize(
    ("topic", "message", "remedy"),
    [
        ("image", "registry.example/web:1: not found", "the registry has no registry.example/web:1"),
        ("image", "no match for platform in manifest: not found", "n1 (arm64)"),
        ("image", "pull access denied, repository does not exist or may require authorization", "imagePullSecret"),
        ("image", "429 Too Many Requests - Server message: toomanyrequests", "limit"),
        ("image", "tls: failed to verify certificate: x509: certificate signed by unknown authority", "trust"),
        ("image", "dial tcp: lookup registry.example on 10.0.0.10:53: no such host", "name resolution"),
        ("image", "dial tcp 10.1.2.3:443: i/o timeout", "reachable from n1"),
        ("image", "write /var/lib/containerd/x: no space left on device", "free disk space on n1"),
        ("image", "http: server gave HTTP response to HTTPS client", "TLS"),
        ("image", "", "correct the image in Deployment/web if"),
        ("sandbox", 'no runtime for "runsc" is configured', "handler runsc"),
        ("sandbox", 'plugin type="calico" failed (add): stat /var/lib/calico/nodename: no such file', "plugin calico"),
        ("sandbox", "no IP addresses available in range set: 10.244.1.1-10.244.1.254", "free addresses"),
        ("sandbox", "network is not ready: container runtime network not ready: cni plugin not initialized", "network"),
        ("sandbox", "words that nobody knows", ""),
        (
            "sandbox",
            'plugin type="multus" failed (add): find a network-attachment-definition (vlan) in namespace (radio)',
            "NetworkAttachmentDefinition vlan in namespace radio",
        ),
        (
            "sandbox",
            'failed to reserve sandbox name "web-0": name "web-0" is reserved for "b2"',
            "runtime of n1 is slow",
        ),
        (
            "volume",
            "driver name nfs.csi.k8s.io not found in the list of registered CSI drivers",
            "driver nfs.csi.k8s.io",
        ),
        ("volume", "CSINode n1 does not contain driver ebs.csi.aws.com", "driver ebs.csi.aws.com"),
        ("volume", "hostPath type check failed: /data is not a directory", "make /data on n1"),
        ("volume", "mount.nfs: access denied by server while mounting nas:/export", "let the storage server allow n1"),
        ("volume", "mount: wrong fs type, bad option, bad superblock on /dev/sdb", "file system"),
        ("volume", "volume data has volumeMode Filesystem, but is specified in volumeDevices", "volumeMode: Block"),
        ("volume", "volume data has volumeMode Block, but is specified in volumeMounts", "volumeMode: Filesystem"),
        ("volume", 'rpc error: code = NotFound desc = Volume "vol-1" not found', "what its volume held is lost"),
        ("volume", 'failed to fetch token: serviceaccounts "app" not found', "create the ServiceAccount app"),
        ("volume", "'fsck' found errors on device /dev/sdb but could not correct them", "(fsck) on n1"),
        ("volume", "applyFSGroup failed for vol x: lchown /data: operation not permitted", "drop fsGroup"),
        ("start", "container init was OOM-killed (memory limit too low?)", "raise the memory limit"),
        ("start", "unable to find user app: no matching entries in passwd file", "by number (runAsUser)"),
        ("start", 'chdir to cwd ("/app") set in config.json failed: permission denied', "let its user enter /app"),
        ("start", "container has runAsNonRoot and image will run as root", "runAsUser"),
        ("start", "container has runAsNonRoot and image has non-numeric user (app), cannot verify", "user app"),
        ("start", 'exec: "/bin/bash": stat /bin/bash: no such file or directory', "has /bin/bash"),
        ("start", 'exec: "/run.sh": permission denied', "make /run.sh executable"),
        ("start", "exec /app: exec format error", "n1 (arm64)"),
        ("start", "couldn't find key token in Secret shop/api-keys", "key token to Secret api-keys"),
        ("start", 'configmap "web-conf" not found', "create the configmap web-conf"),
        ("end", "exit code 0", "Job"),
        ("end", "exit code 127", "command"),
        ("end", "exit code 139", "crashes in itself"),
        ("end", "exit code 132", "processor of n1"),
        ("end", "exit code 1", ""),
        (
            "eviction",
            'Usage of EmptyDir volume "cache" exceeds the limit "1Gi". ',
            "sizeLimit of volume cache, now 1Gi",
        ),
        ("eviction", 'Container app exceeded its local ephemeral storage limit "2Gi". ', "container app, now 2Gi"),
        ("eviction", "Pod ephemeral local storage usage exceeds the total limit of containers 3Gi. ", "now 3Gi"),
        ("eviction", "The node was low on resource: pids. Threshold quantity: 10, available: 3. ", "process ids of n1"),
        ("rejection", "unavailable for nvidia.com/gpu. Requested: 1, Available: 0", "nvidia.com/gpu run on n1"),
        ("rejection", "can't allocate unregistered device nvidia.com/gpu, which is unexpected", "nvidia.com/gpu"),
        ("provision", "UnauthorizedOperation: You are not authorized to perform this", "grant csi.example the rights"),
        ("provision", "code = ResourceExhausted desc = pool aggr1 has 1.2Ti left", "free or add storage"),
        ("provision", "(QUOTA_EXCEEDED): Quota 'SSD_TOTAL_GB' exceeded", "raise the quota"),
        ("provision", "no topology key found on CSINode w2", "node plugin of csi.example"),
        ("provision", 'failed to get secret: secrets "ceph" not found', "create the Secret ceph"),
        ("provision", "no volume plugin matched name: kubernetes.io/glusterfs", "class of a CSI driver"),
        ("image", "Source image rejected: A signature was required, but no signature exists", "sign registry.example"),
        ("image", "couldn't parse image name: invalid reference format", "no image can have the name"),
        ("devices", "DRA driver gpu.example is not registered", "DRA driver gpu.example run on n1"),
        ("admission", "pod node label selector conflicts with its namespace node label selector", "(pool=b)"),
        ("admission", "is forbidden: words of a plugin", "as the message demands"),
        ("admission", "words that nobody knows", ""),
        ("provision", "words that nobody knows", "mend what csi.example reports"),
        ("webhook", "x509: certificate signed by unknown authority", "put the CA of the certificate of hook"),
        ("webhook", "x509: certificate has expired or is not yet valid: current time", "renew the certificate of hook"),
        ("webhook", "x509: certificate is valid for a.svc, not hook.svc", "for the name that the API server calls"),
        ("webhook", "the server could not find the requested resource", "correct the path"),
        ("webhook", "connect: connection refused", "make hook run and answer"),
        ("rejection", "Resources cannot be allocated with Topology locality", "NUMA"),
    ],
)
def test_messages_have_a_remedy(topic: Topic, message: str, remedy: str) -> None:
    text = find_remedy(topic, message, **FACTS)
    assert remedy in text if remedy else text == ""
