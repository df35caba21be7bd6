{{/* What scheduler and observer have in common: a configuration, a spool, a decisions service that takes their records. */}}

{{- define "herodotus.election" -}}
{{- $given := dict -}}
{{- range $key, $value := .Values.scheduler.configuration.leaderElection -}}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $given $key $value }}{{ end -}}{{/* null: as if it were not there */}}
{{- end -}}
{{- $own := dict "leaderElect" true "resourceNamespace" .Release.Namespace
      "resourceName" (include "herodotus.name" (list . "scheduler")) -}}
{{- if .Values.scheduler.replaceDefaultScheduler -}}
{{- $own = dict "leaderElect" true "resourceNamespace" "kube-system" "resourceName" "kube-scheduler" -}}
{{- end -}}
{{- mergeOverwrite $own $given | toYaml -}}
{{- end }}

{{- define "herodotus.scheduler.configuration" -}}
{{- $own := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration"
      "leaderElection" (include "herodotus.election" . | fromYaml) -}}
{{- if .Values.agents.enabled -}}
{{- $asked := list -}}
{{- range .Values.agents.extenders -}}
{{- $asked = append $asked (merge (dict "urlPrefix" "http://127.0.0.1:8010/scheduler" "nodeCacheCapable" true) .) -}}
{{- end -}}
{{- $_ := set $own "extenders" (concat $asked (.Values.scheduler.configuration.extenders | default list)) -}}
{{- end -}}
{{- merge $own .Values.scheduler.configuration | toYaml -}}
{{- end }}

{{- define "herodotus.observer.configuration" -}}
{{- $own := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" -}}
{{- merge $own .Values.observer.configuration | toYaml -}}
{{- end }}

{{/* Whether the decisions service has a certificate: then records go over TLS, each sender with its token. */}}
{{- define "herodotus.tls" -}}
{{- if ne .Values.endpoint.certificate.source "none" }}true{{ end -}}
{{- end }}

{{- define "herodotus.scheme" -}}
http{{ if include "herodotus.tls" . }}s{{ end }}
{{- end }}

{{/* The name of its port for queries, by which the plugin learns that there is no TLS (herodotus_cli/connection.py). */}}
{{- define "herodotus.queries" -}}
{{ if include "herodotus.tls" . }}queries{{ else }}plain-http{{ end }}
{{- end }}

{{/* What the API server's service proxy, and the right to it, call the service. */}}
{{- define "herodotus.proxied" -}}
{{ include "herodotus.scheme" . }}:{{ include "herodotus.name" (list . "endpoint") }}:{{ if include "herodotus.tls" . }}8000{{ else }}plain-http{{ end }}
{{- end }}

{{/* The service's name in the cluster, which its certificate is for. */}}
{{- define "herodotus.host" -}}
{{ include "herodotus.name" (list . "endpoint") }}.{{ .Release.Namespace }}.svc
{{- end }}

{{/* The Secret with the service's certificate. Each source has its own, for a Secret belongs to whoever made it. */}}
{{- define "herodotus.tls.secret" -}}
{{- $certificate := .Values.endpoint.certificate -}}
{{- $made := get (dict "own" "endpoint-own" "selfSigned" "endpoint-self-signed") $certificate.source | default "endpoint-tls" -}}
{{- ternary $certificate.secret (include "herodotus.name" (list . $made)) (eq $certificate.source "secret") -}}
{{- end }}

{{/* The ConfigMap in which the service publishes the authority of its own certificate; empty for other certificates. */}}
{{- define "herodotus.tls.published" -}}
{{- if eq .Values.endpoint.certificate.source "own" }}{{ include "herodotus.name" (list . "endpoint-ca") }}{{ end -}}
{{- end }}

{{- define "herodotus.delivery" -}}
{{- if .Values.records.url -}}
- {{ printf "--endpoint=%s" .Values.records.url | toYaml }}
{{- if .Values.records.secret }}
- --endpoint-ca-file=/var/run/herodotus/ca.crt
- --endpoint-cert-file=/var/run/herodotus/tls.crt
- --endpoint-key-file=/var/run/herodotus/tls.key
{{- end }}
{{- else -}}
- --endpoint={{ include "herodotus.scheme" . }}://{{ include "herodotus.host" . }}:8001
{{- if include "herodotus.tls" . }}
- --endpoint-token-file=/var/run/herodotus/token
{{- if include "herodotus.tls.published" . }}
- --endpoint-ca-configmap={{ .Release.Namespace }}/{{ include "herodotus.tls.published" . }}
{{- else }}
- --endpoint-ca-file=/var/run/herodotus/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Who it is, and whom it believes to be the service; empty where neither is asked. */}}
{{- define "herodotus.delivery.volume" -}}
{{- if and .Values.records.url .Values.records.secret -}}
- name: endpoint # who it is, and whom it believes to be the decisions service
  secret:
    secretName: {{ toYaml .Values.records.secret }}
{{- else if and (not .Values.records.url) (include "herodotus.tls" .) -}}
- name: endpoint # who it is, for the decisions service alone{{ if not (include "herodotus.tls.published" .) }}, and whom it believes to be that{{ end }}
  projected:
    sources:
    - serviceAccountToken: {audience: herodotus-endpoint, expirationSeconds: 3600, path: token}
    {{- if not (include "herodotus.tls.published" .) }}
    - secret:
        name: {{ include "herodotus.tls.secret" . | toYaml }}
        items: [{key: ca.crt, path: ca.crt}]
        optional: true # scheduling does not wait for it: records wait in the spool
    {{- end }}
{{- end }}
{{- end }}

