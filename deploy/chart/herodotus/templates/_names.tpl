{{/*
Names, labels and images. Each helper about a component takes (list . "COMPONENT"). Names from outside, everywhere in
these templates, go through toYaml: a namespace may be called 123, which YAML would take for a number.
*/}}

{{- define "herodotus.fullname" -}}
{{- $own := ternary .Release.Name (printf "%s-herodotus" .Release.Name) (contains "herodotus" .Release.Name) -}}
{{- .Values.fullnameOverride | default $own | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "herodotus.name" -}}
{{ include "herodotus.fullname" (index . 0) }}-{{ index . 1 }}
{{- end }}

{{- define "herodotus.selector" -}}
app.kubernetes.io/name: {{ include "herodotus.name" . }}
{{- end }}

{{- define "herodotus.labels" -}}
{{ include "herodotus.selector" . }}
app.kubernetes.io/part-of: herodotus
{{- end }}

{{- define "herodotus.image" -}}
{{- $image := (index (index . 0).Values (index . 1)).image -}}
{{- $common := (index . 0).Values.image -}}
{{- $name := printf "%s/%s" $common.registry $image.name -}}
{{- if $image.digest }}{{ $name }}@{{ $image.digest }}
{{- else }}{{ $name }}:{{ $common.tag | default (index . 0).Chart.AppVersion }}{{ end -}}
{{- end }}

{{/* The component's service account, as RBAC's only subject. */}}
{{- define "herodotus.subject" -}}
- kind: ServiceAccount
  name: {{ include "herodotus.name" . }}
  namespace: {{ toYaml (index . 0).Release.Namespace }}
{{- end }}

{{/* The same as RBAC names it to others. */}}
{{- define "herodotus.user" -}}
system:serviceaccount:{{ (index . 0).Release.Namespace }}:{{ include "herodotus.name" . }}
{{- end }}
