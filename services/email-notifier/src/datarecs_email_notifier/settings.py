"""Settings of the email-notifier: its database login, its principal, the relay."""

from datarecs_runtime.sections import Database, Eventing, Kafka, Links, Live, Mail
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    database: Database
    """Login `datarecs_mail`."""
    kafka: Kafka = Kafka()
    """Principal `email-notifier`, which may read the platform topic alone."""
    eventing: Eventing = Eventing()
    """How events reach it."""
    mail: Mail
    """The relay, or the maildir; whom a tenant may write to."""
    live: Live = Live()
    """Whether the sending loops are woken by notifications."""
    links: Links = Links()
    """How links in mails are signed; the same as core-api's."""
