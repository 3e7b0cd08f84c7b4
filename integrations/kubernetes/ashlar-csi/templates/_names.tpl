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

{{- /* The sidecar of CSI-Addons: (dict "root" $ "port" 9070 "volume" "socket" "arguments" (list …)). */ -}}
{{- define "ashlar-csi.addons" -}}
{{- $addons := .root.Values.addons -}}
- name: csi-addons
  image: {{ $addons.image }}:{{ $addons.tag }}
  imagePullPolicy: {{ $addons.pullPolicy }}
  args:
    - --csi-addons-address=/csi/csi.sock
    - --node-id=$(NODE_NAME)
    - --controller-port={{ .port }}
    - --pod=$(POD_NAME)
    - --namespace=$(POD_NAMESPACE)
    - --pod-uid=$(POD_UID)
    {{- range .arguments }}
    - {{ . }}
    {{- end }}
  env:
    - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
  ports:
    - {containerPort: {{ .port }}, name: csi-addons}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
  volumeMounts:
    - {name: {{ .volume }}, mountPath: /csi}
{{- end -}}

{{- /* What the sidecar of CSI-Addons asks for in every pod: rules of a ClusterRole, and of a Role. */ -}}
{{- define "ashlar-csi.addons-cluster-rules" -}}
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [""], resources: [persistentvolumes], verbs: [get]}
{{- end -}}
{{- define "ashlar-csi.addons-rules" -}}
- {apiGroups: [csiaddons.openshift.io], resources: [csiaddonsnodes], verbs: [get, list, watch, create, update]}
- {apiGroups: [""], resources: [pods], verbs: [get]}
# The owner of a node's object, whose deletion that blocks.
- {apiGroups: [apps], resources: [daemonsets/finalizers], verbs: [update]}
{{- end -}}
