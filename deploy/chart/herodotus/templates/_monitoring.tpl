{{/* (list . "COMPONENT" "PORT" "SCHEME" TOKEN): TOKEN says whether Prometheus shows who it is. */}}
{{- define "herodotus.servicemonitor" -}}
{{- $root := index . 0 -}}
{{- $own := $root.Values.monitoring.serviceMonitor -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "herodotus.name" . }}
  namespace: {{ toYaml $root.Release.Namespace }}
  {{- with $own.labels }}
  labels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "herodotus.selector" . | nindent 6 }}
  endpoints:
  - port: {{ index . 2 }}
    path: /metrics
    scheme: {{ index . 3 }}
    interval: {{ $own.interval }}
    {{- if eq (index . 3) "https" }}
    tlsConfig:
      {{- if eq (index . 1) "endpoint" }}
      serverName: {{ include "herodotus.host" $root }}
      ca:
        secret: {name: {{ include "herodotus.tls.secret" $root | toYaml }}, key: ca.crt}
      {{- else }}
      insecureSkipVerify: true # the certificate is the process' own, made in memory
      {{- end }}
    {{- end }}
    {{- if and (eq (index . 1) "scheduler") $own.schedulerJob }}
    relabelings:
    - targetLabel: job
      replacement: {{ $own.schedulerJob | toYaml }}
    {{- end }}
    {{- if index . 4 }}
    bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token # Prometheus' own; access.scrapers gives it the right
    {{- end }}
{{- end }}
