{{- define "ashlar-csi.name" -}}
{{- printf "%s-ashlar-csi" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "ashlar-csi.labels" -}}
app.kubernetes.io/name: ashlar-csi
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "ashlar-csi.selector" -}}
app.kubernetes.io/name: ashlar-csi
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ashlar-csi.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* A sidecar: (dict "root" $ "of" "provisioner" "arguments" (list …)). */ -}}
{{- define "ashlar-csi.sidecar" -}}
{{- $sidecars := .root.Values.sidecars -}}
{{- $of := index $sidecars .of -}}
- name: {{ $of.image }}
  image: {{ required "sidecars.registry is needed: where the cluster gets the images of the Kubernetes CSI sidecars" $sidecars.registry }}/{{ $of.image }}:{{ $of.tag }}
  imagePullPolicy: {{ $sidecars.pullPolicy }}
  args:
    - --csi-address=/csi/csi.sock
    - --leader-election
    - --leader-election-namespace={{ .root.Release.Namespace }}
    - --timeout={{ $sidecars.timeout }}
    {{- range .arguments }}
    - {{ . }}
    {{- end }}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
  volumeMounts:
    - {name: socket, mountPath: /csi}
{{- end -}}
