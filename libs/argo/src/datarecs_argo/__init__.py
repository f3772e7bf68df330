"""The execution backend `argo`: one Workflow per run, created and stopped by the Kubernetes API."""
