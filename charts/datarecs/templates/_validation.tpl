{{/* What a schema cannot say: missing values and values that contradict, all in one message. */}}
{{- define "datarecs.validate" -}}
{{- $values := .Values }}
{{- $services := include "datarecs.services" . | fromJson }}
{{- $uses := list }}
{{- range $services }}{{- $uses = concat $uses .uses }}{{- end }}
{{- $faults := list }}
{{- if not $values.baseUrl }}
{{- $faults = append $faults "baseUrl is not set: the public address of the API, such as https://datarecs.example.com" }}
{{- end }}
{{- $remote := $values.remoteWorkers }}
{{- if and $remote.clientId (not (and $remote.issuer $remote.existingSecret)) }}
{{- $faults = append $faults "remoteWorkers.clientId needs remoteWorkers.issuer and remoteWorkers.existingSecret, a Secret with `client-secret`" }}
{{- end }}
{{- if and $remote.existingSecret (not $remote.clientId) }}
{{- $faults = append $faults "remoteWorkers.existingSecret has no effect without remoteWorkers.clientId" }}
{{- end }}
{{- if and $remote.clientId (not (hasKey $services "capture-worker")) }}
{{- $faults = append $faults "remoteWorkers.clientId needs services.capture-worker: nothing else runs at a site" }}
{{- end }}
{{- if and (not $values.database.existingSecret) (not $remote.clientId) }}
{{- $faults = append $faults "database.existingSecret is not set: a Secret with the URL of each database role" }}
{{- end }}
{{- if $remote.clientId }}
{{- if or (eq $values.launcher.backend "argo") (eq $values.eventing.mode "knative") }}
{{- $faults = append $faults "launcher.backend and eventing.mode have no effect with remoteWorkers.clientId; leave them out" }}
{{- end }}
{{- else if eq $values.eventing.mode "knative" }}
{{- if not $values.eventing.brokerUrl }}
{{- $faults = append $faults "eventing.brokerUrl is not set: the ingress of the Broker, its status.address.url" }}
{{- end }}
{{- if not $values.eventing.deadLetterSink }}
{{- $faults = append $faults "eventing.deadLetterSink is not set: where events go that no service can handle, such as {ref: {apiVersion: v1, kind: Service, name: dead-letters}}" }}
{{- end }}
{{- else if not $values.kafka.bootstrap }}
{{- $faults = append $faults "kafka.bootstrap is not set: the brokers, such as kafka-bootstrap.kafka:9093" }}
{{- end }}
{{- if and (has "blob" $uses) (not $values.blob.url) }}
{{- $faults = append $faults "blob.url is not set: the place of artefacts, such as s3://bucket/prefix" }}
{{- end }}
{{- if and (has "mail" $uses) (not (and $values.mail.host $values.mail.from)) }}
{{- $faults = append $faults "mail.host and mail.from are not set: the SMTP relay and the sender; or disable services.email-notifier" }}
{{- end }}
{{- if not (hasKey ($values.settings | default dict) "EGRESS__DENIED_CIDRS") }}
{{- $faults = append $faults "settings.EGRESS__DENIED_CIDRS is not set: the networks of pods, Services, database and broker, which no tenant may reach" }}
{{- end }}
{{- with get $services "core-api" }}
{{- $settings := include "datarecs.settings" (dict "root" $ "service" .) | fromJson }}
{{- if not (or (hasKey $settings "API__TRUSTED_PROXIES") (hasKey $settings "API__TLS_CERT_FILE")) }}
{{- $faults = append $faults "settings.API__TRUSTED_PROXIES is not set: the networks of the pods of the ingress controller" }}
{{- end }}
{{- end }}
{{- $file := hasPrefix "file://" $values.blob.url }}
{{- if and $file (not $values.blob.existingClaim) }}
{{- $faults = append $faults (printf "blob.existingClaim is not set: %s needs a ReadWriteMany claim that all pods share" $values.blob.url) }}
{{- end }}
{{- if and $values.blob.existingClaim (not $file) }}
{{- $faults = append $faults "blob.existingClaim has no effect: blob.url does not start with file://; remove it" }}
{{- end }}
{{- if and $file (or $values.blob.endpoint $values.blob.existingSecret) }}
{{- $faults = append $faults "blob.endpoint and blob.existingSecret have no effect with file://; remove them" }}
{{- end }}
{{- if and $values.ingress.enabled (not (hasKey $services "core-api")) }}
{{- $faults = append $faults "ingress.enabled needs services.core-api" }}
{{- end }}
{{- if and (eq $values.launcher.backend "argo") (not $remote.clientId) }}
{{- if not (get $values.services "reconciliation-worker") }}
{{- $faults = append $faults "launcher.backend argo needs the entry services.reconciliation-worker, from which the pods of workflows are made; it may be disabled" }}
{{- end }}
{{- if and $values.network.policies (not $values.network.to.kubernetes.peers) }}
{{- $faults = append $faults "network.to.kubernetes.peers is not set: launcher.backend argo calls the Kubernetes API, and policies see the addresses behind its Service" }}
{{- end }}
{{- end }}
{{- range $name, $service := $services }}
{{- with $service.autoscaling }}
{{- if gt (int .min) (int .max) }}
{{- $faults = append $faults (printf "services.%s.autoscaling: min %v is more than max %v" $name .min .max) }}
{{- end }}
{{- end }}
{{- end }}
{{- $reserved := keys $values.jobs | concat (list "all" "default-deny" "monitoring" "alerts" "workflow") }}
{{- range $name := keys $services | sortAlpha }}
{{- if has $name $reserved }}
{{- $faults = append $faults (printf "services.%s: the chart uses this name; choose another" $name) }}
{{- end }}
{{- end }}
{{- if $faults }}
{{- fail (printf "\n\nThe values of the chart are incomplete or contradict each other:\n- %s\n" (join "\n- " $faults)) }}
{{- end }}
{{- end }}
