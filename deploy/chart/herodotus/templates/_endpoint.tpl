{{/* What is kept for how long: flags of the ages that are given. */}}
{{- define "herodotus.retention" -}}
{{- $flags := list -}}
{{- with .maxAge }}{{ $flags = append $flags (printf "- --max-age=%s" .) }}{{ end -}}
{{- range .maxAgeOf }}{{ $flags = append $flags (printf "- --max-age-of=%s" .) }}{{ end -}}
{{- with .summaryMaxAge }}{{ $flags = append $flags (printf "- --summary-max-age=%s" .) }}{{ end -}}
{{- range .summaryMaxAgeOf }}{{ $flags = append $flags (printf "- --summary-max-age-of=%s" .) }}{{ end -}}
{{- with .historyMaxAge }}{{ $flags = append $flags (printf "- --history-max-age=%s" .) }}{{ end -}}
{{- join "\n" $flags -}}
{{- end }}

{{/* The port of a URL. */}}
{{- define "herodotus.port" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- $port | default (ternary 443 80 (eq $url.scheme "https")) -}}
{{- end }}

{{/* The arguments of the command that writes days that are over to the archive. */}}
{{- define "herodotus.archive.arguments" -}}
- archive
- {{ printf "--to=%s" .url | quote }}
{{- with .delay }}
- --delay={{ . }}
{{- end }}
{{- with .keep }}
- --keep={{ . }}
{{- end }}
{{- if .scores }}
- --scores
{{- end }}
{{- end }}

{{/* Credentials of the object store, for a container's envFrom. */}}
{{- define "herodotus.archive.credentials" -}}
{{- with .secret }}
envFrom:
- secretRef: {name: {{ toYaml . }}}
{{- end }}
{{- end }}

{{/* The environment with the database's URL, PostgreSQL alone. */}}
{{- define "herodotus.database.environment" -}}
- name: HERODOTUS_DATABASE_URL
  valueFrom:
    secretKeyRef: {name: {{ toYaml .urlSecret.name }}, key: {{ toYaml .urlSecret.key }}}
- name: PGSSLROOTCERT # whom it believes to be the database, where the URL does not say (sslrootcert)
  value: /etc/herodotus/database/ca.crt
{{- end }}

{{/* The volume with the authority of the database's certificate, PostgreSQL alone. */}}
{{- define "herodotus.database.volume" -}}
- name: database
  secret:
    secretName: {{ toYaml .urlSecret.name }}
    items: [{key: ca.crt, path: ca.crt}]
    optional: true # without it sslmode=verify-full fails, and says so
{{- end }}
