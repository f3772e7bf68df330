// Only pins modules with definitions of custom kinds; no code of them is built.
module datarecs.io/tests/kubeapi/crds

go 1.24.0

require (
	github.com/cloudnative-pg/cloudnative-pg v1.27.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
