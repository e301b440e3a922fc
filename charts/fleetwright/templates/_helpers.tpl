{{/* The namespaces in which the reconciler may read Secrets. */}}
{{- define "fleetwright.fleetNamespaces" -}}
{{- .Values.fleet.namespaces | default (list .Release.Namespace) | uniq | toJson -}}
{{- end -}}

{{/* An image reference: the digest wins over the tag, the tag defaults to the chart's appVersion. Argument: list root image. */}}
{{- define "fleetwright.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "fleetwright.selector" -}}
app.kubernetes.io/name: fleetwright
app.kubernetes.io/component: reconciler
{{- end -}}

{{- define "fleetwright.reviewerSelector" -}}
app.kubernetes.io/name: fleetwright
app.kubernetes.io/component: reviewer
{{- end -}}

{{- define "fleetwright.labels" -}}
app.kubernetes.io/name: fleetwright
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The user name that the API server sees for the reconciler. */}}
{{- define "fleetwright.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:fleetwright-reconciler
{{- end -}}
