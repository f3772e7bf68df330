"""The options of a platform's start, and the receiver of its progress messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from datarecs_cli.stack import placement
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.restarts import RestartPolicy
from datarecs_cli.stack.services import SERVICES, Service

DATABASE = "datarecs"
SERVERS = ("postgres", "kafka")
POSTGRES_PORT = 54_329
BROKER_PORT = 29_092
CONTROLLER_PORT = 29_093
READY_TIMEOUT = "DATARECS_UP__READY_TIMEOUT_S"
HANDED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR", "TZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `up`."""

    layout: Layout
    environment: Mapping[str, str]
    """With the settings of the stack. DATARECS_DATABASE__URL and DATARECS_KAFKA__BOOTSTRAP name
    running servers with their administrator; then none is started."""
    release: str
    project: Path
    """The working folder, for relative paths of sources and for `datarecs.toml`."""
    port: int | None = None
    """Named port of core-api; a named port never changes."""
    jars_from: Path | None = None
    log_format: str = "json"
    only: frozenset[str] | None = None
    """Names of parts; None means all."""
    ready_timeout_s: float | None = None
    """Flag: limit for a start without progress; None: the setting, or START_LIMIT_S."""
    services: tuple[Service, ...] = SERVICES
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    spare_root: Path = placement.SPARE_ROOT
    """Folder for the database if its account cannot reach the data directory."""

    def wants(self, part: str) -> bool:
        return self.only is None or part in self.only

    @property
    def ready_limit_s(self) -> float | None:
        """The flag, else the setting; None for the default."""
        written = self.environment.get(READY_TIMEOUT)
        return self.ready_timeout_s or (float(written) if written else None)

    @property
    def server_environment(self) -> dict[str, str]:
        """The environment of Postgres and Kafka, without settings, because they have secrets."""
        return {name: self.environment[name] for name in HANDED_ON if name in self.environment}

    @property
    def expected(self) -> tuple[str, ...]:
        """The parts to start, in order, without servers that already run elsewhere."""
        external = {
            "postgres": "DATARECS_DATABASE__URL" in self.environment,
            "kafka": "DATARECS_KAFKA__BOOTSTRAP" in self.environment,
        }
        servers = [name for name in SERVERS if self.wants(name) and not external[name]]
        return (*servers, *(service.name for service in self.wanted_services))

    @property
    def wanted_services(self) -> tuple[Service, ...]:
        return tuple(service for service in self.services if self.wants(service.name))


@dataclass(frozen=True, slots=True)
class Report:
    """Receives the progress of the start."""

    done: Callable[[str, float], None]
    """A step and its seconds."""
    note: Callable[[str], None]
    """A note for the user, such as a changed port or a moved database."""
