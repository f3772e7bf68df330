"""What stands on a report's page, section by section, ready to be set out.

Apart from the template so that what a page says can be tested without its markup, and from the
tables because this is about the run: its verdict, who asked, what was read, how to ask again.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from datarecs_core.comparison.planning.plan import PRESENCE
from datarecs_core.comparison.results.verdict import BREAKS_TRUNCATED
from datarecs_reports.figures import (
    count,
    counted,
    instant,
    lasting,
    percent,
    visible,
)
from datarecs_reports.model import Executed, HintFacts, RunFacts, StageFacts
from datarecs_reports.scope import Facts, SourcePage, source_page
from datarecs_reports.tables import (
    DifferenceTable,
    MeasureRow,
    PatternRow,
    difference_tables,
    measure_rows,
    pattern_rows,
)
from datarecs_reports.waterfalls import WaterfallPage, waterfall_pages
from datarecs_reports.words import (
    NO_LINE,
    missing_words,
    policies,
    reason,
    relaxations,
    skipped_words,
    stage_words,
    strategy_words,
    tolerance_words,
)

MATCHED, UNMATCHED = ("●", "MATCHED"), ("▲", "UNMATCHED")
MAX_LINES = 200
"""Warnings and relaxations that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """How much of everything a page shows; lowered until the page is small enough."""

    differences: int = 20
    """Rows of a difference table."""
    measures: int = 500
    """Rows of a measure table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    label: str
    figure: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintLine:
    """A likely cause, ready to be read."""

    where: str
    what: str
    share: str
    examples: str
    declare: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePage:
    name: str
    words: str
    sign: str
    result: str
    skipped: str | None
    tiles: tuple[Tile, ...] = ()
    tolerances: Facts = ()
    reference: str = ""
    policies: tuple[str, ...] = ()
    measures: tuple[MeasureRow, ...] = ()
    more_measures: int = 0
    patterns: tuple[PatternRow, ...] = ()
    differences: tuple[DifferenceTable, ...] = ()
    truncated: str = ""
    """How many of how many differences are stored, where not all of them are."""
    strategy: str = ""
    waterfalls: tuple[WaterfallPage, ...] = ()
    hints: tuple[HintLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything the page of a run with a verdict shows, in order."""

    title: str
    sign: str
    result: str
    reason: str
    head: Facts
    sources: tuple[SourcePage, ...]
    source_names: tuple[str, ...]
    stages: tuple[StagePage, ...]
    relaxations: tuple[str, ...]
    warnings: tuple[tuple[str, str, str], ...]
    """Code, message, place."""
    more_warnings: int
    reproduce: tuple[str, ...]
    """Commands to copy."""
    proof: Facts
    samples: str
    """Why sample rows are absent or fewer; empty where nothing was left out."""


def page_of(facts: RunFacts, run: Mapping[str, object], *, amounts: Amounts, samples: bool) -> Page:
    """The page of a run that reached a verdict.

    Args:
        facts: of its run.json.
        run: the run as the API shows it; for the times and names that run.json does not hold.
        amounts: how much is shown.
        samples: whether the reader may see values.
    """
    sign, word = MATCHED if facts.matched else UNMATCHED
    return Page(
        title=facts.job or str(run.get("job") or "comparison"),
        sign=sign,
        result=word,
        reason=reason(facts),
        head=tuple(_head(facts, run)),
        sources=tuple(source_page(facts, each) for each in facts.sources),
        source_names=facts.source_names,
        stages=tuple(_stage(facts, each, amounts, samples=samples) for each in facts.stages),
        relaxations=_first(relaxations(facts)),
        warnings=tuple(
            (each.code, visible(each.message, most=500), " · ".join(map(visible, each.where)))
            for each in facts.warnings[:MAX_LINES]
        ),
        more_warnings=max(len(facts.warnings) - MAX_LINES, 0),
        reproduce=_reproduce(facts, run),
        proof=tuple(_proof(facts)),
        samples=_samples_note(facts, amounts, samples=samples),
    )


def text_of(run: Mapping[str, object], name: str) -> str | None:
    """A field of the run as text; None where it is absent or empty."""
    value = run.get(name)
    return None if value in (None, "") else str(value)


