"""Services are registered by their open sessions; a removal waits until no older one is left."""

import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from datarecs_core.errors.store import ServicesRunningError
from datarecs_postgres import migrate
from datarecs_postgres.database import Database, newest_revision
from datarecs_postgres.migrate import upgrade
from datarecs_postgres.ownership import as_owner
from datarecs_postgres.releases import application_name, release_number, release_of, this_release
from datarecs_postgres.roles import CONTROLLER, MIGRATE, READ, WORKER_RUN
from datarecs_postgres.sessions import refuse_running_services, service_sessions
from datarecs_testing.database import PreparedDatabase

CONTRACTION = """
from alembic import op

revision = "{revision}"
down_revision = "{before}"
oldest_release = "{oldest}"


def upgrade() -> None:
    op.execute("ALTER TABLE datarecs.run DROP COLUMN trigger_reason")
    op.execute("INSERT INTO datarecs.schema_compat VALUES ('{revision}', '{oldest}')")


def downgrade() -> None:
    op.execute("ALTER TABLE datarecs.run ADD COLUMN trigger_reason text")
"""


@pytest.mark.parametrize(
    ("application", "release"),
    [
        (application_name("run-controller"), this_release()),
        ("reconciliation-worker 1.12.3rc1", "1.12.3rc1"),
        ("run-controller", None),
        ("psql", None),
        ("", None),
        ("process 12", None),
    ],
)
def test_a_session_names_its_release_or_none(application: str, release: str | None) -> None:
    assert release_of(application) == release


def test_releases_are_ordered_by_their_numbers() -> None:
    assert release_number("0.9.12") < release_number("0.10.0") < release_number("1.0")


@pytest.fixture
def contraction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Adds a migration of a later release that removes a column; returns its revision."""
    before = newest_revision()
    after = f"{int(before) + 1:04d}"
    folder = tmp_path / "migrations"
    shutil.copytree(str(files("datarecs_postgres") / "migrations"), folder)

    def configured(connection: Connection) -> Config:
        config = Config()
        config.set_main_option("script_location", str(folder))
        config.attributes["connection"] = connection
        return config

    def add(oldest: str) -> str:
        text = CONTRACTION.format(revision=after, before=before, oldest=oldest)
        (folder / "versions" / f"{after}_narrower.py").write_text(text)
        monkeypatch.setattr(migrate, "configuration", configured)
        return after

    return add


@pytest.mark.integration
class TestSessions:
    def test_services_are_listed_with_program_and_release(
        self, private_database: PreparedDatabase
    ) -> None:
        """The reader's role is of people, and the migration itself is no service."""
        with (
            private_database.connect(CONTROLLER) as first,
            private_database.connect(CONTROLLER) as second,
            private_database.connect(READ),
            as_owner(private_database.url(MIGRATE)) as connection,
        ):
            for one in (first, second):
                one.execute("SET application_name = 'run-controller 0.4.0'")
            (only,) = service_sessions(connection)
        assert (only.application, only.role, only.sessions) == (
            "run-controller 0.4.0",
            CONTROLLER,
            2,
        )
        assert only.release == "0.4.0"

    def test_a_process_registers_by_its_first_statement(
        self, private_database: PreparedDatabase
    ) -> None:
        service = Database(private_database.url(WORKER_RUN), application="reconciliation-worker")
        try:
            assert service.ready() is None
            with (
                as_owner(private_database.url(MIGRATE)) as connection,
                pytest.raises(ServicesRunningError) as refused,
            ):
                refuse_running_services(connection, purpose="a restore is recovered")
        finally:
            service.close()
        assert f"reconciliation-worker {this_release()}" in str(refused.value)
        with as_owner(private_database.url(MIGRATE)) as connection:
            for _ in range(200):  # the server ends a session soon after its client
                if not service_sessions(connection):
                    break
                connection.execute(text("SELECT pg_sleep(0.05), pg_stat_clear_snapshot()"))
            refuse_running_services(connection, purpose="a restore is recovered")


@pytest.mark.integration
@pytest.mark.case("K45")
class TestContraction:
    @pytest.mark.parametrize("application", ["run-controller 0.1.0", "run-controller", "psql"])
    def test_it_is_refused_while_an_older_service_is_connected(
        self,
        private_database: PreparedDatabase,
        contraction: Callable[[str], str],
        application: str,
    ) -> None:
        """A program that names no release is not known to support it."""
        revision = contraction("0.2.0")
        before = private_database.query("SELECT version_num FROM datarecs.alembic_version")
        with private_database.connect(CONTROLLER) as session:
            session.execute("SELECT set_config('application_name', %s, false)", (application,))
            with pytest.raises(ServicesRunningError) as refused:
                upgrade(private_database.url(MIGRATE))
        assert refused.value.code.docs_id == "DR5810"
        assert f"migration {revision} removes what releases before 0.2.0 use" in str(refused.value)
        assert application in str(refused.value)
        after = private_database.query("SELECT version_num FROM datarecs.alembic_version")
        assert after == before
        upgrade(private_database.url(MIGRATE))
        assert private_database.query("SELECT version_num FROM datarecs.alembic_version") == [
            (revision,)
        ]

    def test_services_of_the_oldest_supported_release_may_run(
        self, private_database: PreparedDatabase, contraction: Callable[[str], str]
    ) -> None:
        revision = contraction("0.2.0")
        with private_database.connect(CONTROLLER) as session:
            session.execute("SET application_name = 'run-controller 0.2.0'")
            upgrade(private_database.url(MIGRATE))
        assert private_database.query("SELECT version_num FROM datarecs.alembic_version") == [
            (revision,)
        ]

    def test_afterwards_an_older_process_says_which_release_it_needs(
        self, private_database: PreparedDatabase, contraction: Callable[[str], str]
    ) -> None:
        contraction("99.0.0")
        upgrade(private_database.url(MIGRATE))
        service = Database(private_database.url(CONTROLLER))
        try:
            reason = service.ready()
        finally:
            service.close()
        assert reason == (
            f"the database needs release 99.0.0 or newer, this process is {this_release()};"
            " start a newer release"
        )


@pytest.mark.integration
def test_a_migration_that_ends_the_support_of_a_release_says_so(
    database: PreparedDatabase,
) -> None:
    """`oldest_release` of the module is what the check reads, the row is what readiness reads."""
    rows: dict[str, str] = dict(
        database.query("SELECT revision, oldest_release FROM datarecs.schema_compat ORDER BY 1")
    )
    scripts = ScriptDirectory(str(files("datarecs_postgres") / "migrations"))
    stated = {
        one.revision: getattr(one.module, "oldest_release", None)
        for one in scripts.walk_revisions()
    }
    assert rows.keys() == stated.keys()
    before = min(rows.values(), key=release_number)
    for revision, oldest in sorted(rows.items()):
        assert stated[revision] == (None if oldest == before else oldest), revision
        before = oldest
