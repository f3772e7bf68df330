"""The steps of a check over scripted connectors: what is opened, planned and reported."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest

from datarecs_application.comparison import Means, Question
from datarecs_application.ports.comparing import Connector, ProbeStep
from datarecs_application.source_checks import check_connection, check_job
from datarecs_core.comparison.planning.scan import Pin, SourceSchema
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_runtime.clock import SystemClock
from datarecs_specs.documents import job_of
from datarecs_testing.builders import an_id

JOB: dict[str, Any] = {
    "sources": [
        {"name": "a", "kind": "postgres", "connection": "c", "relation": "a"},
        {"name": "b", "kind": "postgres", "connection": "c", "relation": "b"},
    ],
    "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
}
OK = ProbeStep(name="login", ok=True, duration=timedelta(), detail="PostgreSQL 16")


class RefusedError(DatarecsError):
    code = RunDetail.CONNECTION_FAILED
    login_refused = True


@dataclass
class ScriptedConnector:
    """Answers probes; describes a source without columns."""

    steps: Sequence[ProbeStep] = (OK,)
    probed: list[Source | None] = field(default_factory=list)
    closed: int = 0

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        self.probed.append(source)
        return self.steps

    def pin(self, source: Source) -> object:
        raise RefusedError(f"source {source.name} is away now")

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        raise AssertionError((source, pin))

    def close(self) -> None:
        self.closed += 1


@dataclass
class Reports:
    """Port CheckReporter."""

    opened: list[str] = field(default_factory=list)
    steps: list[tuple[str, ProbeStep]] = field(default_factory=list)

    def opening(self, source: str) -> None:
        self.opened.append(source)

    def step(self, source: str, step: ProbeStep) -> None:
        self.steps.append((source, step))


def connecting(connector: ScriptedConnector) -> Callable[[Source], Connector]:
    return lambda _: cast("Connector", connector)


def check(connect: Callable[[Source], Connector]) -> Reports:
    reports = Reports()
    question = Question(job=job_of("books", JOB), job_uid=an_id(), spec_hash="sha256:1")

    def no_engine(_plan: object) -> Any:  # noqa: ANN401  never called
        raise AssertionError

    means = Means(connect=connect, engine=no_engine, clock=SystemClock(), extracts="")
    check_job(question, means, reports)
    return reports


def test_a_connection_is_probed_without_a_source_and_closed() -> None:
    connector, reports = ScriptedConnector(), Reports()
    source = Source(name="ledger", kind=SourceKind.POSTGRES, connection="ledger")
    check_connection(source, connecting(connector), reports)
    assert (connector.probed, connector.closed) == ([None], 1)
    assert reports.opened == ["ledger"]
    assert reports.steps == [("ledger", OK)]


@pytest.mark.parametrize(
    ("error", "code", "refused", "words"),
    [
        (RefusedError("the server refuses u"), "CONNECTION_FAILED", True, "the server refuses u"),
        (ValueError("a value of a row"), None, False, "unexpected ValueError"),
    ],
)
def test_a_source_that_does_not_open_is_a_step_without_unknown_texts(
    error: Exception, code: str | None, words: str, *, refused: bool
) -> None:
    def connect(_source: Source) -> Connector:
        raise error

    reports = check(connect)
    assert [source for source, _ in reports.steps] == ["a", "b"]
    assert {(step.code, step.login_refused, step.detail) for _, step in reports.steps} == {
        (code, refused, words)
    }
    assert "" not in reports.opened


def test_a_failed_step_of_one_source_leaves_the_plan_out() -> None:
    failed = ProbeStep(name="login", ok=False, duration=timedelta(), detail="no", code="X")
    reports = check(connecting(ScriptedConnector(steps=(failed,))))
    assert [(source, step.name) for source, step in reports.steps] == [
        ("a", "login"),
        ("b", "login"),
    ]


def test_a_source_that_is_lost_before_the_plan_is_named() -> None:
    reports = check(connecting(ScriptedConnector()))
    assert reports.opened == ["a", "b", ""]
    source, step = reports.steps[-1]
    assert (source, step.name, step.code) == ("a", "plan", "CONNECTION_FAILED")
    assert step.detail == "source a is away now"
