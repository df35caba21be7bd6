{{/* Values that the schema allows, each for itself, and that do not go together. */}}

{{- define "herodotus.refusals" -}}
{{- include "herodotus.refusals.names" . -}}
{{- include "herodotus.refusals.scheduler" . -}}
{{- include "herodotus.refusals.endpoint" . -}}
{{- include "herodotus.refusals.certificate" . -}}
{{- include "herodotus.refusals.others" . -}}
{{- end }}

{{- define "herodotus.refusals.names" -}}
{{- $name := include "herodotus.fullname" . -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" $name) -}}
  {{- fail (printf "fullnameOverride: names of Services begin with a letter and have no dots, and %s would be the beginning of ours; give another one" $name) -}}
{{- end -}}
{{- end }}

{{- define "herodotus.refusals.scheduler" -}}
{{- $own := .Values.scheduler -}}
{{- if $own.enabled -}}
  {{- $names := list -}}
  {{- range $own.configuration.profiles }}{{ $names = append $names .schedulerName }}{{ end -}}
  {{- if not (compact $names) -}}
    {{- fail "scheduler.configuration.profiles: give one profile with a schedulerName at least" -}}
  {{- end -}}
  {{- if lt (compact $names | uniq | len) (len $names) -}}
    {{- fail "scheduler.configuration.profiles: each needs a schedulerName of its own; pods choose one by it" -}}
  {{- end -}}
  {{- if and (has "default-scheduler" $names) (not $own.replaceDefaultScheduler) -}}
    {{- fail "scheduler.configuration: a profile named default-scheduler takes the pods of the cluster's own scheduler; set scheduler.replaceDefaultScheduler if that is meant" -}}
  {{- end -}}
  {{- if and $own.replaceDefaultScheduler (not (has "default-scheduler" $names)) -}}
    {{- fail "scheduler.replaceDefaultScheduler: no profile of scheduler.configuration is named default-scheduler" -}}
  {{- end -}}
  {{- if and (gt (int $own.replicas) 1) (not (include "herodotus.election" . | fromYaml).leaderElect) -}}
    {{- fail "scheduler.replicas: several need leaderElection, or each pod would be scheduled by all of them" -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.priorityClass.create (not $own.enabled) -}}
  {{- fail "priorityClass.create: it is of the scheduler's pods, and scheduler.enabled is false" -}}
{{- end -}}
{{- if and .Values.priorityClass.create (or (not $own.priorityClassName) (hasPrefix "system-" $own.priorityClassName)) -}}
  {{- fail "priorityClass.create: scheduler.priorityClassName must be a name of your own; those that begin with system- are Kubernetes' own" -}}
{{- end -}}
{{- if and (or $own.enabled .Values.observer.enabled) (not .Values.endpoint.enabled) (not .Values.records.url) -}}
  {{- fail "records.url: with endpoint.enabled false it must say where the decisions service is, or records would stay in the spool until it is full" -}}
{{- end -}}
{{- if and .Values.records.url .Values.endpoint.enabled -}}
  {{- fail "records.url: records go to this release's own decisions service; set endpoint.enabled to false if they are to go elsewhere" -}}
{{- end -}}
{{- if and .Values.records.secret (not (hasPrefix "https://" .Values.records.url)) -}}
  {{- fail "records.secret: a certificate is shown over TLS alone; records.url must begin with https://" -}}
{{- end -}}
{{- end }}

{{- define "herodotus.refusals.endpoint" -}}
{{- $own := .Values.endpoint -}}
{{- $database := $own.database -}}
{{- if eq $database.kind "SQLite" -}}
  {{- if gt (int $own.replicas) 1 -}}
    {{- fail "endpoint.replicas: a SQLite database has one writer, and its volume one pod; several replicas need endpoint.database.kind PostgreSQL" -}}
  {{- end -}}
  {{- if gt (int $own.workers) 1 -}}
    {{- fail "endpoint.workers: a SQLite database has one writer; several workers need endpoint.database.kind PostgreSQL" -}}
  {{- end -}}
  {{- if $own.aggregatedAPI.enabled -}}
    {{- fail "endpoint.aggregatedAPI: an APIService whose one replica is away holds up the deletion of namespaces, and SQLite has one replica; it needs endpoint.database.kind PostgreSQL" -}}
  {{- end -}}
  {{- if $database.urlSecret.name -}}
    {{- fail "endpoint.database.urlSecret: SQLite has no URL; set endpoint.database.kind to PostgreSQL if records are to go there" -}}
  {{- end -}}
  {{- if lt (mulf 2 $own.persistence.sizeGiB) (mulf 3 $database.maxGiB) -}}
    {{- fail (printf "endpoint.persistence.sizeGiB: %v is too small for endpoint.database.maxGiB %v, which needs half as much again for the write-ahead log and pruning" $own.persistence.sizeGiB $database.maxGiB) -}}
  {{- end -}}
{{- else -}}
  {{- if not $database.urlSecret.name -}}
    {{- fail "endpoint.database.urlSecret.name: PostgreSQL needs a Secret with its URL, so that no password stands in values" -}}
  {{- end -}}
  {{- if not $own.aggregatedAPI.enabled -}}
    {{- fail "endpoint.aggregatedAPI: PostgreSQL needs it; several replicas cannot be reached through one service proxy, and nobody would check who reads" -}}
  {{- end -}}
  {{- if lt (int $own.replicas) 2 -}}
    {{- fail "endpoint.replicas: an APIService without an answering replica holds up the deletion of namespaces; it needs two" -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "herodotus.refusals.certificate" -}}
{{- $own := .Values.endpoint.certificate -}}
{{- $aggregated := .Values.endpoint.aggregatedAPI.enabled -}}
{{- if and $aggregated (eq $own.source "none") -}}
  {{- fail "endpoint.certificate.source: the API server speaks TLS alone; endpoint.aggregatedAPI needs certManager, selfSigned or secret" -}}
{{- end -}}
{{- if and $aggregated (eq $own.source "own") -}}
  {{- fail "endpoint.certificate.source: the API server must be told whose certificate the service shows, and own is made after that; endpoint.aggregatedAPI needs certManager, selfSigned or secret" -}}
{{- end -}}
{{- if and .Values.endpoint.enabled (eq $own.source "none") (not .Values.networkPolicy.enabled) -}}
  {{- fail "networkPolicy.enabled: without a certificate for the service nothing else says who may store records; set endpoint.certificate.source too" -}}
{{- end -}}
{{- if and (eq $own.source "secret") (not $own.secret) -}}
  {{- fail "endpoint.certificate.secret: source secret needs its name" -}}
{{- end -}}
{{- if and (eq $own.source "secret") $aggregated (not $own.caBundle) -}}
  {{- fail "endpoint.certificate.caBundle: the API server must know whose certificate the service shows" -}}
{{- end -}}
{{- if and (ne $own.source "secret") (or $own.secret $own.caBundle) -}}
  {{- fail "endpoint.certificate: secret and caBundle go with source secret" -}}
{{- end -}}
{{- if and (ne $own.source "certManager") $own.issuer -}}
  {{- fail "endpoint.certificate.issuer: goes with source certManager" -}}
{{- end -}}
{{- end }}

{{- define "herodotus.refusals.others" -}}
{{- $observer := .Values.observer -}}
{{- if $observer.enabled -}}
  {{- if not $observer.configuration.profiles -}}
    {{- fail "observer.configuration: give the configuration of the observed scheduler, at least profiles: [{schedulerName: default-scheduler}]; without its profiles and plugins' arguments another scheduler's decisions would be explained" -}}
  {{- end -}}
  {{- range $observer.configuration.profiles -}}
    {{- $observed := .schedulerName -}}
    {{- range $.Values.scheduler.configuration.profiles -}}
      {{- if and $.Values.scheduler.enabled (eq $observed .schedulerName) -}}
        {{- fail (printf "observer.configuration: %s is this release's own scheduler, whose decisions would be recorded twice" $observed) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if .Values.agents.enabled -}}
  {{- if not .Values.scheduler.enabled -}}
    {{- fail "agents.enabled: agents run in the scheduler's pod, and scheduler.enabled is false" -}}
  {{- end -}}
  {{- if not .Values.agents.extenders -}}
    {{- fail "agents.extenders: say what the scheduler asks of the agents, as {prioritizeVerb: priorities/congestion, weight: 10}" -}}
  {{- end -}}
{{- end -}}
{{- if and (or .Values.annotators.usage.enabled .Values.annotators.congestion.enabled) (not .Values.annotators.prometheus) -}}
  {{- fail "annotators.prometheus: usage and congestion are asked of Prometheus; say where it is" -}}
{{- end -}}
{{- $aggregated := .Values.endpoint.aggregatedAPI.enabled -}}
{{- if and $aggregated (or .Values.access.readers .Values.access.whatif) -}}
  {{- fail "access.readers, access.whatif: with endpoint.aggregatedAPI these rights go with the cluster's own roles view and edit; bind those" -}}
{{- end -}}
{{- if and .Values.access.clusterReviewers (not $aggregated) -}}
  {{- fail "access.clusterReviewers: without endpoint.aggregatedAPI a reader is named nowhere, and access.whatif includes this right" -}}
{{- end -}}
{{- if and .Values.access.nodes (not $aggregated) -}}
  {{- fail "access.nodes: without endpoint.aggregatedAPI a reader is named nowhere, and whoever may read sees all nodes; it goes with endpoint.aggregatedAPI" -}}
{{- end -}}
{{- end }}
