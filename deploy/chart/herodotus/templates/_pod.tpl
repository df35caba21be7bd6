{{/* What all our pods and containers have. */}}

{{/* (list . "COMPONENT" "ACCOUNT" TOKEN): TOKEN says whether the pod is given the account's token. */}}
{{- define "herodotus.pod" -}}
{{- $values := index (index . 0).Values (index . 1) -}}
schedulerName: default-scheduler # never our own: a scheduler that waits for itself waits for ever
serviceAccountName: {{ include "herodotus.name" (list (index . 0) (index . 2)) }}
automountServiceAccountToken: {{ index . 3 }}
enableServiceLinks: false # nothing in its environment but what is written here
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with (index . 0).Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ toYaml . }}
{{- end }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "herodotus.locked" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* (list . "COMPONENT"): replicas on different nodes, where that can be done. */}}
{{- define "herodotus.spread" -}}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "herodotus.selector" . | nindent 6 }}
{{- end }}


{{/* (list . "COMPONENT"): of several replicas one at a time may go. */}}
{{- define "herodotus.disruption" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "herodotus.name" . }}
  namespace: {{ toYaml (index . 0).Release.Namespace }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow # one that does not get ready must not hold up a drain
  selector:
    matchLabels:
      {{- include "herodotus.selector" . | nindent 6 }}
{{- end }}
