{{/* Every template gets (dict "root" $ "name" <service or job> "service" <its entry>). */}}

{{/* At most 63 characters: a release has up to 53, a service up to 22. */}}
{{- define "datarecs.name" -}}
{{ .root.Release.Name | trunc 40 | trimSuffix "-" }}-{{ .name }}
{{- end }}

{{- define "datarecs.selector" -}}
app.kubernetes.io/name: datarecs
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "datarecs.labels" -}}
{{ include "datarecs.selector" . }}
app.kubernetes.io/part-of: datarecs
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The enabled services as JSON; an entry of a service replaces the one of `defaults`. */}}
{{- define "datarecs.services" -}}
{{- $services := dict }}
{{- range $name, $service := .Values.services }}
{{- $service = include "datarecs.withDefaults" (dict "root" $ "service" $service) | fromJson }}
{{- $service = include "datarecs.withRemoteWorkers" (dict "root" $ "name" $name "service" $service) | fromJson }}
{{- if $service.enabled }}{{- $_ := set $services $name $service }}{{- end }}
{{- end }}
{{- toJson $services }}
{{- end }}

{{- define "datarecs.withDefaults" -}}
{{- $service := deepCopy .service }}
{{- range $key, $value := .root.Values.defaults }}
{{- if not (hasKey $service $key) }}{{- $_ := set $service $key $value }}{{- end }}
{{- end }}
{{- if and (has "kafka" $service.uses) (eq .root.Values.eventing.mode "knative") }}
{{- $_ := set $service "uses" (append (without $service.uses "kafka") "broker") }}
{{- range $file, $entry := $service.secrets }}{{- if eq $entry.from "kafka" }}{{- $_ := unset $service.secrets $file }}{{- end }}{{- end }}
{{- range $name := keys $service.settings }}{{- if hasPrefix "KAFKA__" $name }}{{- $_ := unset $service.settings $name }}{{- end }}{{- end }}
{{- end }}
{{- if and (has "workflows" $service.uses) (eq .root.Values.launcher.backend "argo") }}
{{- $rule := dict "apiGroups" (list "argoproj.io") "resources" (list "workflows") "verbs" (list "create" "get" "list" "watch" "patch" "delete") }}
{{- $_ := set $service "rules" (append $service.rules $rule) }}
{{- $_ := set $service "uses" (append $service.uses "kubernetes" | uniq) }}
{{- end }}
{{- toJson $service }}
{{- end }}

{{/* With `remoteWorkers`: core-api has the control API; of a site only capture-worker runs, over it. */}}
{{- define "datarecs.withRemoteWorkers" -}}
{{- $service := deepCopy .service }}
{{- $remote := .root.Values.remoteWorkers }}
{{- $settings := dict }}
{{- $secrets := dict }}
{{- if $remote.clientId }}
{{- if ne .name "capture-worker" }}{{- $_ := set $service "enabled" false }}{{- end }}
{{- $settings = dict "WORKER__MODE" "remote" "WORKER__API_URL" .root.Values.baseUrl "WORKER__OIDC__ISSUER" $remote.issuer "WORKER__OIDC__CLIENT_ID" $remote.clientId }}
{{- $secrets = dict "worker__oidc__client_secret" (dict "from" "remoteWorkers" "key" "client-secret") }}
{{- $_ := set $service "uses" (append (without $service.uses "database" "blob") "control" | uniq) }}
{{- range $file, $entry := $service.secrets }}{{- if has $entry.from (list "database" "blob" "keys") }}{{- $_ := unset $service.secrets $file }}{{- end }}{{- end }}
{{- else if and $remote.issuer (eq .name "core-api") }}
{{- $settings = dict "WORKER__API__ENABLED" true "WORKER__API__ISSUER" $remote.issuer }}
{{- $secrets = dict "database__capture__url" (dict "from" "database" "key" "datarecs_capture") }}
{{- $_ := set $service "uses" (append $service.uses "control" | uniq) }}
{{- end }}
{{- $_ := set $service "settings" (merge $service.settings $settings) }}
{{- $_ := set $service "secrets" (merge $service.secrets $secrets) }}
{{- toJson $service }}
{{- end }}

