{{- /* The rules of the readers' roles. They follow from the declared routes of the service:
HERODOTUS_REGENERATE=1 python -m pytest tests/deploy/test_aggregated_api.py writes them anew. */ -}}
{{- define "herodotus.readers.view" -}}
- apiGroups: [herodotus.dev]
  resources: [decisions]
  verbs: [get, list, watch]
- apiGroups: [herodotus.dev]
  resources: [podexplanations, podhistories, podcomparisons, nodecomparisons, podgroupplacements]
  verbs: [get]
- apiGroups: [herodotus.dev]
  resources: [pendingpods, agreements, preemptions]
  verbs: [list]
- apiGroups: [herodotus.dev]
  resources: [workloadplacements]
  verbs: [get, list]
{{- end }}
{{- define "herodotus.readers.whatif" -}}
- apiGroups: [herodotus.dev]
  resources: [placementreviews]
  verbs: [create]
{{- end }}
{{- define "herodotus.readers.cluster-reviewer" -}}
- apiGroups: [herodotus.dev]
  resources: [clusterreviews]
  verbs: [create]
{{- end }}
{{- define "herodotus.readers.nodes" -}}
- apiGroups: [herodotus.dev]
  resources: [nodehistories]
  verbs: [get, list]
- apiGroups: [herodotus.dev]
  resources: [clusters, incarnations, balances]
  verbs: [list]
{{- end }}
{{- define "herodotus.readers.version" -}}
- apiGroups: [herodotus.dev]
  resources: [serviceversions]
  verbs: [list]
- apiGroups: [herodotus.dev]
  resources: [pages]
  verbs: [get, list]
{{- end }}
