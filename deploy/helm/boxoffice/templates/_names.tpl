{{- define "boxoffice.labels" -}}
app.kubernetes.io/part-of: boxoffice
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "boxoffice.brokerLabels" -}}
app.kubernetes.io/name: boxoffice-broker
{{- end }}

{{- define "boxoffice.agentLabels" -}}
app.kubernetes.io/name: boxoffice-agent
{{- end }}

{{- define "boxoffice.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "boxoffice.brokerUrl" -}}
{{- .Values.agent.brokerUrl | default (printf "http://boxoffice-broker.%s.svc:7070" .Release.Namespace) }}
{{- end }}

{{/* Where the agent of a node keeps its files: `boxoffice agent` has a directory of its own below the data directory. */}}
{{- define "boxoffice.agentDir" -}}
{{- trimSuffix "/" .Values.agent.dataDir }}/agent
{{- end }}

{{- define "boxoffice.agentUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:boxoffice-agent
{{- end }}

{{/* A list as CEL writes it. */}}
{{- define "boxoffice.celList" -}}
[{{ range $at, $each := . }}{{ if $at }}, {{ end }}{{ $each | squote }}{{ end }}]
{{- end }}

{{/* A text as a regular expression of itself, in a text of CEL. */}}
{{- define "boxoffice.celLiteral" -}}
{{- regexQuoteMeta . | replace `\` `\\` }}
{{- end }}
