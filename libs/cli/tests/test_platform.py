"""The local platform as people meet it: the real command, a real database, a real broker."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from datarecs_cli.stack import jars
from datarecs_cli.stack.credentials import read_credentials
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.process import Identity, gone_within
from datarecs_cli.stack.state import Phase, State, load
from datarecs_runtime.environment import process_environment
from datarecs_testing.stack import BrokerPrograms

pytestmark = [pytest.mark.integration, pytest.mark.slow]
NO_NETWORK = "http://127.0.0.1:9/maven"


class Installation:
    """One data directory and the user around it: its home, cache and temporary folder."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root / "data")
        self.home, self.cache, self.temporary = root / "home", root / "cache", root / "tmp"
        for folder in (self.home, self.cache, self.temporary):
            folder.mkdir()
        self.running: subprocess.Popen[str] | None = None

    @property
    def state(self) -> State:
        return load(self.layout.state_file)

    @property
    def environment(self) -> dict[str, str]:
        ours = {
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.cache),
            "TMPDIR": str(self.temporary),
            "DATARECS_JARS__MIRROR": NO_NETWORK,
        }
        return process_environment() | ours

    def command(self, *arguments: str) -> list[str]:
        data_dir = ["--data-dir", str(self.layout.root)]
        return [sys.executable, "-m", "datarecs_cli", *arguments, *data_dir]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command to its end, its standard input a pipe."""
        return subprocess.run(
            self.command(*arguments),
            input="",
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=120,
            check=False,
        )

    def up(self, *parts: str) -> None:
        """Start in the foreground, unless it runs; returns when it is ready."""
        if self.running is not None:
            return
        self.running = subprocess.Popen(
            self.command("up", "--only", ",".join(parts)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
        )
        while self.state.phase is not Phase.READY or not self._is_ours():
            try:
                self.running.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(self.end_of_output())

    def _is_ours(self) -> bool:
        supervisor = self.state.supervisor
        return (
            self.running is not None
            and supervisor is not None
            and supervisor.pid == self.running.pid
        )

    def end_of_output(self) -> str:
        """What the ended command said."""
        if self.running is None:
            return ""
        try:
            said, _ = self.running.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.running.kill()
            said, _ = self.running.communicate()
            raise AssertionError(f"it still ran after 60 s:\n{said}") from None
        finally:
            self.running = None
        return said

    def down(self) -> str:
        """Stop it; what `up` said until its end."""
        assert self.run("down").returncode == 0
        return self.end_of_output()

    def await_ready_again(self, before: dict[str, Identity]) -> None:
        """Until every part runs as another process and answers."""
        deadline = monotonic() + 60
        while monotonic() < deadline:
            parts = self.state.parts
            if all(name in parts and parts[name] != one for name, one in before.items()):
                seen = json.loads(self.run("status", "-o", "json").stdout)
                if seen["ready"]:
                    return
        raise AssertionError(self.run("status").stdout)


def a_listener(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


@pytest.fixture(scope="module")
def installed(server_directory: Path, broker_programs: BrokerPrograms) -> Iterator[Installation]:
    """A machine with the jars cached and no network."""
    root = server_directory / "installation"
    root.mkdir(mode=0o711)
    installation = Installation(root)
    cache = jars.cache_folder(installation.environment) / "jars"
    cache.mkdir(parents=True)
    for jar in broker_programs.classpath:
        shutil.copyfile(jar, cache / jar.name)
    yield installation
    installation.down()


@pytest.fixture
def platform(installed: Installation) -> Installation:
    """The same data directory for every test of this module, running."""
    installed.up("postgres", "kafka")
    return installed


@pytest.mark.case("K13")
def test_the_class_path_of_the_broker_is_exactly_the_lock(platform: Installation) -> None:
    argv = Path(f"/proc/{platform.state.parts['kafka'].pid}/cmdline").read_text().split("\0")
    names = [Path(one).name for one in argv[argv.index("-cp") + 1].split(":")]
    assert names == [jar.file_name for jar in jars.read_lock().jars]


def test_no_password_is_visible_among_the_processes(platform: Installation) -> None:
    secrets = [path.read_text() for path in platform.layout.secrets.iterdir()]
    for identity in platform.state.parts.values():
        argv = Path(f"/proc/{identity.pid}/cmdline").read_text()
        environment = Path(f"/proc/{identity.pid}/environ").read_text()
        assert not any(secret in argv + environment for secret in secrets)


@pytest.mark.case("K20")
@pytest.mark.case("U03")
def test_a_second_up_attaches_and_shows_what_runs(platform: Installation) -> None:
    before = platform.state
    second = platform.run("up")
    assert second.returncode == 0
    assert "runs on" in second.stderr
    assert "postgres" in second.stdout
    assert platform.state == before


def test_status_shows_a_program_which_parts_answer(platform: Installation) -> None:
    seen = platform.run("status", "-o", "json")
    status = json.loads(seen.stdout)
    assert (seen.returncode, status["schema"], status["ready"]) == (
        0,
        "datarecs.cli.status/1",
        True,
    )
    assert [part["name"] for part in status["parts"]] == ["postgres", "kafka"]


@pytest.mark.case("K21")
def test_data_is_not_deleted_without_a_person_or_yes(platform: Installation) -> None:
    refused = platform.run("down", "--reset")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert platform.state.phase is Phase.READY


def test_a_second_tenant_gets_a_separate_key_once(platform: Installation) -> None:
    made = platform.run("admin", "tenant", "create", "acme")
    assert made.returncode == 0
    assert made.stdout.startswith("drk_")
    assert made.stdout.count("\n") == 1
    again = platform.run("admin", "tenant", "create", "acme")
    assert (again.returncode, again.stdout) == (3, "")


def test_a_tenant_gets_another_admin_key_before_the_first_one_expires(
    platform: Installation,
) -> None:
    made = platform.run("admin", "tenant", "new-key", "default")
    assert made.returncode == 0
    assert made.stdout.startswith("drk_")
    unknown = platform.run("admin", "tenant", "new-key", "nobody")
    assert (unknown.returncode, unknown.stdout) == (2, "")


def test_every_step_of_an_operator_may_be_repeated(platform: Installation) -> None:
    for arguments in (["bootstrap-db"], ["migrate"], ["topics", "apply"], ["outbox", "unpark"]):
        assert platform.run("admin", *arguments).returncode == 0
    assert platform.run("admin", "topics", "apply", "--dry-run").stdout == "nothing to change\n"


@pytest.mark.case("K18")
def test_killed_servers_come_back_by_themselves(platform: Installation) -> None:
    before = dict(platform.state.parts)
    for identity in before.values():
        os.kill(identity.pid, signal.SIGKILL)
    platform.await_ready_again(before)


@pytest.mark.case("K02")
@pytest.mark.case("K14")
@pytest.mark.case("K17")
@pytest.mark.case("K23")
def test_after_a_killed_supervisor_all_is_gone_and_the_next_start_finds_its_data(
    platform: Installation,
) -> None:
    before, key = platform.state, read_credentials(platform.layout.credentials_file)
    assert platform.running is not None
    platform.running.kill()
    assert all(gone_within(identity, 10) for identity in before.parts.values())
    platform.end_of_output()
    platform.up("postgres", "kafka")
    assert platform.state.cluster_id == before.cluster_id
    assert platform.state.ports == before.ports
    assert read_credentials(platform.layout.credentials_file) == key
    assert platform.run("admin", "topics", "apply", "--dry-run").stdout == "nothing to change\n"


@pytest.mark.case("K16")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=["SIGTERM", "Ctrl-C"]
)
def test_a_stop_leaves_no_process_and_a_clean_database(
    platform: Installation, number: signal.Signals, code: int
) -> None:
    parts = platform.state.parts
    log = platform.layout.log("postgres")
    begins_at = log.stat().st_size
    command = platform.running
    assert command is not None
    command.send_signal(number)
    said = platform.end_of_output()
    # Python ends by the signal itself if Ctrl-C arrives in an import; shells show 130 for both.
    returned = 128 - command.returncode if command.returncode < 0 else command.returncode
    assert (returned, "stopped" in said) == (code, True)
    assert [name for name, identity in parts.items() if identity.is_alive()] == []
    assert "database system is shut down" in log.read_text()[begins_at:]
    assert platform.state.phase is Phase.STOPPED


@pytest.mark.case("K05")
def test_nothing_is_written_outside_the_data_directory_and_the_cache(
    platform: Installation,
) -> None:
    platform.down()
    assert list(platform.home.iterdir()) == []
    assert list(platform.temporary.iterdir()) == []
    assert {one.name for one in (platform.cache / "datarecs").iterdir()} == {"jars"}


@pytest.mark.case("K15")
@pytest.mark.case("U03")
def test_busy_default_ports_move_and_are_stored(installed: Installation) -> None:
    before = installed.state.ports
    installed.down()
    ports = (before["api"], before["postgres"])
    with (
        socket.create_server(("127.0.0.1", ports[0])),
        socket.create_server(("127.0.0.1", ports[1])),
    ):
        installed.up("postgres")
        moved = installed.state.ports
        assert moved["api"] != ports[0]
        assert moved["postgres"] != ports[1]
        said = installed.down()
    assert f"port {ports[1]} is busy; postgres uses port {moved['postgres']}" in said
    installed.up("postgres")
    assert installed.state.ports == moved
    assert "is busy" not in installed.down()


@pytest.mark.case("K15")
@pytest.mark.case("K50")
def test_a_busy_port_that_was_named_is_an_error_with_its_owner(installed: Installation) -> None:
    installed.down()
    with a_listener(0) as taken:
        port = taken.getsockname()[1]
        refused = installed.run("up", "--port", str(port), "--only", "postgres")
    assert refused.returncode == 3
    assert f"DR5009 port {port} for api is in use by" in refused.stderr
    assert f"(pid {os.getpid()})" in refused.stderr
    assert installed.state.phase is Phase.STOPPED


def test_reset_with_yes_deletes_everything(installed: Installation) -> None:
    installed.up("postgres")
    assert installed.run("down", "--reset", "--yes").returncode == 0
    installed.end_of_output()
    assert not installed.layout.root.exists()
    assert installed.run("status").returncode == 3


def test_a_detached_platform_lives_on_until_it_is_stopped(installed: Installation) -> None:
    started = installed.run("up", "--detach", "--only", "postgres")
    assert started.returncode == 0
    assert "PostgreSQL" in started.stderr
    parts = installed.state.parts
    assert all(identity.is_alive() for identity in parts.values())
    assert installed.run("down").returncode == 0
    assert [name for name, identity in parts.items() if identity.is_alive()] == []


@pytest.mark.case("K08")
@pytest.mark.case("K50")
def test_a_data_directory_of_another_major_is_left_alone(installed: Installation) -> None:
    shutil.rmtree(installed.layout.root, ignore_errors=True)
    installed.layout.create(as_root=os.geteuid() == 0)
    old = installed.layout.postgres / "12" / "data"
    old.mkdir(parents=True)
    (old / "PG_VERSION").write_text("12\n")
    refused = installed.run("up", "--only", "postgres")
    assert refused.returncode == 3
    assert "DR5005" in refused.stderr
    assert [one.name for one in old.iterdir()] == ["PG_VERSION"]
