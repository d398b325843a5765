{{- define "neuronfleet.prometheusPeer" -}}
{{- with .Values.prometheus -}}
- namespaceSelector:
    matchLabels: {kubernetes.io/metadata.name: {{ .namespace }}}
  podSelector:
    matchLabels: {{ toJson .podLabels }}
{{- end -}}
{{- end -}}

{{/* Nobody where no namespace of Prometheus is given: labels alone would admit any tenant's pod. */}}
{{- define "neuronfleet.fromPrometheus" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.prometheus.namespace -}}
- from:
    {{- include "neuronfleet.prometheusPeer" $root | nindent 4 }}
  ports:
    - {port: {{ index . 1 }}, protocol: TCP}
{{- end -}}
{{- end -}}

{{- define "neuronfleet.toApiServer" -}}
{{- with .Values.networkPolicy.apiServer -}}
- to:
    {{- range .cidrs }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  ports:
    {{- range .ports }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end -}}
{{- end -}}

{{/* The pods of this release's gateway. */}}
{{- define "neuronfleet.ownGateways" -}}
- podSelector:
    matchLabels:
      {{- include "neuronfleet.selector" (list . "gateway") | nindent 6 }}
{{- end -}}

{{/* The agent, and the queues of all fleets. */}}
{{- define "neuronfleet.peerPorts" -}}
- {port: 8090, protocol: TCP}
- {port: 20000, endPort: 29999, protocol: TCP}
{{- end -}}
