"""One local comparison from its job to its result files.

It runs the same use case as a worker's child; here sources are opened with the permissions of the
user, the published key replaces the key of the tenant, and a folder replaces the blob store.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from datarecs_application.comparison import Answer, Means, StageFailedError, answer, plan_only
from datarecs_application.opening import ExtractionFailedError
from datarecs_application.ports.comparing import Engine
from datarecs_application.ports.outside import Clock
from datarecs_cli.local.deadline import ends_after
from datarecs_cli.local.engines import EngineChoice, Engines
from datarecs_cli.local.faults import (
    OutNotWritableError,
    ScratchNotWritableError,
    TooLittleMemoryError,
    reason_of,
)
from datarecs_cli.local.folder import OutFolder
from datarecs_cli.local.question import PreparedQuestion
from datarecs_cli.local.reports import NAMES, further, write
from datarecs_cli.local.scratch import scratch_folder
from datarecs_cli.local.sources import LocalSources
from datarecs_cli.local.terminal_reporter import PROGRESS_EVERY, TerminalReporter
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.proof.run_json import (
    Sealing,
    outcome_leaves,
    run_document,
    with_hints,
)
from datarecs_core.comparison.proof.sealed import sealed_run
from datarecs_core.comparison.results.differences import COMPARE_KEY_ID
from datarecs_core.errors.base import DatarecsError
from datarecs_core.hashing import canonical_json
from datarecs_core.jobs.vocabulary import ReportFormat
from datarecs_core.values import instant_text
from datarecs_reports.browse import MOST_ROWS
from datarecs_reports.differences import largest_rows
from datarecs_reports.digest_file import digest_file
from datarecs_reports.html import error_report, run_report
from datarecs_reports.likely_causes import hints_document
from datarecs_reports.stored_rows import parts_of
from datarecs_runtime.environment import process_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """The settings of one comparison."""

    run_id: str
    out: OutFolder
    engine: EngineChoice
    memory_bytes: int | None = None
    """Overrides the job's `execution.memory`."""
    reporter: TerminalReporter
    clock: Clock


def compare_locally(prepared: PreparedQuestion, local: Local) -> Mapping[str, object]:
    """Compare, store report and run.json, and return the stored run.json.

    Raises:
        JobRefusedError, QuestionRefusedError: the job does not fit the sources.
        OutNotWritableError: the results cannot be stored.
        DatarecsError: a source or the comparison failed; the report has the error.
    """
    names = [NAMES[each] for each in further(prepared.question.job.results.reports)]
    started = local.clock.now()
    try:
        with local.out.preparing() as folder:
            document = _compared(prepared, replace(local, out=folder), started)
            local.out.replace_by(folder, names)
            return document
    except PlanRefusedError as refused:
        local.out.forget()
        raise prepared.refusal(refused.faults) from refused
    except (ExtractionFailedError, StageFailedError) as failed:
        error = _named(failed.__cause__ or failed)
        _store_error(prepared, local, started, error)
        raise error from failed
    except OutNotWritableError:
        raise
    except DatarecsError as error:
        _store_error(prepared, local, started, error)
        raise


def _compared(prepared: PreparedQuestion, local: Local, started: datetime) -> Mapping[str, object]:
    with ExitStack() as open_things:
        scratch = open_things.enter_context(scratch_folder())
        work = _Work(prepared, local, scratch, open_things)
        comparison = _answered(prepared, work, local.reporter)
        return _stored(prepared, local, started, comparison, work.engines)


def _answered(prepared: PreparedQuestion, work: "_Work", reporter: TerminalReporter) -> Answer:
    try:
        with ends_after(prepared.question.job.execution.deadline, abandon=work.engines.abandon):
            return answer(prepared.question, work.means(), reporter)
    except StageFailedError as failed:
        ended = work.engines.end_of_engine(failed.__cause__)
        if ended is None:
            raise
        raise ended from failed


def _named(error: BaseException) -> Exception:
    """The cause of a failed part; a lack of memory or disk becomes an error with a fix."""
    match error:
        case MemoryError():
            return TooLittleMemoryError()
        case OSError():
            return ScratchNotWritableError(Path(tempfile.gettempdir()), reason_of(error))
        case Exception():
            return error
        case _:
            raise error