def when(run: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Triggered, started, ended, how long: as far as it came."""
    for label, name in (
        ("Triggered", "created_at"),
        ("Started", "started_at"),
        ("Ended", "ended_at"),
    ):
        if moment := text_of(run, name):
            yield label, instant(moment)
    began, ended = text_of(run, "started_at"), text_of(run, "ended_at")
    if began and ended:
        took = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
        yield "Took", lasting(str(took // timedelta(milliseconds=1) * 1000))


def who(run: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The run's id and who asked for it."""
    if run_id := text_of(run, "run_id"):
        yield "Run", run_id
    if by := text_of(run, "triggered_by"):
        mode = text_of(run, "mode")
        yield "Asked by", visible(by) + (f" ({mode.lower()})" if mode else "")


def _head(facts: RunFacts, run: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    yield from who(run)
    yield from when({**facts.run.maybe_part("times").content, **_given(run)})
    generation = text_of(run, "job_generation")
    if generation:
        yield "Job generation", generation
    attempt = run.get("attempt")
    if isinstance(attempt, int) and attempt > 1:
        yield "Attempt", count(attempt)
    if facts.parameters:
        shown = (f"{name} = {visible(_plain(value))}" for name, value in facts.parameters.items())
        yield "Parameters", ", ".join(shown)
    if engine := facts.run.maybe_part("execution").maybe("engine"):
        yield "Engine", engine
    if facts.acceptance != "NOT_CONFIGURED":
        yield "Acceptance", facts.acceptance
    yield "Spec hash", facts.spec_hash


def _given(run: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in run.items() if value is not None}


def _plain(written: str) -> str:
    """A parameter's canonical JSON as a person reads it."""
    value = json.loads(written)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _first(lines: Sequence[str]) -> tuple[str, ...]:
    more = len(lines) - MAX_LINES
    return (*lines[:MAX_LINES], *([f"and {count(more)} more"] if more > 0 else []))


def _stage(facts: RunFacts, stage: StageFacts, amounts: Amounts, *, samples: bool) -> StagePage:
    executed = stage.executed
    if executed is None:
        return StagePage(
            name=stage.name,
            words=stage_words(stage),
            sign="—",
            result="SKIPPED",
            skipped=skipped_words(stage),
        )
    sources = facts.source_names
    sign, word = MATCHED if executed.matched else UNMATCHED
    reference = executed.question.reference
    tables = difference_tables(executed, sources, most=amounts.differences) if samples else []
    return StagePage(
        name=stage.name,
        words=stage_words(stage),
        sign=sign,
        result=word,
        skipped=None,
        tiles=_tiles(executed, sources),
        tolerances=tuple(
            (_measure_label(each.name, each.function), tolerance_words(each, reference))
            for each in executed.measures[: amounts.measures]
        ),
        reference=reference,
        policies=tuple(policies(executed, stage.type)),
        measures=tuple(measure_rows(executed, sources, most=amounts.measures)),
        more_measures=max(len(executed.measures) - amounts.measures, 0),
        patterns=tuple(pattern_rows(executed, sources)) if executed.question.dimensions else (),
        differences=tuple(tables),
        truncated=_truncated(facts, stage.name) if executed.truncated else "",
        strategy="" if executed.strategy is None else strategy_words(executed.strategy),
        waterfalls=waterfall_pages(executed, sources),
        hints=tuple(map(_hint, executed.hints)) if samples else (),
    )


def _truncated(facts: RunFacts, stage: str) -> str:
    found = (
        each.message
        for each in facts.warnings
        if each.code == BREAKS_TRUNCATED and stage in each.where
    )
    return next(found, "not every difference is stored")


def _hint(hint: HintFacts) -> HintLine:
    measure = "keys" if hint.measure == PRESENCE else hint.measure
    share = f"{count(hint.explained)} of {counted(hint.of, 'break')}"
    return HintLine(
        where=f"{visible(measure)} of {visible(hint.source)}",
        what=visible(hint.what, most=300),
        share=f"{share} ({percent(hint.explained, hint.of)})",
        examples=", ".join(map(visible, hint.examples)),
        declare=visible(hint.declare or NO_LINE, most=300),
    )


def _measure_label(name: str, function: str | None) -> str:
    """`amount (sum)`; plain values need no function."""
    shown = visible(name)
    return shown if function in (None, "value") else f"{shown} ({function})"


def _tiles(executed: Executed, sources: Sequence[str]) -> tuple[Tile, ...]:
    """Groups by how they ended; where the stage knows no groups, rows by source."""
    counts = executed.counts
    if not executed.question.dimensions:
        named = zip(counts.source_row_counts, sources, strict=True)
        return tuple(Tile(label=f"Rows of {name}", figure=count(rows)) for rows, name in named)
    rows = ", ".join(
        f"{count(number)} {name}"
        for number, name in zip(counts.source_row_counts, sources, strict=True)
    )
    return (
        Tile(label="Groups compared", figure=count(counts.rows_compared), note=f"rows: {rows}"),
        Tile(
            label="Agree",
            figure=count(counts.rows_matched),
            note=percent(counts.rows_matched, counts.rows_compared),
        ),
        Tile(
            label="Outside tolerance",
            figure=count(executed.outside_groups),
            note=f"of {count(counts.matched_groups)} in every source",
        ),
        Tile(
            label="Not in every source",
            figure=count(counts.unmatched_groups),
            note=", ".join(missing_words(executed, sources)),
        ),
        *_looked_at_again(executed),
    )


def _looked_at_again(executed: Executed) -> Iterator[Tile]:
    told = executed.confirmed
    if told is not None:
        note = f"of {count(told.looked_at)} that differed at first"
        yield Tile(label="Agreed when read again", figure=count(told.resolved), note=note)


def _reproduce(facts: RunFacts, run: Mapping[str, object]) -> tuple[str, ...]:
    """The line that asks the same question again, and the one that shows every difference."""
    command = facts.run.maybe("command")
    if command is not None:
        return (command,)
    words = ["datarecs", "run", facts.job or str(run.get("job") or "")]
    for name, value in facts.parameters.items():
        words += ["--param", f"{name}={_plain(value).replace(', ', ',')}"]
    again = shlex.join(words)
    run_id = text_of(run, "run_id")
    return (again,) if facts.matched or run_id is None else (again, f"datarecs diff {run_id}")


def _proof(facts: RunFacts) -> Iterator[tuple[str, str]]:
    yield "proof_hash", facts.proof_hash
    yield "canonical form", facts.canonical
    yield "key", facts.key_id
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    yield "data versions", versions
    if facts.merkle_root is not None:
        yield "root over row digests", facts.merkle_root


def _samples_note(facts: RunFacts, amounts: Amounts, *, samples: bool) -> str:
    if facts.matched:
        return ""
    if not samples:
        return "Values are left out, because whoever asked for this page may not read them."
    if amounts.differences == 0:
        return "Values are left out, because the page would be too large with them."
    if facts.samples_cut or amounts.differences < Amounts().differences:
        return "Fewer differences are shown than usual, because the page would be too large."
    return ""
