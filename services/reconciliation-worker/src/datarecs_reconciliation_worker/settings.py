"""What the reconciliation-worker needs to know: its database login, its pace, its child."""

from datarecs_runtime.sections import (
    Blob,
    Database,
    Egress,
    Files,
    Java,
    Live,
    Queue,
    Secrets,
    Spark,
    Worker,
)
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    database: Database
    """Login `datarecs_worker_run`."""
    blob: Blob
    """Where the artefacts of runs are written."""
    worker: Worker = Worker()
    """Slots, drain, limits of the child."""
    queue: Queue = Queue()
    """How long a lease lives."""
    spark: Spark = Spark()
    """The child's session."""
    secrets: Secrets = Secrets()
    """How references are resolved, and the key behind break ids."""
    egress: Egress = Egress()
    """Which addresses sources may have."""
    files: Files = Files()
    """Below which folders file sources may lie."""
    java: Java = Java()
    """The Java that runs Spark."""
    live: Live = Live()
    """Whether it is woken by notifications."""
