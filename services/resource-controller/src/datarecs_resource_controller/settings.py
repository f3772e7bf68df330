"""Settings of the resource-controller: its database login, and which runs it may start."""

from datarecs_runtime.api_sections import WaitingRunLimits
from datarecs_runtime.sections import Database, Launcher, Live
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    database: Database
    """Login `datarecs_resources`."""
    launcher: Launcher = Launcher()
    """Which backend executes the runs it starts; the same as run-controller's."""
    limits: WaitingRunLimits = WaitingRunLimits()
    """How many runs may wait for their start; the same as core-api's."""
    live: Live = Live()
    """Whether it wakes other services by notifications."""