{{- define "datarecs.image" -}}
{{- $image := .root.Values.image }}
{{- $name := .service.image }}
{{- if $image.registry }}{{ trimSuffix "/" $image.registry }}/{{ end }}{{ $name }}
{{- if hasKey $image.digests $name }}@{{ get $image.digests $name }}{{ else }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Settings as JSON, name to value: of the chart, then of the user, then of the service. */}}
{{- define "datarecs.settings" -}}
{{- $values := .root.Values }}
{{- $uses := .service.uses }}
{{- $settings := dict "PROFILE" "server" "BASE_URL" $values.baseUrl "SIDE__HOST" "0.0.0.0" "SIDE__PORT" 9090 }}
{{- if has "kafka" $uses }}
{{- $_ := set $settings "KAFKA__BOOTSTRAP" $values.kafka.bootstrap }}
{{- if $values.kafka.caSecret }}{{- $_ := set $settings "KAFKA__CA_FILE" "/run/secrets/datarecs/kafka-ca.crt" }}{{- end }}
{{- end }}
{{- if has "broker" $uses }}
{{- $_ := set $settings "EVENTING__MODE" "knative" }}
{{- $_ := set $settings "EVENTING__BROKER_URL" $values.eventing.brokerUrl }}
{{- $_ := set $settings "EVENTING__HOST" "0.0.0.0" }}
{{- end }}
{{- if has "blob" $uses }}
{{- $_ := set $settings "BLOB__URL" $values.blob.url }}
{{- with $values.blob.endpoint }}{{- $_ := set $settings "BLOB__ENDPOINT" . }}{{- end }}
{{- if $values.blob.caSecret }}{{- $_ := set $settings "BLOB__CA_FILE" "/run/secrets/datarecs/blob-ca.crt" }}{{- end }}
{{- end }}
{{- if and (has "launcher" $uses) (ne $values.launcher.backend "queue") }}{{- $_ := set $settings "LAUNCHER__BACKEND" $values.launcher.backend }}{{- end }}
{{- if has "mail" $uses }}{{- $_ := set $settings "MAIL__HOST" $values.mail.host }}{{- end }}
{{- if has "sender" $uses }}{{- with $values.mail.from }}{{- $_ := set $settings "MAIL__FROM" . }}{{- end }}{{- end }}
{{- if $values.tenantSecrets }}{{- $_ := set $settings "SECRETS__FILE_ROOT" "/run/secrets/tenants" }}{{- end }}
{{- range $more := list $values.settings .service.settings }}
{{- range $name, $value := $more }}{{- $_ := set $settings $name $value }}{{- end }}
{{- end }}
{{- toJson $settings }}
{{- end }}

{{/* Text of an environment variable: lists are joined by commas, objects are JSON. */}}
{{- define "datarecs.text" -}}
{{- if kindIs "slice" . }}{{ join "," . }}{{ else if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{/* The ServiceAccount of a service, and its rights in the namespace. */}}
{{- define "datarecs.account" -}}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "datarecs.name" . }}
  labels: {{- include "datarecs.labels" . | nindent 4 }}
  {{- with .service.serviceAccountAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- if .service.rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "datarecs.name" . }}
  labels: {{- include "datarecs.labels" . | nindent 4 }}
rules: {{- toYaml .service.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "datarecs.name" . }}
  labels: {{- include "datarecs.labels" . | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ include "datarecs.name" . }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "datarecs.name" . }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}
{{- end }}