class _Work:
    """The objects that one comparison uses."""

    def __init__(
        self, prepared: PreparedQuestion, local: Local, scratch: Path, open_things: ExitStack
    ) -> None:
        self._local, self._scratch = local, scratch
        self._sources = LocalSources(prepared, local.clock)
        self.engines = Engines(
            wanted=local.engine,
            rows=self._sources.rows,
            out=local.out,
            scratch=scratch,
            memory_bytes=local.memory_bytes or prepared.question.job.execution.memory,
            say=local.reporter.say,
            open_things=open_things,
        )

    def means(self) -> Means:
        return Means(
            connect=self._sources.connect,
            engine=self.engines.engine,
            clock=self._local.clock,
            extracts=str(self._scratch / "extract"),
            progress_every=PROGRESS_EVERY,
        )


def plan_locally(prepared: PreparedQuestion, clock: Clock) -> ComparisonPlan:
    """The plan of a comparison that is not executed.

    Raises:
        JobRefusedError, QuestionRefusedError: the job does not fit the sources.
        DatarecsError: a source cannot be opened or described.
    """
    means = Means(
        connect=LocalSources(prepared, clock).connect, engine=_none, clock=clock, extracts=""
    )
    try:
        return plan_only(prepared.question, means)
    except PlanRefusedError as refused:
        raise prepared.refusal(refused.faults) from refused
    except ExtractionFailedError as failed:
        raise _named(failed.__cause__ or failed) from failed


def _none(_plan: ComparisonPlan) -> Engine:
    raise TypeError("a plan uses no engine")


def _stored(
    prepared: PreparedQuestion,
    local: Local,
    started: datetime,
    comparison: Answer,
    engines: Engines,
) -> Mapping[str, object]:
    """Stores the report and then run.json; the engine has already stored the differences."""
    for stage in comparison.outcome.stages:
        if stage.results is not None:
            local.out.settle(stage.plan.name, stage.results.differences.location)
    view = _view(prepared, local, started)
    made = run_document(
        comparison.plan,
        comparison.outcome,
        sealing=Sealing(versions=engines.versions, key_id=COMPARE_KEY_ID),
        run={
            "run_id": local.run_id,
            "job": comparison.plan.job,
            "attempt": 1,
            "triggered_by": str(view["triggered_by"]),
            "times": {
                "started_at": str(view["started_at"]),
                "ended_at": str(view["ended_at"]),
            },
            "execution": {"engine": engines.used.value, "engine_reason": engines.reason},
            "command": prepared.flags.command,
        },
    )
    run = sealed_run(made)
    hints = hints_document(run, lambda stage: parts_of(local.out.differences, stage.name))
    written = canonical_json(with_hints(made, hints))
    document: dict[str, object] = json.loads(written)
    if run.digests is not None:
        local.out.store(local.out.digests, digest_file(outcome_leaves(comparison.outcome)))
    view |= {"status": "COMPLETED", "result": comparison.outcome.verdict.value}
    stored = {each.name: _parts(local.out, each.name) for each in run.stages if each.results}
    rows = {name: largest_rows(parts, limit=MOST_ROWS) for name, parts in stored.items()}
    page = run_report(document, view, samples=True, rows=rows)
    local.out.store(local.out.report, page)
    for form in further(prepared.question.job.results.reports):
        refused = write(form, document, run, local.out)
        if refused is not None:
            local.reporter.print_line(refused)
    local.out.store(local.out.run_json, written)
    return document


def _parts(out: OutFolder, stage: str) -> Iterator[bytes]:
    return (part.read_bytes() for part in parts_of(out.differences, stage))


def _store_error(
    prepared: PreparedQuestion, local: Local, started: datetime, error: Exception
) -> None:
    """Write the report of a failed run beside the results of an earlier one.

    junit.xml is always that of the latest run, because a pipeline must not read the file of an
    older run.
    """
    from datarecs_application.child_frames import failure_words

    view = _view(prepared, local, started)
    view |= {"status": "ERRORED", "result": None, "error": failure_words(error)}
    local.out.store(local.out.error, error_report(view))
    if ReportFormat.JUNIT in prepared.question.job.results.reports:
        from datarecs_reports.junit import ending_junit

        local.out.store(local.out.root / NAMES[ReportFormat.JUNIT], ending_junit(view))


def _view(prepared: PreparedQuestion, local: Local, started: datetime) -> dict[str, object]:
    """The run as input of the reports."""
    environment = process_environment()
    return {
        "run_id": local.run_id,
        "job": prepared.question.job.name,
        "triggered_by": environment.get("USER") or environment.get("LOGNAME") or "local user",
        "started_at": instant_text(started),
        "ended_at": instant_text(local.clock.now()),
        "command": prepared.flags.command,
        "folder": "" if local.out.is_temporary else str(local.out.shown),
    }
