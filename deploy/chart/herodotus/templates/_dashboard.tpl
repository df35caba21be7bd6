{{/* (list . "FILE" "UID"): Grafana's JSON from files/FILE.yaml: three panels beside each other, rows of them under a title. */}}

{{- define "herodotus.dashboard" -}}
{{- $root := index . 0 -}}
{{- $source := $root.Files.Get (printf "files/%s.yaml" (index . 1)) | replace "{…}" "{namespace=\"$namespace\"}" | fromYaml -}}
{{- $from := dict "type" "prometheus" "uid" "${datasource}" -}}
{{- $panels := list -}}
{{- $y := 0 -}}
{{- range $source.rows -}}
  {{- $place := dict "x" 0 "y" $y "w" 24 "h" 1 -}}
  {{- $panels = append $panels (dict "id" (add1 (len $panels)) "type" "row" "title" .title "gridPos" $place "panels" list) -}}
  {{- $y = add1 $y -}}
  {{- range $i, $panel := .panels -}}
    {{- $place := dict "x" (mul 8 (mod $i 3)) "y" (add $y (mul 8 (div $i 3))) "w" 8 "h" 8 -}}
    {{- $targets := list -}}
    {{- range $n, $query := .queries -}}
      {{- $targets = append $targets (dict "refId" (printf "%c" (add 65 $n)) "datasource" $from "expr" .expr "legendFormat" .legend) -}}
    {{- end -}}
    {{- $panels = append $panels (dict "id" (add1 (len $panels)) "type" "timeseries" "title" .title "gridPos" $place
          "datasource" $from "targets" $targets
          "fieldConfig" (dict "defaults" (dict "unit" .unit "min" 0) "overrides" list)) -}}
  {{- end -}}
  {{- $y = add $y (mul 8 (div (add 2 (len .panels)) 3)) -}}
{{- end -}}
{{- $variables := list
      (dict "name" "datasource" "type" "datasource" "query" "prometheus" "label" "Prometheus")
      (dict "name" "namespace" "type" "query" "datasource" $from "refresh" 2 "query" "label_values(herodotus_spool_limit_bytes, namespace)"
        "current" (dict "text" $root.Release.Namespace "value" $root.Release.Namespace)) -}}
{{- dict "title" $source.title "uid" (index . 2) "schemaVersion" 39 "editable" true "refresh" "30s"
      "tags" (list "herodotus") "time" (dict "from" "now-6h" "to" "now") "templating" (dict "list" $variables)
      "panels" $panels | toPrettyJson -}}
{{- end }}