{{/* The pod of a service or a job. */}}
{{- define "datarecs.pod" -}}
{{- $values := .root.Values }}
{{- $service := .service }}
{{- $uses := $service.uses }}
{{- $folder := and (has "blob" $uses) (hasPrefix "file://" $values.blob.url) }}
serviceAccountName: {{ include "datarecs.name" . }}
automountServiceAccountToken: {{ gt (len $service.rules) 0 }}
# A Service called datarecs-… would become variables DATARECS_…, which services refuse.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ $service.gracePeriodSeconds }}
securityContext:
  runAsNonRoot: true
  {{- range $name, $id := $values.podSecurityContext }}
  {{- if not (kindIs "invalid" $id) }}
  {{ $name }}: {{ int64 $id }}
  {{- end }}
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
{{- with $values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $service.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $service.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $service.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $service.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $service.affinity }}
affinity: {{- toYaml $service.affinity | nindent 2 }}
{{- else }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "datarecs.selector" . | nindent 14 }}
{{- end }}
containers:
  - name: {{ .name }}
    image: {{ include "datarecs.image" . | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    # Arguments, because the entrypoint of the images is an init process.
    args: {{- toYaml $service.command | nindent 6 }}
    env:
      - name: HOME
        value: /tmp
      {{- range $name, $value := include "datarecs.settings" . | fromJson }}
      - name: DATARECS_{{ $name }}
        value: {{ include "datarecs.text" $value | quote }}
      {{- end }}
    {{- if not .job }}
    ports:
      {{- if $service.port }}
      - name: http
        containerPort: {{ $service.port }}
      {{- end }}
      {{- if has "broker" $uses }}
      - name: events
        containerPort: 8081
      {{- end }}
      - name: side
        containerPort: 9090
    startupProbe:
      httpGet: {path: /startupz, port: side}
      periodSeconds: 2
      failureThreshold: 30
    livenessProbe:
      httpGet: {path: /livez, port: side}
      periodSeconds: 10
      failureThreshold: 3
    readinessProbe:
      httpGet: {path: /readyz, port: side}
      periodSeconds: 5
      failureThreshold: 2
    lifecycle:
      preStop: # endpoints forget the pod before it stops to serve
        exec: {command: [sleep, "5"]}
    {{- end }}
    resources: {{- toYaml $service.resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - name: tmp
        mountPath: /tmp
      - name: secrets
        mountPath: /run/secrets/datarecs
        readOnly: true
      {{- if $folder }}
      - name: blobs
        mountPath: {{ trimPrefix "file://" $values.blob.url }}
      {{- end }}
      {{- if has "tenant-secrets" $uses }}
      {{- range $index, $tenant := $values.tenantSecrets }}
      - name: tenant-{{ $index }}
        mountPath: /run/secrets/tenants/{{ $tenant.tenant }}
        readOnly: true
      {{- end }}
      {{- end }}
      {{- with $service.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: {{ $service.tmpSize }}}
  - name: secrets
    projected:
      defaultMode: 288 # 0440
      sources:
        {{- range $file, $entry := $service.secrets }}
        {{- with (get $values $entry.from).existingSecret }}
        - secret:
            name: {{ . }}
            items: [{key: {{ $entry.key }}, path: {{ $file }}}]
        {{- end }}
        {{- end }}
        {{- range $part := list "database" "kafka" "blob" }}
        {{- if has $part $uses }}
        {{- with (get $values $part).caSecret }}
        - secret:
            name: {{ . }}
            items: [{key: ca.crt, path: {{ $part }}-ca.crt}]
        {{- end }}
        {{- end }}
        {{- end }}
  {{- if $folder }}
  - name: blobs
    persistentVolumeClaim: {claimName: {{ $values.blob.existingClaim }}}
  {{- end }}
  {{- if has "tenant-secrets" $uses }}
  {{- range $index, $tenant := $values.tenantSecrets }}
  - name: tenant-{{ $index }}
    secret:
      secretName: {{ $tenant.existingSecret }}
      defaultMode: 288 # 0440
  {{- end }}
  {{- end }}
  {{- with $service.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Egress rules of `uses`, and DNS for all. A part without peers gets no rule. */}}
{{- define "datarecs.egress" -}}
{{- $to := .root.Values.network.to }}
{{- range $part := prepend .service.uses "dns" }}
{{- with get $to $part }}
{{- $peers := .peers }}
{{- if eq $part "webhooks" }}
{{- $peers = concat (include "datarecs.internet" $ | fromJsonArray) $peers }}
{{- end }}
{{- if $peers }}
- to: {{- toYaml $peers | nindent 4 }}
  ports:
    {{- range $port := .ports }}
    - {protocol: TCP, port: {{ $port }}}
    {{- if eq $part "dns" }}
    - {protocol: UDP, port: {{ $port }}}
    {{- end }}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The internet without the ranges that no webhook may reach, and without EGRESS__DENIED_CIDRS. */}}
{{- define "datarecs.internet" -}}
{{- $denied := .root.Files.Get "files/denied-ranges.yaml" | fromYaml }}
{{- $ipv4 := $denied.ipv4 }}
{{- $ipv6 := $denied.ipv6 }}
{{- $settings := include "datarecs.settings" . | fromJson }}
{{- range $cidr := splitList "," (include "datarecs.text" ($settings.EGRESS__DENIED_CIDRS | default "")) }}
{{- $cidr = trim $cidr }}
{{- if contains ":" $cidr }}{{- $ipv6 = append $ipv6 $cidr | uniq }}
{{- else if $cidr }}{{- $ipv4 = append $ipv4 $cidr | uniq }}{{- end }}
{{- end }}
{{- list (dict "ipBlock" (dict "cidr" "0.0.0.0/0" "except" $ipv4)) (dict "ipBlock" (dict "cidr" "::/0" "except" $ipv6)) | toJson }}
{{- end }}
