{{/* Of a pod's spec, what both parts have: (list $ values "component"). */}}
{{- define "neuronfleet.podCommon" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
serviceAccountName: {{ include "neuronfleet.name" (list $root (index . 2)) }}
automountServiceAccountToken: true
# Services of the namespace would come as environment variables, of any name.
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with $part.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $part.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- include "neuronfleet.spread" (list . "topology.kubernetes.io/zone" $part.spread.zone) | nindent 2 }}
  {{- include "neuronfleet.spread" (list . "kubernetes.io/hostname" $part.spread.host) | nindent 2 }}
{{- end -}}

{{- define "neuronfleet.spread" -}}
{{- $common := index . 0 -}}
- topologyKey: {{ index . 1 }}
  maxSkew: 1
  whenUnsatisfiable: {{ index . 2 }}
  # Nodes that the pod may not use (Neuron ones, say) are no place to be missing from.
  nodeTaintsPolicy: Honor
  # Each revision by itself: else a rollout's old pods decide where its new ones may go.
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- include "neuronfleet.selector" (list (index $common 0) (index $common 2)) | nindent 6 }}
{{- end -}}

{{- define "neuronfleet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "neuronfleet.podMetadata" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
annotations:
  # A new configuration is a rollout.
  checksum/config: {{ index . 3 | sha256sum }}
  {{- with $part.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
labels:
  {{- include "neuronfleet.podLabels" (list $root (index . 2)) | nindent 2 }}
  {{- with $part.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
