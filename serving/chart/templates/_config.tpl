{{/* The controller's settings file; read by neuronfleet.serving.controller.settings. */}}
{{- define "neuronfleet.controllerConfig" -}}
{{- $part := .Values.controller -}}
lease:
  namespace: {{ .Release.Namespace }}
  name: {{ $part.leaseName }}
prometheus:
  url: {{ .Values.prometheus.url | quote }}
{{- with .Values.watchNamespaces }}
namespaces: {{ toJson . }}
{{- end }}
{{- if .Values.gateway.enabled }}
gateway:
  service: {{ include "neuronfleet.name" (list . "gateway") }}-peers
  metricsPort: 8090
{{- end }}
interval: {{ $part.intervalSeconds }}s
expectedBoot: {{ $part.expectedBootSeconds }}s
httpPort: 8080
patience:
  capacityWait: {{ $part.patience.capacityWaitSeconds }}s
  capacityRetry: {{ $part.patience.capacityRetrySeconds }}s
  unready: {{ $part.patience.unreadySeconds }}s
  restarts: {{ $part.patience.restarts }}
  slowBoots: {{ $part.patience.slowBoots }}
workloads:
  images:
    {{- range $generation, $image := .Values.fleets.images }}
    {{- if $image.repository }}
    {{ $generation }}: {{ include "neuronfleet.image" (list $ $image "") }}
    {{- end }}
    {{- end }}
  gateway:
    namespace: {{ .Release.Namespace }}
    labels:
      {{- include "neuronfleet.gatewayLabels" . | nindent 6 }}
  {{- with .Values.prometheus }}
  {{- if .namespace }}
  monitoring:
    namespace: {{ .namespace }}
    labels: {{ toJson .podLabels }}
  {{- end }}
  {{- end }}
  {{- with .Values.fleets }}
  {{- if .schedulerName }}
  schedulerName: {{ .schedulerName }}
  {{- end }}
  requestShare: {{ .requestShare }}
  drainMargin: {{ .drainMarginSeconds }}s
  startupFloor: {{ .startupFloorSeconds }}s
  probePeriodSeconds: {{ .probePeriodSeconds }}
  {{- end }}
{{- end -}}

{{/* The gateway's settings file; read by neuronfleet.serving.controller.gateway.settings. */}}
{{- define "neuronfleet.gatewayConfig" -}}
{{- $name := include "neuronfleet.name" (list . "gateway") -}}
{{- with .Values.gateway -}}
service: {{ $name }}-peers
directory: /tmp/gw
lease:
  name: {{ $name }}
  seconds: {{ .leaseSeconds }}
{{- with $.Values.watchNamespaces }}
namespaces: {{ toJson . }}
{{- end }}
port: 8080
agentPort: 8090
queues:
  firstPort: 20000
  lastPort: 29999
{{- if .tls.secretName }}
tls:
  port: 8443
  certificate: /etc/neuronfleet/tls/tls.crt
  key: /etc/neuronfleet/tls/tls.key
{{- end }}
{{- if .apiKeys.secretName }}
keysFile: /etc/neuronfleet/keys/keys
{{- end }}
mostFleets: {{ .mostFleets }}
maxConnections: {{ .maxConnections }}
idleTimeout: {{ .idleSeconds }}s
keepAlive: {{ .keepAliveSeconds }}s
takeoverTimeout: {{ .takeoverSeconds }}s
leaveDelay: {{ .leaveSeconds }}s
graceDelay: {{ .graceSeconds }}s
drainTimeout: {{ .drainSeconds }}s
silentAfter: {{ .silentSeconds }}s
{{- end -}}
{{- end -}}
