"""What may be chosen about a platform before it starts, and to whom it tells its progress."""

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
    """What the caller of `up` may choose."""

    layout: Layout
    environment: Mapping[str, str]
    """With the settings of the stack in it. DATARECS_DATABASE__URL or DATARECS_KAFKA__BOOTSTRAP
    name servers that run already, as their administrator; none is started then."""
    release: str
    project: Path
    """Where the user stands: relative paths of sources and `datarecs.toml` start there."""
    port: int | None = None
    """Named port of core-api; a named one never moves."""
    jars_from: Path | None = None
    log_format: str = "json"
    only: frozenset[str] | None = None
    """Names of parts; None means all."""
    ready_timeout_s: float | None = None
    """Flag: how long any part may start without progress; None = the setting, or its own limit."""
    services: tuple[Service, ...] = SERVICES
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    spare_root: Path = placement.SPARE_ROOT
    """Where the database moves when its account cannot pass."""

    def wants(self, part: str) -> bool:
        return self.only is None or part in self.only

    @property
    def ready_limit_s(self) -> float | None:
        """The flag, else the setting; None when each part has its own limit."""
        written = self.environment.get(READY_TIMEOUT)
        return self.ready_timeout_s or (float(written) if written else None)

    @property
    def server_environment(self) -> dict[str, str]:
        """For Postgres and Kafka: nothing of our settings, which hold secrets."""
        return {name: self.environment[name] for name in HANDED_ON if name in self.environment}

    @property
    def expected(self) -> tuple[str, ...]:
        """The parts that are started, in their order; not a server that somebody else runs."""
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
    """How the start-up tells what it does."""

    done: Callable[[str, float], None]
    """A step and the seconds it took."""
    note: Callable[[str], None]
    """Something the user should know: a moved port, a moved database."""
