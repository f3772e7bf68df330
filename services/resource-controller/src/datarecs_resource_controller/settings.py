"""Settings of the resource-controller: its database login, and where runs are executed."""

from datarecs_runtime.sections import Database, Launcher, Live
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    database: Database
    """Login `datarecs_resources`."""
    launcher: Launcher = Launcher()
    """Which backend executes the runs it starts; the same as run-controller's."""
    live: Live = Live()
    """Whether it wakes other services by notifications."""
