"""Settings of the webhook-service: its login, its principal, its egress."""

from datarecs_runtime.sections import Database, Egress, Eventing, Kafka, Live, Secrets, Webhook
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    database: Database
    """Login `datarecs_webhook`."""
    kafka: Kafka = Kafka()
    """Principal `webhook-service`, which may read every event topic."""
    eventing: Eventing = Eventing()
    """How events reach it."""
    webhook: Webhook = Webhook()
    """How much at once."""
    egress: Egress = Egress()
    """Which addresses it may call."""
    secrets: Secrets = Secrets()
    """The key under which signing secrets were sealed, and where references lead."""
    live: Live = Live()
    """Whether notifications are sent at commit."""
