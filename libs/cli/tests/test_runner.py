"""The order and the wiring of `up`, with small real processes in the place of the services."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from datarecs_cli.stack import health
from datarecs_cli.stack.credentials import read_credentials
from datarecs_cli.stack.failures import CrashLoopError
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.observe import view
from datarecs_cli.stack.options import Options, Report
from datarecs_cli.stack.restarts import RestartPolicy
from datarecs_cli.stack.runner import Platform, prepare_folders
from datarecs_cli.stack.services import Service
from datarecs_cli.stack.state import Phase, State, load, save
from datarecs_runtime.environment import process_environment
from datarecs_testing.stack import PostgresServer, free_test_port, start_postgres

pytestmark = [pytest.mark.integration, pytest.mark.slow]
FAST = RestartPolicy(first_s=0.05, longest_s=0.2)


def a_service(name: str, **settings: str) -> Service:
    return Service(
        name=name,
        argv=(sys.executable, str(Path(__file__).with_name("small_service.py"))),
        side_port=free_test_port(),
        role="datarecs_api",
        settings=settings,
    )


@cache
def free_ports() -> dict[str, int]:
    return {name: free_test_port() for name in ("api", "postgres", "kafka", "kafka controller")}


class Bench:
    """Platforms of one data directory, without Kafka, and what they said.

    They remember ports of this process: the default ones belong to tests that request them.
    """

    def __init__(self, root: Path, spare_root: Path) -> None:
        self.layout = Layout(root)
        prepare_folders(self.layout)
        save(self.layout.state_file, State(ports=free_ports()))
        self.spare_root = spare_root
        self.done: list[str] = []
        self.notes: list[str] = []

    def platform(self, *services: Service, environment: dict[str, str] | None = None) -> Platform:
        options = Options(
            layout=self.layout,
            environment=process_environment() | (environment or {}),
            release="0.1.0",
            project=self.layout.root,
            services=services,
            only=frozenset({"postgres", *(one.name for one in services)}),
            policy=FAST,
            spare_root=self.spare_root,
        )
        report = Report(done=lambda text, _: self.done.append(text), note=self.notes.append)
        platform = Platform(options, report)
        assert platform.take()
        return platform


@pytest.fixture
def bench(server_directory: Path, postgres_server: PostgresServer) -> Bench:
    """A fresh data directory; the session's server proves that there is a Postgres here."""
    assert postgres_server.binaries.bin.exists()
    root = server_directory / f"bench-{free_test_port()}"
    return Bench(root / "data", root / "spare")


@pytest.fixture
def brought_up(bench: Bench) -> Iterator[Platform]:
    platform = bench.platform(a_service("one"), a_service("two"))
    platform.bring_up()
    yield platform
    platform.bring_down()


def watch_while(platform: Platform, act: Callable[[], bool]) -> None:
    """Supervise on this thread until `act`, called again and again on another, says it is done."""
    outcome: list[bool] = []

    def request_end() -> None:
        patience = threading.Event()
        for _ in range(300):
            if act():
                outcome.append(True)
                break
            patience.wait(0.05)
        platform.supervisor.request_stop()

    other = threading.Thread(target=request_end)
    other.start()
    platform.supervisor.watch()
    other.join()
    assert outcome == [True]


def test_every_part_is_ready_in_order_when_up_returns(bench: Bench, brought_up: Platform) -> None:
    steps = [text.split()[0] for text in bench.done]
    assert steps == ["PostgreSQL", "database", "services:"]
    assert list(load(bench.layout.state_file).parts) == ["postgres", "one", "two"]
    seen = view(bench.layout, services=brought_up.options.services)
    assert seen.is_ready
    assert bench.layout.credentials_file.stat().st_mode & 0o077 == 0


