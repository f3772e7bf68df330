"""Settings of the resource-controller: its database login, its runs, and their artefacts."""

from datarecs_runtime.api_sections import WaitingRunLimits
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.sections import Database, Launcher, Live
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    database: Database
    """Login `datarecs_resources`."""
    blob: Blob
    """Where it removes the artefacts of runs that retention policies select."""
    launcher: Launcher = Launcher()
    """Which backend executes the runs it starts; the same as run-controller's."""
    limits: WaitingRunLimits = WaitingRunLimits()
    """How many runs may wait for their start; the same as core-api's."""
    live: Live = Live()
    """Whether it wakes other services by notifications."""
