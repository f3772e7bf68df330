"""The content of a report's page, section by section, for the template.

Tests check the content without markup. This module has the content about the run: its verdict, its
trigger, its sources and the commands to repeat it; `tables` has the tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from datarecs_core.comparison.planning.plan import PRESENCE
from datarecs_core.comparison.results.verdict import BREAKS_TRUNCATED
from datarecs_reports.browse import MOST_ROWS, BrowseTable, browse_table
from datarecs_reports.figures import (
    count,
    counted,
    percent,
    visible,
)
from datarecs_reports.first_page import FirstPage, first_page
from datarecs_reports.first_screen import first_screen
from datarecs_reports.model import DifferenceFacts, Executed, HintFacts, RunFacts, StageFacts
from datarecs_reports.run_lines import commands, ended_line, export_command, head_facts, proof_facts
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
"""Most warnings and relaxations to list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Limits of a page's content; lowered until the page is small enough."""

    differences: int = 20
    """Most rows of a difference table."""
    measures: int = 500
    """Most rows of a measure table."""
    browsed: int = MOST_ROWS
    """Most rows of the tables to filter and sort, over all stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    label: str
    figure: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintLine:
    """A likely cause as texts."""

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
    """How many of how many differences are stored, if not all are."""
    strategy: str = ""
    waterfalls: tuple[WaterfallPage, ...] = ()
    browse: BrowseTable | None = None
    export: str = ""
    """The command that writes all its differences to a file."""
    hints: tuple[HintLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The content of the page of a run with a verdict, in order."""

    title: str
    sign: str
    result: str
    reason: str
    first: FirstPage
    tiles: tuple[Tile, ...]
    """The counts of the first stage on the page."""
    tiles_of: str
    """The name of this stage; empty if the run has one stage."""
    when: str
    """The end time and the requester of the run, on one line."""
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
    """Why sample rows are missing or fewer; empty if none are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The values that a reader may see."""

    samples: bool
    """Whether the reader may see values at all; counts and totals are always shown."""
    rows: Mapping[str, Sequence[DifferenceFacts]] = field(default_factory=dict)
    """The largest stored differences by stage; empty if they were not read."""


def page_of(facts: RunFacts, run: Mapping[str, object], *, amounts: Amounts, shown: Shown) -> Page:
    """The page of a run with a verdict.

    Args:
        facts: from its run.json.
        run: the run as in the API, for times and names that are not in run.json.
        amounts: limits of the content.
        shown: the values that the reader may see.
    """
    sign, word = MATCHED if facts.matched else UNMATCHED
    screen = first_screen(facts, samples=shown.samples)
    leading = next(
        (each.executed for each in facts.stages if each.executed and each.name == screen.stage),
        None,
    )
    return Page(
        title=facts.job or str(run.get("job") or "comparison"),
        sign=sign,
        result=word,
        reason=reason(facts),
        first=first_page(screen, facts.source_names),
        tiles=() if leading is None else _tiles(leading, facts.source_names),
        tiles_of=screen.stage if len(facts.stages) > 1 else "",
        when=ended_line(facts, run),
        head=tuple(head_facts(facts, run)),
        sources=tuple(source_page(facts, each) for each in facts.sources),
        source_names=facts.source_names,
        stages=tuple(
            replace(_stage(facts, each, amounts, shown), export=export_command(run, each.name))
            for each in facts.stages
        ),
        relaxations=_first(relaxations(facts)),
        warnings=tuple(
            (each.code, visible(each.message, most=500), " · ".join(map(visible, each.where)))
            for each in facts.warnings[:MAX_LINES]
        ),
        more_warnings=max(len(facts.warnings) - MAX_LINES, 0),
        reproduce=commands(facts, run),
        proof=tuple(proof_facts(facts)),
        samples=_samples_note(facts, amounts, samples=shown.samples),
    )


def _first(lines: Sequence[str]) -> tuple[str, ...]:
    more = len(lines) - MAX_LINES
    return (*lines[:MAX_LINES], *([f"and {count(more)} more"] if more > 0 else []))


def _stage(facts: RunFacts, stage: StageFacts, amounts: Amounts, shown: Shown) -> StagePage:
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
    tables = difference_tables(executed, sources, most=amounts.differences) if shown.samples else []
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
        browse=_browse(stage.name, executed, sources, amounts, shown),
        hints=tuple(map(_hint, executed.hints)) if shown.samples else (),
    )


def _browse(
    name: str, executed: Executed, sources: Sequence[str], amounts: Amounts, shown: Shown
) -> BrowseTable | None:
    """The stored differences in the file; samples if the stored ones were not read."""
    if not shown.samples or not amounts.browsed:
        return None
    rows = shown.rows.get(name) or executed.samples
    most = amounts.browsed * len(rows) // max(sum(map(len, shown.rows.values())), len(rows), 1)
    return browse_table(executed, sources, rows, most=min(max(most, 1), amounts.browsed))


def _truncated(facts: RunFacts, stage: str) -> str:
    messages = (
        each.message
        for each in facts.warnings
        if each.code == BREAKS_TRUNCATED and stage in each.where
    )
    return next(messages, "not all differences are stored")


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
    """`amount (sum)`; the name alone for plain values."""
    shown = visible(name)
    return shown if function in (None, "value") else f"{shown} ({function})"


def _tiles(executed: Executed, sources: Sequence[str]) -> tuple[Tile, ...]:
    """Numbers of groups by outcome; for a stage without groups, rows by source."""
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
        *_recheck_tiles(executed),
    )


def _recheck_tiles(executed: Executed) -> Iterator[Tile]:
    confirmed = executed.confirmed
    if confirmed is not None:
        note = f"of {count(confirmed.initial_differences)} that differed at first"
        yield Tile(label="Agreed after recheck", figure=count(confirmed.resolved), note=note)


def _samples_note(facts: RunFacts, amounts: Amounts, *, samples: bool) -> str:
    if facts.matched:
        return ""
    if not samples:
        return "Values are left out, because you have no permission to read them."
    if amounts.differences == 0:
        return "Values are left out, because the page would be too large with them."
    if facts.samples_cut or amounts.differences < Amounts().differences:
        return "Fewer differences are shown than usual, because the page would be too large."
    return ""
