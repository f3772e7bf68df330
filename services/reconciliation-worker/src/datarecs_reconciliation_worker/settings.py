"""Settings of the reconciliation-worker: its database login, its intervals, its child."""

from datarecs_runtime.blob_section import Blob
from datarecs_runtime.sections import (
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
    """How references are resolved, and the key of break ids."""
    egress: Egress = Egress()
    """Which addresses sources may have."""
    files: Files = Files()
    """The folders that file sources may use."""
    java: Java = Java()
    """The Java that runs Spark."""
    live: Live = Live()
    """Whether it is woken by notifications."""
