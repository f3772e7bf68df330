"""Events through a Knative Broker: posted to its ingress, received from its Triggers."""
