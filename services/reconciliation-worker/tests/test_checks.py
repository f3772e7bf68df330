"""Checks of connections and jobs over real files and servers, each in its own child process."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg import sql

from datarecs_application.loops.checking import SourceChecks
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_application.ports.checks import CHECK_LEASE
from datarecs_application.ports.supervising import ChildProcess
from datarecs_application.source_conditions import ConnectionController
from datarecs_core.egress.addresses import Profile
from datarecs_core.resources.checks import Cause, CheckResult, CheckStep, StepState
from datarecs_core.resources.conditions import conditions_of
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import ResourceUid, TenantId
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, RESOURCES, WORKER_RUN
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_reconciliation_worker.settings import Settings
from datarecs_reconciliation_worker.wiring import check_child, checking
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.child import SpawnedChild
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.sections import Files, Secrets, Worker
from datarecs_testing.builders import A_TENANT, B_TENANT, a_resource
from datarecs_testing.clock import FixedIds
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration

PASSWORD = "canary-password-4711"
STAGE: dict[str, Any] = {
    "name": "balance",
    "type": "aggregate",
    "dimensions": ["account"],
    "measures": [{"name": "total", "function": "sum", "column": "amount"}],
}


@dataclass(slots=True)
class House:
    """A store, a folder for files, and the loop of a worker over both."""

    folder: Path
    environment: pytest.MonkeyPatch
    clock: SystemClock = field(default_factory=SystemClock)
    store: MemoryStore = field(init=False)
    unit: MemoryUnitOfWork = field(init=False)
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock, FixedIds())
        self.unit = MemoryUnitOfWork(self.store)
        self.settings = Settings.model_construct(
            profile=Profile.LOCAL,
            files=Files(roots=(self.folder / "data",), owner=A_TENANT),
            blob=Blob(url=(self.folder / "blobs").as_uri()),
            worker=Worker(scratch_dir=self.folder / "scratch"),
            secrets=Secrets(),
        )
        (self.folder / "data").mkdir()

    def loop(self, make: Callable[[], ChildProcess] | None = None, **changes: Any) -> SourceChecks:  # noqa: ANN401  any field
        parts = {
            "unit": self.unit,
            "finder": MemoryWorkFinder(self.store),
            "use": checking(self.settings),
            "make": make or (lambda: check_child(self.folder / "scratch/child-check")),
            "metrics": PrometheusMetrics(),
            "rhythm": Rhythm(clock=self.clock, wake=Latch()),
            "memory_bytes": 2**32,
        }
        return SourceChecks(**{**parts, **changes})

    def declare(
        self, kind: Kind, name: str, spec: dict[str, Any], *, tenant: TenantId = A_TENANT
    ) -> Resource:
        resource = a_resource(kind=kind, name=name, spec=spec, tenant_id=tenant)
        with self.unit.begin(tenant) as tx:
            tx.resources.add(resource)
        return resource

    def files(self, root: str = ".", *, tenant: TenantId = A_TENANT) -> Resource:
        spec = {"type": "files", "config": {"root": root}}
        return self.declare(Kind.CONNECTION, "here", spec, tenant=tenant)

    def database(self, server: PostgresServer, user: str, **config: Any) -> Resource:  # noqa: ANN401  any field
        auth = {"password": f"env:DATARECS_CONN_{A_TENANT.hex.upper()}_LEDGER"}
        place = {
            "host": "127.0.0.1",
            "port": server.login.port,
            "database": "postgres",
            "user": user,
        }
        settings = {**place, "sslmode": "disable", **config}
        spec = {"type": "postgres", "config": settings, "auth": auth}
        return self.declare(Kind.CONNECTION, "ledger", spec)

    def job(self, *sources: dict[str, Any], stage: dict[str, Any] = STAGE, **more: Any) -> Resource:  # noqa: ANN401  any field
        spec = {"sources": list(sources), "stages": [stage], **more}
        return self.declare(Kind.RECONCILIATION_JOB, "books", spec)

    def csv(self, name: str, text: str) -> dict[str, Any]:
        (self.folder / f"data/{name}.csv").write_text(text)
        return {"name": name, "kind": "csv", "connection": "here", "path": f"{name}.csv"}

    def set_password(self, value: str) -> None:
        self.environment.setenv(f"DATARECS_CONN_{A_TENANT.hex.upper()}_LEDGER", value)

    def check(self, resource: Resource, loop: SourceChecks | None = None) -> CheckResult:
        with self.unit.begin(resource.tenant_id) as tx:
            tx.checks.request(resource.uid, subject="1")
        assert (loop or self.loop()).step() == 1
        with self.unit.begin(resource.tenant_id) as tx:
            check = tx.checks.get(resource.uid)
        assert check is not None
        assert check.result is not None
        assert check.checked_generation == resource.generation
        return check.result


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    return House(tmp_path, monkeypatch)


@pytest.fixture
def login(postgres_server: PostgresServer) -> Iterator[str]:
    """A login with a password that may read `books.entries`."""
    name, table = "check_reader", "check_entries"
    with psycopg.connect(postgres_server.conninfo, autocommit=True) as admin:
        drop = f"DROP TABLE IF EXISTS {table}, {table}_closed; DROP ROLE IF EXISTS {name}"
        admin.execute(drop.encode())
        admin.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                sql.Identifier(name), sql.Literal(PASSWORD)
            )
        )
        admin.execute(f"CREATE TABLE {table} (account text, amount numeric, note text)".encode())
        admin.execute(f"CREATE TABLE {table}_closed (account text, amount numeric)".encode())
        admin.execute(f"GRANT SELECT ON {table} TO {name}".encode())
        yield name
        admin.execute(drop.encode())


def failure(result: CheckResult) -> CheckStep:
    step = result.first_failure()
    assert step is not None, result
    return step


LEDGER = {
    "name": "ledger",
    "kind": "postgres",
    "connection": "ledger",
    "relation": "public.check_entries",
}


class TestFiles:
    def test_a_folder_that_can_be_read(self, house: House) -> None:
        house.csv("a", "account,amount\n1,2.50\n")
        result = house.check(house.files())
        assert [(step.source, step.name, step.state, step.seen) for step in result.steps] == [
            ("here", "folder", StepState.OK, "1 file")
        ]

    def test_a_folder_that_does_not_exist(self, house: House) -> None:
        step = failure(house.check(house.files("missing")))
        assert (step.cause, step.code) == (Cause.UNREACHABLE, "CONNECTION_FAILED")
        assert "does not exist" in step.seen
        assert step.fix

    def test_a_good_job_is_planned_without_reading_on(self, house: House) -> None:
        house.files()
        text = "account,amount\n1,2.50\n"
        result = house.check(house.job(house.csv("a", text), house.csv("b", text)))
        assert result.first_failure() is None
        assert (result.steps[-1].name, result.steps[-1].seen) == ("plan", "1 stage")

    @pytest.mark.case("R61")
    def test_a_tolerance_on_a_text_measure_is_a_fault_of_the_declaration(
        self, house: House
    ) -> None:
        house.files()
        text = "account,amount,note\n1,2.50,x\n"
        stage = {
            "name": "rows",
            "type": "row",
            "dimensions": ["account"],
            "measures": [
                {
                    "name": "note",
                    "column": "note",
                    "tolerances": [{"type": "ABSOLUTE", "value": "0.01"}],
                }
            ],
        }
        job = house.job(house.csv("a", text), house.csv("b", text), stage=stage)
        step = failure(house.check(job))
        assert (step.cause, step.name, step.code) == (
            Cause.DECLARATION,
            "plan",
            "TOLERANCE_KIND_MISMATCH",
        )
        assert "note" in step.seen

    def test_an_unknown_column_is_a_fault_of_the_declaration(self, house: House) -> None:
        house.files()
        job = house.job(
            house.csv("a", "account,amount\n1,2\n"), house.csv("b", "account,total\n1,2\n")
        )
        step = failure(house.check(job))
        assert (step.cause, step.name) == (Cause.DECLARATION, "plan")
        assert "amount" in step.seen

    @pytest.mark.case("R61")
    def test_an_unknown_connection_is_a_fault_of_the_declaration(self, house: House) -> None:
        text = "account,amount\n1,2\n"
        step = failure(house.check(house.job(house.csv("a", text), house.csv("b", text))))
        assert (step.cause, step.code) == (Cause.DECLARATION, "UNKNOWN_CONNECTION")

    def test_a_connection_of_another_tenant_is_unknown(self, house: House) -> None:
        house.files(tenant=B_TENANT)
        text = "account,amount\n1,2\n"
        step = failure(house.check(house.job(house.csv("a", text), house.csv("b", text))))
        assert step.code == "UNKNOWN_CONNECTION"

    def test_files_that_have_not_arrived_are_no_fault_of_the_declaration(
        self, house: House
    ) -> None:
        house.files()
        source = house.csv("a", "account,amount\n1,2\n")
        job = house.job(source, {**source, "name": "b", "path": "later/*.csv"})
        result = house.check(job)
        assert (failure(result).source, failure(result).cause) == ("b", Cause.SOURCE)
        assert "plan" not in [step.name for step in result.steps]

    def test_a_folder_outside_of_the_roots_is_refused(self, house: House) -> None:
        outside = house.folder / "outside"
        outside.mkdir()
        (outside / "secret-name.csv").write_text("account,amount\n1,2\n")
        step = failure(house.check(house.files(str(outside))))
        assert (step.cause, step.code) == (Cause.PRIVILEGES, "PATH_REFUSED")
        assert "secret-name" not in str(step)

    def test_a_link_out_of_the_roots_is_refused(self, house: House) -> None:
        (house.folder / "outside.csv").write_text("account,amount\n1,2\n")
        house.files()
        source = house.csv("a", "account,amount\n1,2\n")
        (house.folder / "data/link.csv").symlink_to(house.folder / "outside.csv")
        job = house.job(source, {**source, "name": "b", "path": "link.csv"})
        assert failure(house.check(job)).code == "PATH_REFUSED"

    def test_the_files_of_one_tenant_are_closed_to_another(self, house: House) -> None:
        house.csv("a", "account,amount\n1,2\n")
        step = failure(house.check(house.files(tenant=B_TENANT)))
        assert step.cause is Cause.PRIVILEGES

    def test_a_parameter_without_default_has_a_sample(self, house: House) -> None:
        house.files()
        text = "account,amount,day\n1,2.50,2026-01-01\n"
        sources = [{**house.csv(name, text), "filter": "day = :day"} for name in ("a", "b")]
        job = house.job(*sources, parameters={"day": {"type": "date"}})
        assert house.check(job).first_failure() is None


class TestDatabases:
    @pytest.mark.usefixtures("login")
    def test_a_login_that_works(self, house: House, postgres_server: PostgresServer) -> None:
        house.set_password(PASSWORD)
        result = house.check(house.database(postgres_server, "check_reader"))
        names = [step.name for step in result.steps]
        assert (names, result.first_failure()) == (["address", "login", "privileges"], None)

    @pytest.mark.case("R60")
    def test_a_wrong_password_is_separate_from_a_server_that_is_away(
        self, house: House, postgres_server: PostgresServer, login: str
    ) -> None:
        house.set_password("wrong-password-0815")
        connection = house.database(postgres_server, login)
        step = failure(house.check(connection))
        assert (step.cause, step.name) == (Cause.CREDENTIALS, "login")
        house.set_password(PASSWORD)
        assert house.check(connection).first_failure() is None

    def test_nobody_listens(self, house: House, postgres_server: PostgresServer) -> None:
        house.set_password(PASSWORD)
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        step = failure(house.check(house.database(postgres_server, "u", port=port)))
        assert step.cause is Cause.UNREACHABLE

    def test_a_secret_that_is_not_set(self, house: House, postgres_server: PostgresServer) -> None:
        step = failure(house.check(house.database(postgres_server, "u")))
        assert (step.source, step.name, step.cause) == ("ledger", "secret", Cause.CREDENTIALS)

    def test_a_table_without_grant(
        self, house: House, postgres_server: PostgresServer, login: str
    ) -> None:
        house.set_password(PASSWORD)
        house.files()
        house.database(postgres_server, login)
        closed = {**LEDGER, "relation": "public.check_entries_closed"}
        step = failure(house.check(house.job(closed, house.csv("a", "account,amount\n1,2\n"))))
        assert (step.source, step.cause) == ("ledger", Cause.PRIVILEGES)

    @pytest.mark.case("R61")
    def test_types_of_a_table_and_a_file_are_compared_without_reading(
        self, house: House, postgres_server: PostgresServer, login: str
    ) -> None:
        house.set_password(PASSWORD)
        house.files()
        house.database(postgres_server, login)
        good = house.job(LEDGER, house.csv("a", "account,amount\nA1,2.50\n"))
        assert house.check(good).first_failure() is None
        stage = {**STAGE, "measures": [{"name": "t", "function": "sum", "column": "note"}]}
        spec = {**good.spec, "stages": [stage]}
        bad = house.declare(Kind.RECONCILIATION_JOB, "bad", spec)
        step = failure(house.check(bad))
        assert (step.cause, step.name) == (Cause.DECLARATION, "plan")


@contextmanager
def hostile_server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port on which each client gets an answer of its own."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                Thread(target=answer, args=(client,), daemon=True).start()

        Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def repeats_a_secret(client: socket.socket) -> None:
    """A server of PostgreSQL that refuses every login with the password in its text."""
    client.recv(4096)
    words = f"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for {PASSWORD}\0\0".encode()
    client.sendall(b"E" + (len(words) + 4).to_bytes(4, "big") + words)
    client.close()


def hangs(client: socket.socket) -> None:
    client.recv(4096)
    time.sleep(60)  # noqa: TID251  a server that never answers


class TestHostileSources:
    def test_a_secret_in_the_text_of_a_server_is_not_stored(
        self, house: House, postgres_server: PostgresServer
    ) -> None:
        house.set_password(PASSWORD)
        with hostile_server(repeats_a_secret) as port:
            result = house.check(house.database(postgres_server, "u", port=port))
        assert failure(result).cause is Cause.CREDENTIALS
        assert PASSWORD not in str(result)

    def test_a_server_that_hangs_is_a_result(
        self, house: House, postgres_server: PostgresServer
    ) -> None:
        house.set_password(PASSWORD)
        with hostile_server(hangs) as port:
            loop = house.loop(limit=timedelta(seconds=2))
            began = time.monotonic()
            step = failure(house.check(house.database(postgres_server, "u", port=port), loop))
        assert (step.source, step.cause) == ("ledger", Cause.CHECK)
        assert "within 2 s" in step.seen
        assert time.monotonic() - began < 10


def scripted(folder: Path, *lines: str) -> Callable[[], SpawnedChild]:
    """A child with a separate program."""
    start = (
        "from datarecs_runtime.frames import take_over_stdio",
        "channel = take_over_stdio()",
        "frame = channel.receive()",
    )
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(folder)}  # noqa: TID251  of the child
    return lambda: SpawnedChild([sys.executable, "-c", "\n".join((*start, *lines))], environment)


STEP = (
    "step = dict(type='step', source='here', name='folder', ok=False, ms=1, detail='d',"
    " code='NO_FILES', login_refused=False)"
)


class TestBrokenChildren:
    @pytest.mark.parametrize(
        ("lines", "words"),
        [
            (("import os", "os._exit(3)"), "exit code 3"),
            (("import os", "os.kill(os.getpid(), 9)"), "signal 9"),
            (("channel.send({'type': 'step', 'source': 'other'})",), "broken report"),
            ((STEP, "channel.send({**step, 'source': 'job-of-b'})"), "broken report"),
            ((STEP, "[channel.send(step) for _ in range(501)]"), "broken report"),
            (("channel.send({'type': 'opening', 'source': 7})",), "broken report"),
        ],
    )
    def test_a_child_that_fails_is_a_result(
        self, house: House, lines: tuple[str, ...], words: str
    ) -> None:
        loop = house.loop(scripted(house.folder, *lines))
        step = house.check(house.files(), loop).steps[-1]
        assert step.cause is Cause.CHECK
        assert words in step.seen

    def test_texts_of_a_child_are_bounded_and_have_no_control_characters(
        self, house: House
    ) -> None:
        lines = (
            STEP,
            "channel.send({**step, 'detail': 'a\\x1b[31m\\nb' + 9000 * 'x', 'code': 'MADE_UP'})",
            "channel.send({'type': 'finished'})",
        )
        step = failure(house.check(house.files(), house.loop(scripted(house.folder, *lines))))
        assert len(step.seen) <= 400
        assert step.seen.isprintable()
        assert step.code is None

    def test_a_child_with_too_much_memory_ends(self, house: House) -> None:
        lines = ("import time", "block = bytearray(200_000_000)", "time.sleep(60)")
        loop = house.loop(scripted(house.folder, *lines), memory_bytes=100 * 2**20)
        assert "100 MiB" in house.check(house.files(), loop).steps[-1].seen

    def test_the_child_has_nothing_of_the_platform(self, house: House) -> None:
        house.environment.setenv("DATARECS_DATABASE__URL", "postgresql://platform-canary")
        house.environment.setenv("DATARECS_SECRETS__KEK", "platform-canary")
        scratch = house.folder / "scratch/child-check"
        loop = house.loop()
        seen: list[str] = []

        def make() -> ChildProcess:
            child = check_child(scratch)
            seen.append(str(child._environment))  # noqa: SLF001  what the process gets
            return child

        loop.make = make
        assert house.check(house.files(), loop).first_failure() is None
        assert "canary" not in seen[0]
        assert list(scratch.iterdir()) == []

    def test_a_stop_returns_the_check(self, house: House) -> None:
        resource = house.files()
        with house.unit.begin(A_TENANT) as tx:
            tx.checks.request(resource.uid, subject="1")
        loop = house.loop(scripted(house.folder, "import time", "time.sleep(60)"))
        stop = Latch()
        running = Thread(target=loop.run, args=(stop,))
        running.start()
        ends = time.monotonic() + 20
        while house.store.everything()[A_TENANT].checks[resource.uid].check.lease_until is None:
            assert time.monotonic() < ends
        stop.set()
        loop.rhythm.wake.set()
        running.join(20)
        assert not running.is_alive()
        with house.unit.begin(A_TENANT) as tx:
            check = tx.checks.get(resource.uid)
        assert check is not None
        assert (check.result, check.lease_until) == (None, None)
        assert check.due_at is not None


KILLED_WORKER = """
import sys
from pathlib import Path
from datarecs_application.loops.checking import SourceChecks
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_core.egress.addresses import Profile
from datarecs_postgres.database import Database
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_reconciliation_worker.settings import Settings
from datarecs_reconciliation_worker.wiring import check_child, checking
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.sections import Files, Secrets, Worker

