{{/* Names, labels and images, each defined once. */}}

{{- define "kvis.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kvis.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "kvis.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "kvis.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kvis.serviceAccountName" -}}
{{- default (include "kvis.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "kvis.adminKeySecret" -}}
{{- default (printf "%s-admin-key" (include "kvis.fullname" .)) .Values.adminKey.existingSecret -}}
{{- end -}}

{{- define "kvis.selector" -}}
app.kubernetes.io/name: kvis-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kvis.labels" -}}
{{ include "kvis.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: kvis
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Image reference of (dict "image" values "version" appVersion): the digest wins over the tag. */}}
{{- define "kvis.image" -}}
{{- $name := .image.repository -}}
{{- if .image.registry -}}{{- $name = printf "%s/%s" .image.registry .image.repository -}}{{- end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- $tag := default .version .image.tag -}}
{{- if eq $tag "latest" -}}
{{- fail (printf "%s: the tag latest is refused, name a version or a digest" $name) -}}
{{- end -}}
{{- printf "%s:%s" $name $tag -}}
{{- end -}}
{{- end -}}

{{/* What the operator process is told; people set the part under values.settings. */}}
{{- define "kvis.settings" -}}
{{- $fixed := dict
      "adminKey" "/etc/kvis-admin/private.pem"
      "leaseName" (include "kvis.fullname" .)
      "namespaces" .Values.watchNamespaces
      "networkPolicies" .Values.networkPolicy.enabled
      "port" 8080
      "profiles" "/etc/kvis/profiles.yaml" -}}
{{- merge $fixed .Values.settings | toYaml -}}
{{- end -}}

{{/* The profile table as the operator reads it: engines without an image get runtimeImage. */}}
{{- define "kvis.profiles" -}}
{{- $runtime := include "kvis.image" (dict "image" .Values.runtimeImage "version" .Chart.AppVersion) -}}
{{- $profiles := deepCopy .Values.profiles -}}
{{- range $name, $profile := $profiles -}}
{{- range $engine, $offer := $profile.engines -}}
{{- if not $offer.image -}}{{- $_ := set $offer "image" $runtime -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "profiles" $profiles | toYaml -}}
{{- end -}}
