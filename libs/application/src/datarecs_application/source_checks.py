"""Check the sources of a connection or job step by step, inside the child of a worker.

The steps are those of `datarecs doctor`; a job whose sources open is planned as well, as a run
before it reads, so faults of types appear without an extraction. Every step is reported at once.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Protocol

from datarecs_application.comparison import Means, Question, plan_only
from datarecs_application.opening import ExtractionFailedError
from datarecs_application.ports.comparing import Connector, ProbeStep
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.faults import Fault, dotted
from datarecs_core.jobs.definition import Source

PLAN = "plan"
OPEN = "open"
MOST_FAULTS = 20
"""Reported faults of one plan."""


class CheckReporter(Protocol):
    def opening(self, source: str) -> None:
        """The source of the next steps; empty for all of a job."""

    def step(self, source: str, step: ProbeStep) -> None: ...


def check_connection(
    source: Source, connect: Callable[[Source], Connector], reporter: CheckReporter
) -> None:
    """Everything that can be checked without a source of a job.

    Args:
        source: of a kind that the connection serves, with the name of the connection.
        connect: opens it.
        reporter: gets the steps; a failure is a step.
    """
    _probe(source, None, connect, reporter)


def check_job(question: Question, means: Means, reporter: CheckReporter) -> None:
    """Every source of the job, then the plan if all of them can be opened."""
    opened = [_probe(source, source, means.connect, reporter) for source in question.job.sources]
    if not all(opened):
        return
    reporter.opening("")
    with _reported("", PLAN, reporter):
        try:
            plan = plan_only(question, means, whole=False)
        except PlanRefusedError as refused:
            for fault in refused.faults[:MOST_FAULTS]:
                reporter.step("", _failed(PLAN, fault_text(fault), code=fault.code.name))
            return
        except ExtractionFailedError as failed:
            cause = failed.__cause__
            error = cause if isinstance(cause, Exception) else failed
            reporter.step(failed.source, failure_step(PLAN, error))
            return
        seen = f"{len(plan.stages)} {'stage' if len(plan.stages) == 1 else 'stages'}"
        reporter.step("", ProbeStep(name=PLAN, ok=True, duration=timedelta(), detail=seen))


def _probe(
    source: Source,
    probed: Source | None,
    connect: Callable[[Source], Connector],
    reporter: CheckReporter,
) -> bool:
    """Report the steps of one source; whether all of them succeeded."""
    reporter.opening(source.name)
    steps: list[ProbeStep] = []
    with _reported(source.name, OPEN, reporter) as failures:
        with closing(connect(source)) as connector:
            steps += connector.probe(probed)
        for step in steps:
            reporter.step(source.name, step)
    return not failures and all(step.ok for step in steps)


@contextmanager
def _reported(source: str, name: str, reporter: CheckReporter) -> Iterator[list[Exception]]:
    """Report an exception of the block as a failed step; the list has it afterwards."""
    failures: list[Exception] = []
    try:
        yield failures
    except Exception as error:  # noqa: BLE001  the entry of a check: every failure is a step
        failures.append(error)
        reporter.step(source, failure_step(name, error))


def failure_step(name: str, error: Exception) -> ProbeStep:
    """An error as a step; the text of an unknown one may hold values and is left out."""
    if not isinstance(error, DatarecsError):
        return _failed(name, f"unexpected {type(error).__name__}")
    refused = getattr(error, "login_refused", False) is True
    return _failed(name, str(error), code=error.code.name, login_refused=refused)


def _failed(
    name: str, detail: str, *, code: str | None = None, login_refused: bool = False
) -> ProbeStep:
    return ProbeStep(
        name=name,
        ok=False,
        duration=timedelta(),
        detail=detail,
        code=code,
        login_refused=login_refused,
    )


def fault_text(fault: Fault) -> str:
    """Where it is, what is wrong, and the fix if there is one."""
    hint = f"; {fault.hint}" if fault.hint else ""
    return f"{dotted(fault.path)}: {fault.message}{hint}"
