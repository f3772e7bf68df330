"""A local comparison ends in its time, whatever it does just then, and leaves nothing behind."""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import LiteralString

import psycopg
import pytest

from datarecs_cli.exit_codes import ExitCode, exit_code_of
from datarecs_cli.invocation import Invocation
from datarecs_cli.local.deadline import ended_by_signals, ends_after
from datarecs_cli.local.engines import EngineChoice
from datarecs_cli.local.faults import DeadlineExceededError
from datarecs_cli.local.folder import OutFolder
from datarecs_cli.local.question import Flags, prepare_question
from datarecs_cli.local.running import Local, compare_locally
from datarecs_cli.local.terminal_reporter import TerminalReporter
from datarecs_kernel import stage_tasks
from datarecs_kernel.database import Connection
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.environment import process_environment
from datarecs_testing.stack import PostgresServer

AT_ONCE = timedelta(milliseconds=10)
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: patient}
spec:
  sources:
    - {name: one, kind: csv, path: one.csv}
    - {name: two, kind: csv, path: two.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: "*", confirm: {after: PT1H}}
"""
CSV = "{name: one, kind: csv, path: one.csv}"
SLOW = "{name: one, kind: postgres, connection: pg, relation: public.slow}"
CONNECTION = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: pg}}
spec:
  type: postgres
  config: {{host: 127.0.0.1, port: {port}, database: {dbname}, user: {user}, sslmode: disable}}
  auth: {{password: "env:SLOW_PASSWORD"}}
---
"""


@pytest.fixture
def abandoned() -> Iterator[list[str]]:
    """Filled when what holds up is let go; signals are as before afterwards."""
    before = signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGINT)
    yield []
    assert (signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGINT)) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.fixture
