{{- /* Names and labels that more than one object uses. */ -}}

{{- define "hsdns.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hsdns.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "hsdns.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "hsdns.clusterRoleName" -}}
{{- .Values.clusterRole.nameOverride | default (include "hsdns.fullname" .) -}}
{{- end -}}

{{- /* A Deployment's selector cannot be changed, so no value is in it. */ -}}
{{- define "hsdns.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "hsdns.labels" -}}
{{ include "hsdns.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") | quote }}
{{- if .Values.isClusterService }}
k8s-app: {{ .Values.k8sAppLabelOverride | default .Chart.Name | quote }}
kubernetes.io/cluster-service: "true"
{{- end }}
{{- with .Values.customLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hsdns.metadata" -}}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "hsdns.labels" . | nindent 2 }}
{{- end -}}

{{- /*
The ports of the servers, as YAML: a list of {name, protocol, port, servicePort, nodePort, hostPort}, each once.
Plain DNS is served over UDP and TCP, unless a zone says use_tcp: false; DoT and DoH over TCP alone.
*/ -}}
{{- define "hsdns.ports" -}}
{{- $seen := dict -}}
{{- $ports := list -}}
{{- range $server := .Values.servers -}}
{{- $port := int ($server.port | default 53) -}}
{{- range $zone := ($server.zones | default (list (dict "zone" "."))) -}}
{{- $protocols := list "UDP" "TCP" -}}
{{- if has ($zone.scheme | default "") (list "tls://" "https://") -}}
{{- $protocols = list "TCP" -}}
{{- else if and (hasKey $zone "use_tcp") (not $zone.use_tcp) -}}
{{- $protocols = list "UDP" -}}
{{- end -}}
{{- range $protocol := $protocols -}}
{{- $name := printf "%s-%d" (lower $protocol) $port -}}
{{- if not (hasKey $seen $name) -}}
{{- $_ := set $seen $name true -}}
{{- $found := dict "name" $name "protocol" $protocol "port" $port "servicePort" (int ($server.servicePort | default $port)) -}}
{{- if $server.nodePort -}}{{- $_ := set $found "nodePort" (int $server.nodePort) -}}{{- end -}}
{{- if $server.hostPort -}}{{- $_ := set $found "hostPort" (int $server.hostPort) -}}{{- end -}}
{{- $ports = append $ports $found -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $ports -}}
{{- end -}}
