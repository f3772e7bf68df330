"""What the run-controller needs to know: its database logins, its principals, its pace."""

from datarecs_runtime.sections import Database, Kafka, Launcher, Live, Outbox, Queue
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    database: Database
    """Login `datarecs_controller`, and the relay's own."""
    kafka: Kafka = Kafka()
    """Principal `run-controller`, and the relay's own."""
    launcher: Launcher = Launcher()
    """Which backend executes runs."""
    outbox: Outbox = Outbox()
    """How the outbox is cut and kept."""
    queue: Queue = Queue()
    """Leases of the execution queue."""
    live: Live = Live()
    """Whether loops are woken by notifications."""
