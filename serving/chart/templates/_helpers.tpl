{{/* 40 characters leave room for the longest suffix within a Service's 63. */}}
{{- define "neuronfleet.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 28 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* Name of a part: (list $ "gateway"). */}}
{{- define "neuronfleet.name" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s" (include "neuronfleet.fullname" $root) (index . 1) -}}
{{- end -}}

{{/* What has no namespace carries one in its name, so that two releases do not meet. */}}
{{- define "neuronfleet.clusterName" -}}
{{- printf "%s-%s" (index . 0).Release.Namespace (include "neuronfleet.name" .) -}}
{{- end -}}

{{- define "neuronfleet.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* No versions: a new chart alone is no reason to replace a pod. */}}
{{- define "neuronfleet.podLabels" -}}
{{ include "neuronfleet.selector" . }}
app.kubernetes.io/part-of: neuronfleet
{{- end -}}

{{- define "neuronfleet.labels" -}}
{{- $root := index . 0 -}}
{{ include "neuronfleet.podLabels" . }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{/* All gateways of this namespace, of other releases too: replicas admit each of them. */}}
{{- define "neuronfleet.gatewayLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "neuronfleet.replicaLabels" -}}
app.kubernetes.io/managed-by: neuronfleet
app.kubernetes.io/component: replica
{{- end -}}

{{/* A reference: (list $ image "its path in the values" "the tag where none is given"). */}}
{{- define "neuronfleet.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- $registry := $image.registry | default $root.Values.imageRegistry -}}
{{- $name := printf "%s/%s" $registry $image.repository -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default (index . 2)) -}}
{{- end -}}
{{- end -}}

{{/* Whether an optional kind is made: (list $ "auto" "PodMonitor"). */}}
{{- define "neuronfleet.monitoringKind" -}}
{{- $root := index . 0 -}}{{- $mode := index . 1 -}}
{{- $known := $root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" (index . 2)) -}}
{{- if or (eq $mode "always") (and (eq $mode "auto") $known) -}}yes{{- end -}}
{{- end -}}

{{/* From SIGTERM to the kill of a gateway: the agent ends by itself after leave and drain. */}}
{{- define "neuronfleet.graceSeconds" -}}
{{- with .Values.gateway -}}
{{- add (ceil .leaveSeconds) (ceil .drainSeconds) 30 -}}
{{- end -}}
{{- end -}}

{{- define "neuronfleet.podMonitorHead" -}}
{{- $root := index . 0 -}}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ include "neuronfleet.name" . }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "neuronfleet.labels" . | nindent 4 }}
    {{- with $root.Values.monitoring.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
