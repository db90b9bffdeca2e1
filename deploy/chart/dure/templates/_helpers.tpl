{{- define "dure.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "dure.plane.selector" -}}
app.kubernetes.io/name: dure-plane
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dure.plane.labels" -}}
{{ include "dure.plane.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "dure.plane.name" -}}
{{ .Release.Name }}-plane
{{- end -}}

{{- define "dure.plane.fleet" -}}
{{ .Values.plane.fleetConfigMap | default (printf "%s-fleet" (include "dure.plane.name" .)) }}
{{- end -}}
