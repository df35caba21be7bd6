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
