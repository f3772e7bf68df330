"""An upgrade under load: two releases serve at once, and what is removed waits for the older one.

The newer releases are made for the test: the package of the database with one more migration, and
another version. Everything else is the code of this release, so the test shows that processes,
migrations and readiness agree, and not that later code reads earlier rows.
"""

import http.client
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from time import monotonic

import pytest

from datarecs_core.runs.events import RunFinalised
from datarecs_postgres.database import newest_revision
from datarecs_postgres.releases import release_number, this_release
from datarecs_postgres.roles import MIGRATE
from datarecs_runtime.environment import process_environment
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.real_path import RealPath
from datarecs_testing.service_process import ServiceProcess
from datarecs_testing.stack import KafkaBroker, free_test_port

pytestmark = [pytest.mark.integration, pytest.mark.slow]

EXPANSION = """
from alembic import op

revision = "{revision}"
down_revision = "{before}"


def upgrade() -> None:
    op.execute("ALTER TABLE datarecs.run ADD COLUMN reviewed_by text")
    op.execute("CREATE INDEX run_reviewed ON datarecs.run (tenant_id, reviewed_by)")
    op.execute("INSERT INTO datarecs.schema_compat VALUES ('{revision}', '{oldest}')")
"""
CONTRACTION = """
from alembic import op

revision = "{revision}"
down_revision = "{before}"
oldest_release = "{oldest}"


def upgrade() -> None:
    op.execute("ALTER TABLE datarecs.run DROP COLUMN reviewed_by")
    op.execute("INSERT INTO datarecs.schema_compat VALUES ('{revision}', '{oldest}')")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release of the test: a folder that comes before the installed packages."""

    folder: Path
    version: str

    @property
    def environment(self) -> Mapping[str, str]:
        return {"PYTHONPATH": str(self.folder)}


@pytest.fixture
def releases(tmp_path: Path) -> tuple[Release, Release]:
    """The next release, which adds something, and the one after it, which removes something."""
    major, minor, *_ = release_number(this_release())
    versions = [f"{major}.{minor + later}.0" for later in (1, 2)]
    base = newest_revision()
    first, second = (f"{int(base) + later:04d}" for later in (1, 2))
    added = EXPANSION.format(revision=first, before=base, oldest=this_release())
    removed = CONTRACTION.format(revision=second, before=first, oldest=versions[0])
    return (
        _made(tmp_path / "next", versions[0], {f"{first}_wider.py": added}),
        _made(
            tmp_path / "after",
            versions[1],
            {f"{first}_wider.py": added, f"{second}_narrower.py": removed},
        ),
    )


def _made(folder: Path, version: str, migrations: Mapping[str, str]) -> Release:
    package = folder / "datarecs_postgres"
    shutil.copytree(str(files("datarecs_postgres")), package)
    for name, text in migrations.items():
        (package / "migrations" / "versions" / name).write_text(text)
    metadata = folder / f"datarecs-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: datarecs\nVersion: {version}\n"
    )
    return Release(folder=folder, version=version)


def migrate(release: Release, database: PreparedDatabase) -> subprocess.CompletedProcess[str]:
    """`datarecs admin migrate` of a release."""
    inherited = {name: process_environment().get(name, "") for name in ("PATH", "HOME")}
    return subprocess.run(
        [sys.executable, "-m", "datarecs_cli", "admin", "migrate"],
        env={
            **inherited,
            **release.environment,
            "DATARECS_DATABASE__URL": database.url(MIGRATE),
            "DATARECS_PROFILE": "local",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class Controllers:
    """Starts controllers of releases, and checks whether they are ready."""

    def __init__(self, path: RealPath) -> None:
        self.path = path
        self.ports: dict[str, int] = {}

    def start(self, name: str, release: Release | None = None) -> ServiceProcess:
        self.ports[name] = free_test_port()
        more = {} if release is None else release.environment
        return self.path.controller(name, DATARECS_SIDE__PORT=str(self.ports[name]), **more)

    def readiness(self, name: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[name], timeout=5)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError as nobody:
            return 0, str(nobody)
        finally:
            connection.close()

    def until(self, name: str, holds: Callable[[int, str], bool]) -> str:
        pause, ends = threading.Event(), monotonic() + 60
        while not holds(*(last := self.readiness(name))):
            assert monotonic() < ends, last
            pause.wait(0.1)
        return last[1]

    def serve(self, name: str) -> None:
        self.until(name, lambda status, _: status == http.client.OK)


@pytest.fixture
def load(
    private_database: PreparedDatabase,
    kafka_broker: KafkaBroker,
    principals: Mapping[str, str],
    tmp_path: Path,
) -> Iterator[RealPath]:
    """Two worker slots of this release and the role of core-api, until the block ends."""
    kafka_broker.skip_backlog("run-controller")
    with ExitStack() as open_things:
        real = RealPath(
            database=private_database,
            broker=kafka_broker,
            principals=principals,
            folder=tmp_path,
            open_things=open_things,
        )
        open_things.callback(real.stop.set)
        yield real
        real.stop.set()


def faults(service: ServiceProcess) -> list[str]:
    """What a service logged that needs a person."""
    lines = [line for line in service.text().splitlines() if line.startswith("{")]
    return [line for line in lines if json.loads(line).get("level") in {"error", "critical"}]


@pytest.mark.case("K45")
def test_runs_go_on_while_two_releases_serve_and_a_removal_waits(
    load: RealPath, releases: tuple[Release, Release], private_database: PreparedDatabase
) -> None:
    following, after = releases
    controllers = Controllers(load)
    old = controllers.start("old")
    controllers.serve("old")
    load.work(slots=2)
    runs = load.trigger(40)
    expanded = migrate(following, private_database)
    assert expanded.returncode == 0, expanded.stderr
    runs += load.trigger(20)
    new = controllers.start("new", following)
    controllers.serve("new")
    controllers.serve("old")
    runs += load.trigger(40)

    refused = migrate(after, private_database)
    assert refused.returncode == 3
    assert "DR5810" in refused.stderr
    assert f"run-controller {this_release()}" in refused.stderr
    assert f"run-controller {following.version}" not in refused.stderr

    assert old.stop() == 0
    runs += load.trigger(20)
    ends = [event.run_id for event in load.ends(runs) if isinstance(event, RunFinalised)]
    assert set(ends) == {run.run_id for run in runs}
    closed = private_database.query(
        "SELECT count(*), count(DISTINCT run_id) FROM datarecs.run_event"
        " WHERE type LIKE '%%run.finalised'"
    )
    assert closed == [(len(runs), len(runs))]
    assert (faults(old), faults(new)) == ([], [])


@pytest.mark.case("K45")
def test_without_older_services_the_removal_runs_and_they_do_not_come_back(
    load: RealPath, releases: tuple[Release, Release], private_database: PreparedDatabase
) -> None:
    following, after = releases
    load.api.close()  # the fixture's sessions are of this release
    controllers = Controllers(load)
    assert migrate(following, private_database).returncode == 0
    controllers.start("new", following)
    controllers.serve("new")
    contracted = migrate(after, private_database)
    assert contracted.returncode == 0, contracted.stderr
    controllers.serve("new")
    controllers.start("old")
    reason = controllers.until("old", lambda status, text: status == 503 and "release" in text)
    assert f"the database needs release {following.version} or newer" in reason
    assert f"this process is {this_release()}" in reason