@pytest.mark.case("K18")
def test_a_killed_service_comes_back_and_answers(bench: Bench, brought_up: Platform) -> None:
    first = load(bench.layout.state_file).parts["one"]
    port = brought_up.ports["one side"]
    os.kill(first.pid, signal.SIGKILL)

    def is_back() -> bool:
        now = load(bench.layout.state_file).parts.get("one")
        return now not in (None, first) and health.silence(port) is None

    watch_while(brought_up, is_back)


def test_a_lost_first_key_is_replaced_by_another_of_the_same_tenant(bench: Bench) -> None:
    platform = bench.platform()
    platform.bring_up()
    platform.bring_down()
    first = read_credentials(bench.layout.credentials_file)
    bench.layout.credentials_file.unlink()
    again = bench.platform()
    again.bring_up()
    again.bring_down()
    second = read_credentials(bench.layout.credentials_file)
    assert first is not None
    assert second is not None
    assert first.tenant_id == second.tenant_id
    assert first.api_key != second.api_key


@pytest.mark.case("K16")
def test_a_damaged_state_is_written_anew(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    service = a_service("one")
    platform, ports = bench.platform(service), free_ports() | {"one side": service.side_port}
    monkeypatch.setattr(platform, "_assign_ports", lambda: ports)
    bench.layout.state_file.write_text("{")
    platform.bring_up()
    assert view(bench.layout, services=platform.options.services).is_ready
    platform.bring_down()
    assert "state.json cannot be used" in bench.notes[0]
    assert bench.layout.is_used


def test_services_are_stopped_before_the_database_goes(bench: Bench) -> None:
    platform = bench.platform(a_service("one"))
    platform.bring_up()
    assert platform.bring_down() == ()
    assert "released everything" in bench.layout.log("one").read_text()
    assert "database system is shut down" in bench.layout.log("postgres").read_text()
    assert load(bench.layout.state_file).phase is Phase.STOPPED


@pytest.mark.case("K19")
def test_a_service_that_exits_at_start_stops_the_platform_cleanly(bench: Bench) -> None:
    platform = bench.platform(a_service("good"), a_service("bad", EARLY_DEATH="yes"))
    with pytest.raises(CrashLoopError) as stopped:
        platform.bring_up()
    assert (stopped.value.part, stopped.value.died_with) == ("bad", 7)
    assert stopped.value.log_tail.count("cannot start: the test says so") == 5
    state = load(bench.layout.state_file)
    assert (state.phase, dict(state.parts)) == (Phase.STOPPED, {})
    assert "database system is shut down" in bench.layout.log("postgres").read_text()


@pytest.mark.case("K07")
def test_with_a_database_url_no_server_is_started(bench: Bench, server_directory: Path) -> None:
    place = server_directory / f"given-{free_test_port()}"
    place.mkdir(mode=0o711)
    started = start_postgres(place, process_environment())
    assert started.process is not None
    try:
        platform = bench.platform(
            a_service("one"), environment={"DATARECS_DATABASE__URL": started.url("elsewhere")}
        )
        platform.bring_up()
        assert list(load(bench.layout.state_file).parts) == ["one"]
        platform.bring_down()
        tenants = started.login.query("select name from datarecs.tenant", database="elsewhere")
        assert tenants.text == "default"
    finally:
        started.process.stop()


@pytest.mark.case("K03")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a database account of its own")
def test_below_a_closed_home_the_database_moves_and_one_line_says_so(
    bench: Bench, server_directory: Path
) -> None:
    home = server_directory / f"home-{free_test_port()}"
    home.mkdir(mode=0o700)
    closed = Bench(home / ".datarecs", bench.spare_root)
    platform = closed.platform()
    platform.bring_up()
    platform.bring_down()
    assert len(closed.notes) >= 1
    assert any(f"{home} has mode 0700" in note for note in closed.notes)
    moved = Path(load(closed.layout.state_file).postgres["directory"])
    assert moved.is_relative_to(bench.spare_root)
    assert list(moved.glob("*/data/PG_VERSION")) != []
    assert list(closed.layout.postgres.iterdir()) == []
