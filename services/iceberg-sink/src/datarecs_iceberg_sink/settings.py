"""Settings of iceberg-sink: how many tasks it runs, and what they may open."""

from datarecs_runtime.blob_section import Blob
from datarecs_runtime.sections import (
    Database,
    Egress,
    Files,
    Live,
    SecretReferences,
)
from datarecs_runtime.settings import ServiceSettings
from datarecs_runtime.sink_sections import Sink


class Settings(ServiceSettings):
    database: Database
    """Login `datarecs_sink`."""
    sink: Sink = Sink()
    """How many tasks it runs, and their folder."""
    secrets: SecretReferences = SecretReferences()
    """How references are resolved."""
    egress: Egress = Egress()
    """Which addresses connections may have."""
    files: Files = Files()
    """The folders that tables in files may use."""
    live: Live = Live()
    """Whether it is woken by notifications."""

    @property
    def blob(self) -> Blob | None:
        """It knows no store of artefacts; a folder of them is one of `files.excluded`."""
        return None