{{/* (list . "COMPONENT" "COMMAND"): the arguments up to the component's own. */}}
{{- define "herodotus.recorder.args" -}}
{{- $root := index . 0 -}}
{{- $values := index $root.Values (index . 1) -}}
- {{ index . 2 }}
- --config=/etc/herodotus/config.yaml
{{ include "herodotus.delivery" $root }}
- --spool=/var/lib/herodotus/spool
- --spool-limit={{ int64 $root.Values.records.spoolMiB }}Mi
{{- with $root.Values.records.omitLabels }}
- {{ join "," . | printf "--omit-labels=%s" | toYaml }}
{{- end }}
{{- if $root.Values.records.nodeGroups }}
- --record-node-groups
{{- end }}
- --probe-bind=0.0.0.0:8002
- --v={{ $values.verbosity }}
{{- end }}

{{/* (list . "COMPONENT"): the rest of the container. */}}
{{- define "herodotus.recorder.container" -}}
{{- $root := index . 0 -}}
ports:
- name: https # health, metrics, configuration; a certificate of its own, made in memory
  containerPort: 10259
- name: probes # from the kubelet; other clients of the HTTPS port do not delay them
  containerPort: 8002
# Alive while the loop goes round. Ready while it can do its work, which for a standby is to wait for the Lease; a
# decisions service that is away makes it neither.
livenessProbe:
  httpGet: {path: /livez, port: probes}
  initialDelaySeconds: 10
  periodSeconds: 10
  timeoutSeconds: 15
  failureThreshold: 8
readinessProbe:
  httpGet: {path: /readyz, port: probes}
  periodSeconds: 5
  timeoutSeconds: 5
{{- with (index $root.Values (index . 1)).extraEnv }}
env:
{{ toYaml . }}
{{- end }}
resources:
  {{- include "herodotus.recorder.resources" . | nindent 2 }}
{{ include "herodotus.locked" $root }}
volumeMounts:
- name: config
  mountPath: /etc/herodotus
  readOnly: true
- name: spool
  mountPath: /var/lib/herodotus
{{- if include "herodotus.delivery.volume" $root }}
- name: endpoint
  mountPath: /var/run/herodotus
  readOnly: true
{{- end }}
{{- with (index $root.Values (index . 1)).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* With disk for the spool, and for logs until they are rotated. */}}
{{- define "herodotus.recorder.resources" -}}
{{- $root := index . 0 -}}
{{- $spool := add $root.Values.records.spoolMiB 256 -}}
{{- $disk := dict "requests" (dict "ephemeral-storage" (printf "%dMi" $spool))
      "limits" (dict "ephemeral-storage" (printf "%dMi" (add $spool 768))) -}}
{{- merge (deepCopy (index $root.Values (index . 1)).resources) $disk | toYaml -}}
{{- end }}

{{/* (list . "COMPONENT") */}}
{{- define "herodotus.recorder.volumes" -}}
{{- $root := index . 0 -}}
- name: config
  configMap:
    name: {{ include "herodotus.name" . }}
# Records wait here while the service is away. It outlives the container, not the pod: what an evicted or deleted
# pod had not delivered is gone, and shows as missing from the sequence. The limit is 256Mi above --spool-limit,
# because the kubelet evicts a pod that exceeds it (unless its priority class is system-cluster-critical or
# system-node-critical); what does not fit into --spool-limit becomes a gap record.
- name: spool
  emptyDir:
    sizeLimit: {{ add $root.Values.records.spoolMiB 256 }}Mi
{{- with include "herodotus.delivery.volume" $root }}
{{ . }}
{{- end }}
{{- with (index $root.Values (index . 1)).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* (list . "COMPONENT") */}}
{{- define "herodotus.recorder.network" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "herodotus.name" . }}
  namespace: {{ toYaml (index . 0).Release.Namespace }}
spec:
  podSelector:
    matchLabels:
      {{- include "herodotus.selector" . | nindent 6 }}
  policyTypes: [Ingress]
  {{- $root := index . 0 }}
  {{- if or $root.Values.networkPolicy.scrapers $root.Values.monitoring.serviceMonitor.enabled }}
  ingress:
  - ports:
    - port: https
    {{- with $root.Values.networkPolicy.scrapers }}
    from:
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- else }}
  ingress: [] # Prometheus reads metrics from port https: admit its pods here
  {{- end }}
{{- end }}
