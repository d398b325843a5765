{{- define "neuronfleet.isNlb" -}}
{{- if eq .Values.gateway.service.loadBalancerClass "service.k8s.aws/nlb" }}yes{{ end -}}
{{- end -}}

{{- define "neuronfleet.isAlb" -}}
{{- with .Values.gateway.ingress }}{{ if and .enabled (eq .className "alb") }}yes{{ end }}{{ end -}}
{{- end -}}

{{- define "neuronfleet.isAws" -}}
{{- if or (include "neuronfleet.isNlb" .) (include "neuronfleet.isAlb" .) }}yes{{ end -}}
{{- end -}}

{{/* Ports of clients as YAML: name, port of the Service, port of the pod. */}}
{{- define "neuronfleet.clientPorts" -}}
{{- with .Values.gateway }}
{{- if or (not .tls.secretName) .tls.alsoPlain }}
- {name: http, port: {{ .service.httpPort }}, pod: 8080}
{{- end }}
{{- if .tls.secretName }}
- {name: https, port: {{ .service.httpsPort }}, pod: 8443}
{{- end }}
{{- end }}
{{- end -}}

{{/* An NLB drops silent connections after 350 s and lets targets go after 300 s, if not told. */}}
{{- define "neuronfleet.nlbAnnotations" -}}
{{- $prefix := "service.beta.kubernetes.io/aws-load-balancer" -}}
{{ $prefix }}-nlb-target-type: ip
{{ $prefix }}-healthcheck-protocol: {{ if .Values.gateway.tls.secretName }}https{{ else }}http{{ end }}
{{ $prefix }}-healthcheck-port: traffic-port
{{ $prefix }}-healthcheck-path: /health
{{ $prefix }}-target-group-attributes: deregistration_delay.timeout_seconds={{ include "neuronfleet.graceSeconds" . }}
{{- range include "neuronfleet.clientPorts" . | fromYamlArray }}
{{ $prefix }}-listener-attributes.TCP-{{ .port }}: tcp.idle_timeout.seconds={{ $.Values.gateway.idleSeconds }}
{{- end }}
{{- end -}}

{{/* An ALB ends silent streams after 60 s and lets targets go after 300 s, if not told. */}}
{{- define "neuronfleet.albAnnotations" -}}
{{- $prefix := "alb.ingress.kubernetes.io" -}}
{{ $prefix }}/target-type: ip
{{ $prefix }}/scheme: internal
{{ $prefix }}/backend-protocol: {{ if .Values.gateway.tls.secretName }}HTTPS{{ else }}HTTP{{ end }}
{{ $prefix }}/healthcheck-path: /health
{{ $prefix }}/load-balancer-attributes: idle_timeout.timeout_seconds={{ .Values.gateway.idleSeconds }}
{{ $prefix }}/target-group-attributes: deregistration_delay.timeout_seconds={{ include "neuronfleet.graceSeconds" . }}
{{- end -}}
