// Only pins modules with definitions of custom kinds; no code of them is built.
module datarecs.io/tests/kubeapi/crds

go 1.25.7

require (
	github.com/argoproj/argo-workflows/v4 v4.0.5
	github.com/cloudnative-pg/cloudnative-pg v1.27.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