url, folder = sys.argv[1], Path(sys.argv[2])
settings = Settings.model_construct(
    profile=Profile.LOCAL, files=Files(), blob=Blob(url=folder.as_uri()),
    worker=Worker(scratch_dir=folder), secrets=Secrets(),
)
database = Database(url)
SourceChecks(
    unit=PostgresUnitOfWork(database, UuidV7Ids()),
    finder=PostgresWorkFinder(database),
    use=checking(settings),
    make=lambda: check_child(folder / "child-check"),
    metrics=PrometheusMetrics(),
    rhythm=Rhythm(clock=SystemClock(), wake=Latch()),
    memory_bytes=2**32,
).step()
"""


def test_another_worker_checks_after_a_kill(database: PreparedDatabase, tmp_path: Path) -> None:
    opened: list[float] = []

    def answer(client: socket.socket) -> None:
        opened.append(time.monotonic())
        hangs(client)

    with hostile_server(answer) as port:
        config = {"host": "127.0.0.1", "port": port, "database": "d", "user": "u"}
        spec = {"type": "postgres", "config": {**config, "sslmode": "disable"}}
        uid = stored_connection(database, spec)
        command = [sys.executable, "-c", KILLED_WORKER, database.url(WORKER_RUN), str(tmp_path)]
        with subprocess.Popen(command) as killed:
            wait_until(lambda: bool(opened))
            killed.kill()
        assert lease_until(database, uid) is not None
        with closing(Database(database.url(WORKER_RUN))) as other:
            finder = PostgresWorkFinder(other)
            assert finder.lease_check() is None
            database.pass_time(CHECK_LEASE)
            taken = finder.lease_check()
            assert taken is not None
            assert (taken.uid, taken.epoch) == (uid, 2)
        wait_until(lambda: not list(running_checks(tmp_path)))


def stored_connection(database: PreparedDatabase, spec: dict[str, Any]) -> ResourceUid:
    connection = a_resource(name="hanging", spec=spec)
    for role in (API, RESOURCES):
        with closing(Database(database.url(role))) as opened:
            unit = PostgresUnitOfWork(opened, UuidV7Ids())
            with unit.begin(A_TENANT) as tx:
                if role == API:
                    tx.resources.add(connection)
                else:
                    tx.checks.request(connection.uid, subject="1")
    return connection.uid


def lease_until(database: PreparedDatabase, uid: ResourceUid) -> object:
    ((until,),) = database.query(
        "SELECT lease_until FROM datarecs.resource_check WHERE resource_uid = %s", (uid,)
    )
    return until


def running_checks(folder: Path) -> Iterator[str]:
    """Processes whose temporary folder is in this folder."""
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(folder / "child-check").encode() in process.read_bytes():
                yield process.parent.name
        except OSError:
            continue


def wait_until(is_reached: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not is_reached():
        assert time.monotonic() < ends
        time.sleep(0.05)  # noqa: TID251  another process has no signal here


@pytest.mark.case("R60")
def test_conditions_follow_the_password_of_a_server(
    database: PreparedDatabase, house: House, postgres_server: PostgresServer, login: str
) -> None:
    """Controller and worker over the platform's database, each with its login."""
    spec = dict(house.database(postgres_server, login).spec)
    with ExitStack() as stack:
        api, controller, worker = (
            stack.enter_context(closing(Database(database.url(role))))
            for role in (API, RESOURCES, WORKER_RUN)
        )
        unit = PostgresUnitOfWork(controller, UuidV7Ids())
        reconciling = Reconciling(
            unit=unit,
            finder=PostgresWorkFinder(controller),
            controllers={Kind.CONNECTION: ConnectionController()},
            metrics=PrometheusMetrics(),
            rhythm=Rhythm(clock=SystemClock(), wake=Latch()),
            fraction=lambda: 0.5,
        )
        checks = house.loop(
            unit=PostgresUnitOfWork(worker, UuidV7Ids()), finder=PostgresWorkFinder(worker)
        )

        def states() -> str:
            while reconciling.step() or checks.step():
                reconciling.drain()
            with unit.begin(A_TENANT, read_only=True) as tx:
                stored = tx.resources.get_by_uid(connection.uid)
            assert stored is not None
            conditions = conditions_of(stored.status)
            names = ("Reachable", "CredentialsValid", "SchemaReadable", "Ready")
            return "".join(conditions[name].status.value[0] for name in names)

        house.set_password("wrong-password-0815")
        with PostgresUnitOfWork(api, UuidV7Ids()).begin(A_TENANT, feed=1) as tx:
            connection = a_resource(name="ledger", spec=spec, rv=tx.next_rv())
            tx.resources.add(connection)
            tx.resource_work.reconcile_soon(connection.uid, Kind.CONNECTION)
        assert states() == "TFUF"
        house.set_password(PASSWORD)
        database.query("UPDATE datarecs.resource_work SET due_at = now() RETURNING 1")
        database.query(
            "UPDATE datarecs.resource_check SET checked_at = checked_at - interval '1 hour'"
            " RETURNING 1"
        )
        assert states() == "TTTT"
