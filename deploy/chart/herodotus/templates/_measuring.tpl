{{/* What measures nodes: annotators and the monitor. */}}

{{/* The annotators that run, each with its arguments. */}}
{{- define "herodotus.annotators" -}}
{{- $own := .Values.annotators -}}
{{- $asked := printf "--prometheus=%s" $own.prometheus -}}
{{- $found := list -}}
{{- if $own.usage.enabled -}}
{{- $found = append $found (dict "name" "usage" "args" (list $asked) "forecast" $own.usage.forecast) -}}
{{- end -}}
{{- if $own.allocation.enabled -}}
{{- $found = append $found (dict "name" "allocation" "args" list) -}}
{{- end -}}
{{- if $own.congestion.enabled -}}
{{- $devices := printf "--devices=%s" $own.congestion.devices -}}
{{- $capacity := printf "--capacity=%d" (int64 $own.congestion.capacity) -}}
{{- $found = append $found (dict "name" "congestion" "args" (list $asked $devices $capacity)) -}}
{{- end -}}
{{- toYaml $found -}}
{{- end }}

{{/* (list . "COMPONENT" "ACCOUNT" CONTAINER): a Deployment of one pod, whose container's own part is given. */}}
{{- define "herodotus.measuring" -}}
{{- $root := index . 0 -}}
{{- $component := list $root (index . 1) -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "herodotus.name" $component }}
  namespace: {{ toYaml $root.Release.Namespace }}
  labels:
    {{- include "herodotus.labels" $component | nindent 4 }}
spec:
  replicas: 1
  strategy:
    type: Recreate # two would write the same
  selector:
    matchLabels:
      {{- include "herodotus.selector" $component | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "herodotus.labels" $component | nindent 8 }}
      {{- with $root.Values.annotators.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "herodotus.pod" (list $root "annotators" (index . 2) true) | nindent 6 }}
      containers:
      - name: {{ index . 1 }}
        image: {{ include "herodotus.image" (list $root "agents") }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        {{- index . 3 | nindent 8 }}
        {{- include "herodotus.locked" $root | nindent 8 }}
{{- end }}

{{/* (list . ANNOTATOR): its container. */}}
{{- define "herodotus.annotator" -}}
{{- $own := (index . 0).Values.annotators -}}
{{- $it := index . 1 -}}
args:
- annotate
- {{ $it.name }}
- --in-cluster
{{- range $it.args }}
- {{ . | quote }}
{{- end }}
env:
- name: ANNOTATE_FREQ
  value: {{ int64 $own.everySeconds | quote }}
{{- if eq $it.name "usage" }}
- name: USE_FORECAST
  value: {{ $it.forecast | quote }}
{{- end }}
{{- range $name, $value := $own.environment }}
- name: {{ toYaml $name }}
  value: {{ $value | quote }}
{{- end }}
resources:
  {{- toYaml $own.resources | nindent 2 }}
{{- end }}

{{- define "herodotus.monitor" -}}
args: [monitor, --in-cluster, --store=/var/lib/herodotus/rewards.json]
resources:
  {{- toYaml .Values.monitor.resources | nindent 2 }}
volumeMounts:
- name: store
  mountPath: /var/lib/herodotus
{{- end }}
