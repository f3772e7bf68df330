"""Settings of the run-controller: its database logins, its principals, its intervals."""

from datarecs_runtime.sections import Database, Eventing, Kafka, Launcher, Live, Outbox, Queue
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    database: Database
    """Login `datarecs_controller`, and the login of the relay."""
    kafka: Kafka = Kafka()
    """Principal `run-controller`, and the principal of the relay."""
    eventing: Eventing = Eventing()
    """How events reach it and leave it."""
    launcher: Launcher = Launcher()
    """Which backend executes runs."""
    outbox: Outbox = Outbox()
    """Shards and retention of the outbox."""
    queue: Queue = Queue()
    """Leases of the execution queue."""
    live: Live = Live()
    """Whether loops are woken by notifications."""