def default_hangup() -> Iterator[None]:
    """Also for children, and although the tests run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def interrupted_query() -> None:
    """As libraries answer to an exception of a signal."""
    try:
        Event().wait()
    except BaseException as error:
        raise RuntimeError("query interrupted") from error


def test_what_waits_for_ever_ends_at_the_deadline(abandoned: list[str]) -> None:
    with (
        pytest.raises(DeadlineExceededError, match=r"deadline of 0\.01 s"),
        ends_after(AT_ONCE, abandon=lambda: abandoned.append("once")),
    ):
        Event().wait()
    assert abandoned == ["once"]


def test_a_library_that_wraps_it_in_another_error_hides_nothing(abandoned: list[str]) -> None:
    with (
        pytest.raises(DeadlineExceededError),
        ends_after(AT_ONCE, abandon=lambda: abandoned.append("once")),
    ):
        interrupted_query()


def swallow(number: signal.Signals) -> None:
    """As Python does with what a finalizer raises."""
    with suppress(KeyboardInterrupt):
        signal.raise_signal(number)


def test_a_ctrl_c_that_something_swallowed_is_reported_at_the_end(abandoned: list[str]) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        ends_after(timedelta(hours=1), abandon=lambda: abandoned.append("once")),
    ):
        swallow(signal.SIGINT)


def test_a_deadline_that_something_swallowed_is_reported_at_the_end(abandoned: list[str]) -> None:
    with (
        pytest.raises(DeadlineExceededError),
        ends_after(timedelta(hours=1), abandon=lambda: abandoned.append("once")),
    ):
        swallow(signal.SIGALRM)


def test_ctrl_c_ends_it_as_an_interrupt(abandoned: list[str]) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        ends_after(timedelta(hours=1), abandon=lambda: abandoned.append("once")),
    ):
        signal.raise_signal(signal.SIGINT)
    assert abandoned == ["once"]


def test_an_alarm_of_the_caller_still_comes() -> None:
    alarms: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _frame: alarms.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, AT_ONCE.total_seconds())
        with ends_after(timedelta(seconds=60), abandon=lambda: None):
            Event().wait(2 * AT_ONCE.total_seconds())
            assert alarms == []
        Event().wait(0.2)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert alarms == [signal.SIGALRM]


def test_another_thread_has_no_deadline(abandoned: list[str]) -> None:
    ended = Event()

    def wait() -> None:
        with ends_after(AT_ONCE, abandon=lambda: abandoned.append("now")):
            Event().wait(5 * AT_ONCE.total_seconds())
        ended.set()

    thread = Thread(target=wait)
    thread.start()
    thread.join()
    assert (ended.is_set(), abandoned) == (True, [])


def test_what_ends_by_itself_is_left_alone(abandoned: list[str]) -> None:
    with ends_after(timedelta(hours=1), abandon=lambda: abandoned.append("once")):
        pass
    assert abandoned == []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder; scratch goes to a separate folder in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    Path("one.csv").write_text("id,amount\n1,1.10\n")
    Path("two.csv").write_text("id,amount\n1,1.20\n")
    return tmp_path


def ended_at_its_deadline(
    place: Path, declared: str, engine: EngineChoice = EngineChoice.REFERENCE
) -> None:
    """With its code, exit 3 and a page that says so, and without scratch or a verdict."""
    Path("job.yaml").write_text(declared)
    invocation, clock = Invocation(), SystemClock()
    prepared = prepare_question(
        Flags(sources=("job.yaml",)), now=datetime(2026, 1, 31, tzinfo=UTC), invocation=invocation
    )
    assert prepared is not None
    execution = replace(prepared.question.job.execution, deadline=timedelta(seconds=0.5))
    question = replace(prepared.question, job=replace(prepared.question.job, execution=execution))
    local = Local(
        run_id="0188f0c8-0000-7000-8000-000000000001",
        out=OutFolder(place / "out"),
        engine=engine,
        reporter=TerminalReporter.of(invocation, {}, clock),
        clock=clock,
    )
    with pytest.raises(DeadlineExceededError) as ended:
        compare_locally(replace(prepared, question=question), local)
    assert exit_code_of(ended.value) is ExitCode.ERRORED
    assert "DEADLINE_EXCEEDED" in local.out.error.read_text()
    assert not local.out.run_json.exists()
    assert list((place / "scratch").iterdir()) == []


def test_a_comparison_that_waits_for_a_recheck_ends_at_its_deadline(place: Path) -> None:
    ended_at_its_deadline(place, JOB)


def test_a_query_of_the_kernel_ends_at_the_deadline(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def query(connection: Connection, *_: object) -> None:
        connection.execute("SELECT count(*) FROM range(10000000000) a, range(10000000000) b")

    monkeypatch.setattr(stage_tasks, "compare_stage", query)
    ended_at_its_deadline(place, JOB.replace(", confirm: {after: PT1H}", ""), EngineChoice.KERNEL)


@pytest.mark.usefixtures("default_hangup")
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "terminated"),
    ],
    ids=["Ctrl-C", "SIGTERM", "SIGHUP"],
)
def test_a_comparison_that_is_ended_by_a_signal_says_so_and_leaves_nothing(
    place: Path, number: signal.Signals, code: int, word: str
) -> None:
    Path("job.yaml").write_text(JOB)
    command = [sys.executable, "-m", "datarecs_cli", "compare", "job.yaml", "-v", "--out", "out"]
    scratch = {**process_environment(), "TMPDIR": str(place / "scratch")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=scratch) as comparing:
        assert comparing.stderr is not None
        assert "read two: 1 row\n" in comparing.stderr
        assert list((place / "scratch").iterdir())
        comparing.send_signal(number)
        said = comparing.stderr.read().splitlines()
        assert comparing.wait(10) == code
    assert [line.split() for line in said[-1:]] == [[word, "there", "is", "no", "verdict"]]
    assert not (place / "out" / "run.json").exists()
    assert list((place / "scratch").iterdir()) == []


@pytest.mark.usefixtures("default_hangup")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_outside_the_deadline_closes_what_was_opened(number: signal.Signals) -> None:
    """As while the report is written."""
    closed: list[signal.Signals] = []

    def work() -> None:
        with ended_by_signals(), ExitStack() as open_things:
            open_things.callback(closed.append, number)
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert closed == [number]


@pytest.mark.integration
def test_a_comparison_whose_database_does_not_answer_ends_at_its_deadline(
    place: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(admin, autocommit=True) as session:
        session.execute("CREATE VIEW slow AS SELECT 1 AS id, 1.1 AS amount FROM pg_sleep(3600)")
        fields = psycopg.conninfo.conninfo_to_dict(admin)
        monkeypatch.setenv("SLOW_PASSWORD", str(fields["password"]))
        ended_at_its_deadline(place, CONNECTION.format(**fields) + JOB.replace(CSV, SLOW))
        still = session.execute("SELECT count(*) FROM pg_stat_activity WHERE query ~ 'slow'")
        assert still.fetchall() == [(1,)]  # this one


@pytest.mark.integration
def test_ctrl_c_ends_a_read_of_a_database_and_its_query(
    place: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    working: LiteralString = (
        "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'slow' AND query ~ 'COPY'"
        " AND state = 'active' AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(admin, autocommit=True) as session:
        session.execute("CREATE VIEW slow AS SELECT 1 AS id, 1.1 AS amount FROM pg_sleep(3600)")
        fields = psycopg.conninfo.conninfo_to_dict(admin)
        monkeypatch.setenv("SLOW_PASSWORD", str(fields["password"]))
        (place / "job.yaml").write_text(CONNECTION.format(**fields) + JOB.replace(CSV, SLOW))
        command = [sys.executable, "-m", "datarecs_cli", "compare", "job.yaml", "--out", "out"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as comparing:
            while session.execute(working).fetchall() != [(1,)]:
                assert comparing.poll() is None
                Event().wait(0.05)
            began = time.monotonic()
            comparing.send_signal(signal.SIGINT)
            while session.execute(working).fetchall() != [(0,)]:
                assert time.monotonic() < began + 2
            assert comparing.wait(10) == ExitCode.INTERRUPTED
