"""The state of a platform from outside: its state file, its processes, its answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from datarecs_cli.stack import health, kafka, postgres
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.psql import Login
from datarecs_cli.stack.services import SERVICES, Service
from datarecs_cli.stack.state import Phase, State, load


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    name: str
    pid: int | None
    address: str
    silence: str | None
    """Why it does not answer; None if it is ready."""
    restarted: str | None = None
    """Its last end and the number of the restart; None if it did not end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformView:
    phase: Phase
    """STOPPED if its supervisor does not run, for any content of the file."""
    release: str
    parts: tuple[PartView, ...]
    ports: Mapping[str, int]
    java: Mapping[str, str]
    postgres: Mapping[str, str]

    @property
    def is_ready(self) -> bool:
        return self.phase is Phase.READY and all(part.silence is None for part in self.parts)


def view(layout: Layout, *, services: tuple[Service, ...] = SERVICES) -> PlatformView:
    """Check every part that should run; takes a few seconds if some do not answer."""
    state = load(layout.state_file)
    supervised = state.supervisor is not None and state.supervisor.is_alive()
    probes = _probes(layout, state, services)
    parts = tuple(_part(name, state, probes) for name in state.expected if supervised)
    return PlatformView(
        phase=state.phase if supervised else Phase.STOPPED,
        release=state.release,
        parts=parts,
        ports=state.ports,
        java=state.java,
        postgres=state.postgres,
    )


def _part(name: str, state: State, probes: Mapping[str, Callable[[], str | None]]) -> PartView:
    identity = state.parts.get(name)
    if identity is None:
        silence: str | None = "not started yet, or will be restarted soon"
    elif identity.is_alive():
        silence = probes[name]()
    else:
        silence = "its process has ended"
    return PartView(
        name=name,
        pid=identity.pid if identity else None,
        address=_address(name, state),
        silence=silence,
        restarted=state.restarts.get(name),
    )


def _address(name: str, state: State) -> str:
    port = state.ports.get("api" if name == "core-api" else name, state.ports.get(f"{name} side"))
    return f"127.0.0.1:{port}"


def _probes(
    layout: Layout, state: State, services: tuple[Service, ...]
) -> dict[str, Callable[[], str | None]]:
    def secret(name: str) -> str:
        return (layout.secrets / name).read_text(encoding="utf-8")

    def database() -> str | None:
        login = Login(
            psql=Path(state.postgres["binaries"]) / "psql",
            host="127.0.0.1",
            port=state.ports["postgres"],
            user=postgres.SUPERUSER,
            password=secret("postgres-stack"),
        )
        answer = login.query("select 1")
        return answer.text if answer.refused else None

    def broker() -> str | None:
        return kafka.silence_of(f"127.0.0.1:{state.ports['kafka']}", secret("kafka-stack"))

    probes: dict[str, Callable[[], str | None]] = {"postgres": database, "kafka": broker}
    for service in services:
        port = state.ports.get(service.side_port_name, 0)
        probes[service.name] = lambda port=port: health.silence(port)  # type: ignore[misc]  # the port of this turn
    return probes
