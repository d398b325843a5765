{{/* What each verb is for: tests/serving/chart/rights.py, which a test compares with these. */}}
{{- define "neuronfleet.controllerRules" -}}
- apiGroups: [neuronfleet.dev]
  resources: [servingfleets]
  verbs: [list, watch]
- apiGroups: [neuronfleet.dev]
  resources: [servingfleets/status]
  verbs: [patch]
- apiGroups: [neuronfleet.dev]
  resources: [servingfleets/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, watch, create, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}

{{- define "neuronfleet.nodeRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch, patch]
{{- end -}}

{{- define "neuronfleet.gatewayRules" -}}
- apiGroups: [neuronfleet.dev]
  resources: [servingfleets]
  verbs: [list, watch]
{{ include "neuronfleet.sliceRules" . }}
{{- end -}}

{{- define "neuronfleet.sliceRules" -}}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
{{- end -}}

{{/* Of a Lease by its name. What is created has no name yet when it is judged. */}}
{{- define "neuronfleet.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ . }}]
  verbs: [get, update]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end -}}

{{/* A role and its binding to a part's account; without `namespace` for the whole cluster. */}}
{{- define "neuronfleet.role" -}}
{{- $prefix := ternary "" "Cluster" (hasKey . "namespace") -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $prefix }}Role
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "neuronfleet.labels" (list .binding.root .binding.part) | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $prefix }}RoleBinding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "neuronfleet.labels" (list .binding.root .binding.part) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $prefix }}Role
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .binding.account }}
    namespace: {{ .binding.root.Release.Namespace }}
{{- end -}}

{{- define "neuronfleet.gatewayRules.list" -}}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list]
{{- end -}}
