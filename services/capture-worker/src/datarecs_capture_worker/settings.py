"""Settings of the capture-worker: its database login, its slots, the kinds of work it takes."""

from datarecs_runtime.blob_section import Blob
from datarecs_runtime.capture_sections import CaptureSlots, Executor
from datarecs_runtime.sections import (
    Database,
    Egress,
    Files,
    Live,
    SecretReferences,
)
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    database: Database
    """Login `datarecs_capture`."""
    blob: Blob
    """Where the catalogue is written."""
    worker: CaptureSlots = CaptureSlots()
    """Slots, limits of a child."""
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
