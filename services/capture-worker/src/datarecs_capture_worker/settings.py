"""Settings of the capture-worker: its slots, the kinds of work it takes, and how it reaches it.

In mode `local` a database login and the store of artefacts; in mode `remote` neither.
"""

from typing import Self

from pydantic import model_validator

from datarecs_runtime.blob_section import Blob
from datarecs_runtime.capture_sections import CaptureWorker, Executor, WorkerMode
from datarecs_runtime.sections import (
    Database,
    Egress,
    Files,
    Live,
    SecretReferences,
)
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    database: Database | None = None
    """Login `datarecs_capture`; only in mode `local`."""
    blob: Blob | None = None
    """Where the catalogue is written; only in mode `local`."""
    worker: CaptureWorker = CaptureWorker()
    """Slots, limits of a child, and whether it works over the database or the control API."""
    executor: Executor = Executor()
    """Which kinds of work it takes."""
    secrets: SecretReferences = SecretReferences()
    """How references are resolved."""
    egress: Egress = Egress()
    """Which addresses sources may have."""
    files: Files = Files()
    """The folders that file sources may use."""
    live: Live = Live()
    """Whether it is woken by notifications."""

    @model_validator(mode="after")
    def _the_mode_has_what_it_needs(self) -> Self:
        stores = {"DATARECS_DATABASE__URL": self.database, "DATARECS_BLOB__URL": self.blob}
        if self.worker.mode is WorkerMode.REMOTE:
            faults = [f"{name} is not for mode `remote`" for name in stores if stores[name]]
            if self.worker.max_parallelism == 0:
                faults.append("a remote worker without slots does nothing")
        else:
            faults = [f"{name} is missing" for name in stores if not stores[name]]
        if faults:
            raise ValueError("; ".join(faults))
        return self
