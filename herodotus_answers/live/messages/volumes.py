"""What messages about volumes ask for: on a node, and of provisioners that make a volume for a claim.

Owns: the patterns and the remedies, in the form that `topics` describes. Does not own: which message explains a pod.

Sources: Kubernetes v1.33 to v1.36 (pkg/volume, pkg/controller/volume), external-provisioner, drivers, public reports.
"""

from __future__ import annotations

from typing import Final

from herodotus_answers.live.messages.topics import RemediesByTopic

# What a storage system says that has no space left.
LACKS_SPACE: Final = (
    r"ResourceExhausted|OutOfCapacity|(?:\bno|enough|insufficient|out of) (?:free )?(?:space|capacity|storage)"
)

# What the kubelet says where the node plugin of a CSI driver has not registered.
UNREGISTERED_DRIVER: Final = r"driver name (\S+) not found in the list of registered|does not contain driver (\S+)"

REMEDIES: Final[RemediesByTopic] = {
    "volume": (
        (
            UNREGISTERED_DRIVER,
            "make the CSI driver {0} run on {node}: its node plugin is not registered there",
        ),
        (
            r"has volumeMode Filesystem, but is specified in volumeDevices",
            "mount the volume with volumeMounts in place of volumeDevices in {owner}, or make its claim anew with"
            " volumeMode: Block",
        ),
        (
            r"has volumeMode Block, but is specified in volumeMounts",
            "use the volume with volumeDevices in place of volumeMounts in {owner}, or make its claim anew with"
            " volumeMode: Filesystem",
        ),
        (
            r"clustertrustbundle",
            "create the ClusterTrustBundle that the projected volume of {owner} selects by name, or by signerName and"
            " labels, or correct the selection; with optional: true the pod starts without one",
        ),
        (
            r"PodCertificateRequest|credential bundle is not issued",
            "see the PodCertificateRequest of the pod, and why the signer of the volume's podCertificate issues none",
        ),
        (
            r"non-existent (?:config|secret) key: ?(\S+)",
            "add the key {0} to what the volume names, or correct the key in {owner}",
        ),
        (
            r"NodeStageSecretRef (\S+) failed|NodePublishSecretRef (\S+) failed",
            "create the Secret {0}, which the volume or its StorageClass names for the driver",
        ),
        (
            r'User "system:node:',
            "see why the API server does not let the kubelet of {node} read what the message names: it may do so only"
            " for pods that are bound to that node",
        ),
        (
            r'serviceaccounts "([^"]+)" not found',
            "create the ServiceAccount {0} again, or correct serviceAccountName in {owner}",
        ),
        (
            r"failed to fetch token",
            "see why the API server gives the kubelet of {node} no token for the pod's ServiceAccount",
        ),
        (
            r'object "[^"]+"/"([^"]+)" not registered|failed to sync (?:configmap|secret) cache',
            "wait for the kubelet of {node}, which has not read the object yet; if that lasts, start the kubelet again",
        ),
        (
            r"SecretProviderClass\S* \"?([\w.-]+)\"? not found|failed to get secretproviderclass \S*?([\w.-]+), error",
            "create the SecretProviderClass {0}, or correct its name in {owner}",
        ),
        (
            r'volume mode "?Ephemeral"? not supported by driver (\S+)',
            "give {owner} a generic ephemeral volume (ephemeral.volumeClaimTemplate) or a claim in place of the inline"
            " volume: driver {0} makes only volumes of claims",
        ),
        (
            r"timed out waiting for external-attacher of (\S+)",
            "make the controller of {0} run, with its sidecar csi-attacher; if the driver attaches nothing, make its"
            " CSIDriver anew with attachRequired: false",
        ),
        (
            r"(?:At|De)tachVolume\.\w+ failed.*(?:connection refused|timed out|deadline ?exceeded|code = Unavailable)",
            "make the controller of the volume's driver, which attaches volumes, and the storage behind it answer",
        ),
        (
            r'provider not found: provider "([^"]+)"',
            "install provider {0} of the secrets store driver, so that it runs on {node}",
        ),
        (
            r"failed to mount secrets store objects",
            "let the pod's ServiceAccount read in the external store what the SecretProviderClass names, and see that"
            " it is there",
        ),
        (
            r"hostPath type check failed: (\S+) is not (.*)",
            "make {0} on {node} what the volume's hostPath.type demands, or change the type in {owner}",
        ),
        (
            r"maximum number of (?:\w+ )?(?:volumes|disks)|attachment limit|AttachVolumeLimit",
            "end pods with volumes on {node}, which has as many as can be attached",
        ),
        (
            r"UnauthorizedOperation|AccessDenied|not ?authorized|PermissionDenied|NoPermission|\bforbidden\b",
            "grant the storage driver the rights that the message names",
        ),
        (
            r"(configmap|secret|persistentvolumeclaim)s? \"([^\"]+)\" not found",
            "create the {0} {1}, or correct its name in {owner}",
        ),
        (
            r"rpc\.statd is not running",
            "start rpc.statd on {node}, or put nolock into mountOptions of the volume",
        ),
        (
            r"not appear staged|targetpath \S+ is not mounted",
            "delete the pod, so that its volume is staged and mounted anew; if that lasts, see the log of the volume's"
            " driver on {node}",
        ),
        (
            r"list of VolumesInUse|not attached according to node status",
            "wait for the kubelet of {node} to report the volume as in use; if that lasts, start the kubelet again",
        ),
        (
            r"requested NFS version|[Pp]rotocol not supported|(?:incorrect|invalid) mount option",
            "correct the mountOptions of the volume, in its PersistentVolume and StorageClass: the server or the kernel"
            " of {node} does not support them",
        ),
        (
            r"no volume plugin matched",
            "move the data to a volume of a CSI driver: the kubelet of {node} has no plugin for this kind of volume",
        ),
        (
            r'(?:exec: )?"?([\w./-]+)"?: executable file not found',
            "install {0} on {node}, or in the node plugin of the volume's driver",
        ),
        (
            r"[Ss]tale (?:NFS )?file handle|[Tt]ransport endpoint is not connected",
            "make the server or the driver of the volume run, and delete the pod, so that the volume is mounted anew:"
            " what was mounted on {node} no longer exists",
        ),
        (
            r"failed to resolve|could not be resolved|no such host|Name or service not known",
            "correct the name of the volume's server, or the name resolution of {node}",
        ),
        (
            r"(?:instance|node|machine|server|\bVM) \S+ (?:was )?not found",
            "see why the driver does not find {node} at the provider: its providerID, or a machine that was deleted",
        ),
        (
            r"being detached|WhileBeingDetached|attachment is being deleted",
            "wait until the volume is detached from where it was; if that lasts, see its VolumeAttachment and the"
            " controller of its driver",
        ),
        (
            r"ZoneMismatch|(?:different|not in the same) (?:availability )?zone",
            "run the pod in the zone of its volume, which {node} is not in: nodeAffinity of the PersistentVolume says"
            " so to the scheduler",
        ),
        (
            r"feature set mismatch",
            "make the volume with features that the kernel of {node} supports (imageFeatures of its StorageClass), or"
            " update the kernel",
        ),
        (
            r"LUKS|passphrase",
            "correct the passphrase of the encrypted volume, in the Secret that its StorageClass names",
        ),
        (
            r"duplicate UUID",
            "mount the copy with nouuid in mountOptions, or give it another UUID: {node} has its original mounted",
        ),
        (
            r"input/output error",
            "repair the storage of the volume, or its connection to {node}: reading or writing it fails",
        ),
        (
            r"code = NotFound|(?:volume|disk) \S+ (?:was )?not found|(?:volume|disk) \S+ does not exist",
            "restore the volume that the message names, such as from a snapshot or backup; without one, delete the"
            " claim and make it anew: what its volume held is lost",
        ),
        (
            r"device path|iscsiadm: No session|find disk on lun|any path for iscsi(?!.*login failed)"
            r"|could not find device|special device \S+ does not exist",
            "see why the volume does not appear on {node}: its sessions (iSCSI, NVMe), its kernel log, and the log of"
            " the volume's driver there",
        ),
        (
            r"No such file|not found|does not exist",
            "make what the message names on the storage, or correct the volume: it is not there",
        ),
        (
            r"fsck|Structure needs cleaning|bad superblock.*(?:ext\d|xfs)|run xfs_repair|can't read superblock",
            "repair the volume's file system (fsck) on {node} while no pod uses it, or restore it from a backup",
        ),
        (
            r"wrong fs type|bad superblock|bad option|unknown filesystem type|filesystem not supported",
            "install the file system's tools on {node}, or repair the volume's file system",
        ),
        (
            r"applyFSGroup failed|SetVolumeOwnership|chown \S+: operation not permitted",
            "drop fsGroup from {owner}, or let the storage allow the change of the owner: an export that squashes root"
            " refuses it",
        ),
        (
            r"volume ([\w.-]+) is not ready for workloads",
            "see volume {0} in Longhorn, which does not attach it: its state and its replicas (kubectl describe"
            " volumes.longhorn.io {0} -n longhorn-system)",
        ),
        (
            r"operation with the given [Vv]olume\S*.* already exists",
            "see why the driver's earlier attempt at the volume has not ended: the log of its pod on {node}",
        ),
        (
            r"in use by the system|already mounted|mount point busy|device or resource busy|mount error\(16\)",
            "see what else holds the device on {node} (lsblk, multipath -ll): multipathd takes devices that its"
            " configuration does not exclude, and an earlier mount may be left",
        ),
        (
            r"still attached|already attached|currently in .?in-use|in use by another|VolumeInUse|RESOURCE_IN_USE"
            r"|still being used|has watchers",
            "let the other node detach the volume: end the pod that uses it there, or see its VolumeAttachment",
        ),
        (r"no space left on device", "free disk space on {node}"),
        (
            r"access denied by server|permission denied|login failed|authorization failure",
            "let the storage server allow {node} to mount the volume",
        ),
        (
            r"connection re|timed out|no route to host|deadline exceeded|code = Unavailable|error while dialing"
            r"|Operation now in progress|Host is down",
            "make the storage of the volume, and its driver on {node}, answer",
        ),
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
}
