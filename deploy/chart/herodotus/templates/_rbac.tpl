{{/* Parts of roles that several components have. */}}

{{/* (list . "COMPONENT"), here and below. */}}
{{- define "herodotus.rbac.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "herodotus.name" . }}
  namespace: {{ toYaml (index . 0).Release.Namespace }}
  labels:
    {{- include "herodotus.labels" . | nindent 4 }}
automountServiceAccountToken: false # the pod that needs it says so
{{- end }}

{{- define "herodotus.rbac.binding" -}}
{{ include "herodotus.rbac.grant" (list "ClusterRole" (include "herodotus.name" .) (include "herodotus.subject" . | fromYamlArray)) }}
{{- end }}

{{/* What the API server publishes for servers that take client certificates or a front proxy. */}}
{{- define "herodotus.rbac.authentication" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "herodotus.name" . }}-authentication-reader
  namespace: kube-system
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: extension-apiserver-authentication-reader
subjects:
{{ include "herodotus.subject" . }}
{{- end }}

{{/* (list . "COMPONENT"): the right to read the authority that the service publishes; empty where it publishes none. */}}
{{- define "herodotus.rbac.authority" -}}
{{- $root := index . 0 -}}
{{- if and $root.Values.endpoint.enabled (include "herodotus.tls.published" $root) -}}
{{- $name := printf "%s-ca" (include "herodotus.name" .) -}}
---
# The authority of the decisions service's certificate, which the service publishes in this ConfigMap.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ toYaml $root.Release.Namespace }}
rules:
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "herodotus.tls.published" $root }}]
  verbs: [get]
---
{{ include "herodotus.rbac.grant" (list "Role" $name (include "herodotus.subject" . | fromYamlArray) $root.Release.Namespace) }}
{{- end }}
{{- end }}

{{/* What plugins look at (scheduler/engine/objects/watched_kinds.py), the cluster's name, and who asks for metrics. */}}
{{- define "herodotus.rbac.reads" -}}
- apiGroups: [""]
  resources: [nodes, pods, namespaces, services, replicationcontrollers, persistentvolumes, persistentvolumeclaims]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [replicasets, statefulsets]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets] # what preemption must respect
  verbs: [list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses, csinodes, csidrivers, csistoragecapacities, volumeattachments]
  verbs: [list, watch]
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims, resourceclaimtemplates, deviceclasses, resourceslices, devicetaintrules]
  verbs: [list, watch]
- apiGroups: [scheduling.k8s.io]
  resources: [podgroups]
  verbs: [list, watch] # with the feature gate GenericWorkload
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list] # what admission would make of a pod that is only asked about
# Questions about node groups (scheduler/engine/objects/autoscaling.py); absent kinds do no harm.
- apiGroups: [karpenter.sh]
  resources: [nodepools, nodeclaims]
  verbs: [list]
- apiGroups: [cluster.x-k8s.io]
  resources: [machinedeployments, machinesets, machines]
  verbs: [list]
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [list] # their pods take room on a new node
- apiGroups: [""]
  resources: [events]
  verbs: [list] # what an autoscaler reports about a pod in question
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [cluster-autoscaler-status]
  verbs: [get]
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get] # its UID names the cluster in every record
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create] # who asks for /metrics
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create] # and whether they may
{{- end }}

{{/* (list "ClusterRole" NAME SUBJECTS), or (list "Role" NAME SUBJECTS NAMESPACE): the role's binding, of the same name. */}}
{{- define "herodotus.rbac.grant" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ index . 0 }}Binding
metadata:
  name: {{ index . 1 }}
  {{- if eq (index . 0) "Role" }}
  namespace: {{ toYaml (index . 3) }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 0 }}
  name: {{ index . 1 }}
subjects: {{- include "herodotus.rbac.subjects" (index . 2) }}
{{- end }}

{{/* Subjects, with the API group that their kind has. */}}
{{- define "herodotus.rbac.subjects" -}}
{{- range . }}
- kind: {{ .kind }}
  name: {{ toYaml .name }}
{{- if eq .kind "ServiceAccount" }}
  namespace: {{ required "access: a ServiceAccount has a namespace" .namespace | toYaml }}
{{- else }}
  apiGroup: rbac.authorization.k8s.io
{{- end }}
{{- end }}
{{- end }}
