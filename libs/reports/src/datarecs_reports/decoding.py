"""Decodes run.json into the model: the proof with core's typed reader, and the other fields.

The format of the file is defined in `datarecs_core.comparison`; the model is for reports only.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from datarecs_core.comparison.planning.additivity import adds_up, is_unit, unit_column
from datarecs_core.comparison.planning.measuring import ADDING, COUNTING
from datarecs_core.comparison.planning.plan import Warn
from datarecs_core.comparison.planning.tolerance import (
    PercentageTolerance,
    Tolerance,
    tolerance_type,
    tolerance_value,
)
from datarecs_core.comparison.proof.reading import Part, whole
from datarecs_core.comparison.proof.sealed import (
    SealedMeasure,
    SealedRun,
    SealedSource,
    SealedStage,
    sealed_run,
)
from datarecs_core.comparison.proof.sealed_numbers import read_unit
from datarecs_core.comparison.results.results import (
    DifferenceClass,
    MeasureResult,
    Outcome,
    StageResults,
)
from datarecs_core.comparison.results.verdict import BREAKS_TRUNCATED
from datarecs_core.comparison.values.rereading import type_of
from datarecs_core.comparison.values.unreadable import Unreadable
from datarecs_core.documents import decimal_text, to_document
from datarecs_core.jobs.vocabulary import Function
from datarecs_reports.figures import visible
from datarecs_reports.model import (
    ConfirmedFacts,
    DifferenceFacts,
    DimensionFacts,
    Executed,
    HintFacts,
    MeasureFacts,
    PinFacts,
    PinnedFile,
    PinnedOffsets,
    QuestionFacts,
    RunFacts,
    SourceFacts,
    StageFacts,
    StrategyFacts,
    ToleranceFacts,
    WarningFacts,
)

_PLACES = ("connection", "relation", "query", "path", "tables", "filter")


def run_facts(document: Mapping[str, object], *, values: bool = True) -> RunFacts:
    """Read a run.json.

    Args:
        document: the parsed file.
        values: whether the reader may see values of sources besides the samples.

    Raises:
        DocumentUnreadableError: a field is missing or has another type.
    """
    root = whole(document)
    sealed, run = sealed_run(document), root.maybe_part("run")
    places = {place.text("name"): place for place in run.maybe_parts("sources")}
    notes = root.maybe_part("notes") if values else Part(place="", content={})
    execution = run.maybe_part("execution")
    outside = _Outside(
        samples=root.maybe_part("samples"),
        hints=root.maybe_part("hints"),
        unreadable=root.maybe_part("unreadable") if values else Part(place="", content={}),
        units=root.maybe_part("units"),
        strategies={each.text("stage"): each for each in execution.maybe_parts("strategies")},
    )
    return RunFacts(
        job=run.maybe("job") or "",
        run=run,
        result=sealed.verdict.value,
        acceptance=sealed.acceptance.value,
        proof_hash=sealed.proof_hash,
        spec_hash=sealed.spec_hash,
        key_id=sealed.key_id,
        canonical=sealed.canonical,
        versions=sealed.versions,
        parameters=sealed.parameters,
        warnings=tuple(map(_warning, sealed.warnings)),
        sources=tuple(_source(each, places.get(each.name), notes) for each in sealed.inputs),
        stages=tuple(_stage(sealed, each, outside) for each in sealed.stages),
        samples_cut="samples_cut" in document,
        merkle_root=None if sealed.digests is None else sealed.digests.merkle_root,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outside:
    """The data outside the proof, by stage."""

    samples: Part
    hints: Part
    unreadable: Part
    units: Part
    strategies: Mapping[str, Part]


def _warning(warning: Warn) -> WarningFacts:
    places = (warning.stage, warning.source, warning.column)
    return WarningFacts(
        code=warning.code,
        message=warning.message,
        where=tuple(place for place in places if place is not None),
    )


def _source(source: SealedSource, place: Part | None, notes: Part) -> SourceFacts:
    part = place or Part(place="", content={})
    return SourceFacts(
        name=source.name,
        kind=source.kind.value,
        place={name: text for name in _PLACES if place and (text := place.maybe(name)) is not None},
        pin=_pin(Part(place="pin", content=source.pin)),
        columns=tuple((name, str(kind)) for name, kind in source.columns),
        read=source.closure,
        changes=source.changes,
        read_as=_lines(part, "read_as"),
        notes=_lines(notes, source.name),
    )


def _lines(part: Part, name: str) -> tuple[str, ...]:
    if name not in part.content:
        return ()
    return tuple(text for text in part.texts(name) if text is not None)


def _pin(part: Part) -> PinFacts:
    return PinFacts(
        kind=part.text("kind"),
        database=part.maybe("database"),
        table=part.maybe("table"),
        snapshot=part.maybe("snapshot") or part.maybe("snapshot_id"),
        lsn=part.maybe("lsn"),
        taken_at=part.maybe("taken_at"),
        file_count=part.count("count"),
        size_bytes=part.count("size_bytes"),
        digest=part.maybe("digest"),
        files=tuple(
            PinnedFile(
                path=file.text("path"),
                size_bytes=file.count("size_bytes"),
                sha256=file.maybe("sha256"),
            )
            for file in part.maybe_parts("files")
        ),
        catalogued=part.maybe_part("catalogued").maybe("snapshot_id"),
        committed_at=part.maybe_part("catalogued").maybe("committed_at"),
        topic=part.maybe("topic"),
        offsets=tuple(
            PinnedOffsets(
                partition=each.count("partition"),
                start=int(each.text("start")),
                end=int(each.text("end")),
            )
            for each in part.maybe_parts("ranges")
        ),
        table_snapshot=part.maybe("table_snapshot"),
    )


def _stage(run: SealedRun, stage: SealedStage, outside: _Outside) -> StageFacts:
    results = stage.results
    return StageFacts(
        name=stage.name,
        type=stage.type.value,
        executed=None if results is None else _executed(run, stage, results, outside),
        skipped=None if stage.skipped is None else stage.skipped.value,
        stopped_by=stage.stopped_by,
    )


def _executed(
    run: SealedRun, stage: SealedStage, results: StageResults, outside: _Outside
) -> Executed:
    declared: list[SealedMeasure | None] = [*stage.measures]
    if results.rows is not None:
        declared.append(None)
    return Executed(
        result="" if stage.verdict is None else stage.verdict.value,
        acceptance=stage.acceptance.value,
        question=_question(run, stage),
        counts=results.counts,
        measures=tuple(
            _measure(plan, result, _mixed_by(stage, plan))
            for plan, result in zip(declared, results.all_measures, strict=True)
        ),
        stored=results.differences.rows,
        truncated=results.differences.truncated,
        samples=tuple(difference_facts(each) for each in outside.samples.maybe_parts(stage.name)),
        hints=tuple(_hint(each) for each in outside.hints.maybe_parts(stage.name)),
        unreadable=tuple(
            Unreadable(
                measure=each.text("measure"), source=each.text("source"), words=each.text("words")
            )
            for each in outside.unreadable.maybe_parts(stage.name)
        ),
        units=tuple(
            read_unit(each, len(run.sources)) for each in outside.units.maybe_parts(stage.name)
        ),
        strategy=None
        if stage.name not in outside.strategies
        else _strategy(outside.strategies[stage.name]),
        confirmed=None
        if stage.confirmed is None
        else ConfirmedFacts(
            resolved=stage.confirmed.in_flight_resolved,
            first=stage.confirmed.first,
            rechecks=len(stage.confirmed.rechecks),
        ),
    )


def _hint(part: Part) -> HintFacts:
    return HintFacts(
        rule=part.text("rule"),
        measure=part.text("measure"),
        source=part.text("source"),
        what=part.text("what"),
        explained=part.count("explained"),
        of=part.count("of"),
        examples=tuple(each or "" for each in part.texts("examples")),
        declare=part.text("declare"),
    )


def _strategy(part: Part) -> StrategyFacts:
    return StrategyFacts(
        chosen=part.text("chosen"),
        rejected=tuple(
            (each.text("strategy"), each.text("reason")) for each in part.maybe_parts("rejected")
        ),
    )


def _question(run: SealedRun, stage: SealedStage) -> QuestionFacts:
    return QuestionFacts(
        dimensions=tuple(
            DimensionFacts(
                name=each.name,
                rules=each.rules,
                types=each.types,
                is_unit=is_unit((each.name, each.column)),
            )
            for each in stage.dimensions
        ),
        reference=run.sources[stage.reference],
        where=stage.where,
        scope=stage.scope,
        duplicates=stage.duplicates.value,
        null_keys=stage.null_keys.value,
        empty=stage.empty.value,
        on_unmatched=stage.on_unmatched.value,
        accept=_limits(stage.accept),
        warn_at=_limits(stage.warn_at),
        schema=stage.schema,
        hashed=stage.hashed,
    )


def _limits(limits: object) -> dict[str, str]:
    """The declared limits, as texts."""
    if limits is None:
        return {}
    return Part(place="", content={"limits": to_document(limits)}).mapping("limits")


def _mixed_by(stage: SealedStage, plan: SealedMeasure | None) -> str | None:
    """The compared column with the currencies or units of a measure's values."""
    if plan is None or plan.adds_up or plan.function is Function.COUNT:
        return None
    texts = (each for each in stage.measures if each.types[:1] == ("text",))
    return unit_column(
        ((each.name, each.column) for each in stage.dimensions),
        ((each.name, each.column or "") for each in texts),
    )


def _measure(
    plan: SealedMeasure | None, result: MeasureResult, mixed_by: str | None
) -> MeasureFacts:
    """A measure with its numbers; `$rows` has no plan."""
    classes = {
        DifferenceClass.INVALID: result.invalid,
        DifferenceClass.NULL_MISMATCH: result.null_mismatch,
        DifferenceClass.NOT_COMPARABLE: result.not_comparable,
        DifferenceClass.PRECISION: result.precision,
        DifferenceClass.MULTIPLICITY: result.multiplicity,
    }
    classes[DifferenceClass.OUTSIDE] = result.outside - sum(classes.values())
    largest = result.max_abs_delta
    return MeasureFacts(
        name=result.name,
        tolerances=tuple(tolerance_facts(each.tolerance) for each in result.tolerances),
        function=None if plan is None else plan.function.value,
        combine="all" if plan is None else plan.combine.value,
        bound="inclusive" if plan is None else plan.bound.value,
        compare_to="reference" if plan is None else plan.compare_to.value,
        rules={} if plan is None else plan.rules,
        comparable=plan is None or plan.comparable,
        within=result.within,
        outside=result.outside,
        equal=result.equal,
        within_not_equal=result.within_not_equal,
        classes={kind: groups for kind, groups in classes.items() if groups},
        gaps=tuple(None if gap is None else decimal_text(gap) for gap in result.gap_by_source),
        totals=tuple(None if one is None else decimal_text(one) for one in result.total_by_source),
        waterfall=result.waterfall_by_source,
        max_abs_delta=None if largest is None else decimal_text(largest),
        has_total=plan is None or _has_total(plan),
        types=() if plan is None else plan.types,
        unreadable=result.unreadable_by_source,
        not_finite=result.not_finite_by_source,
        adds_up=plan is None
        or (
            mixed_by is None
            and adds_up((plan.name, plan.column or ""), plan.function, declared=plan.adds_up)
        ),
        mixed_by=mixed_by,
    )


def _has_total(plan: SealedMeasure) -> bool:
    """Whether the measure is added up; older documents have no types."""
    kinds = [type_of(each) for each in plan.types if each is not None]
    exact = bool(kinds) and all(kind.is_number and not kind.is_float for kind in kinds)
    return exact or plan.function in COUNTING | ADDING


def tolerance_facts(tolerance: Tolerance) -> ToleranceFacts:
    """A tolerance in the form for texts."""
    base = tolerance.base.value if isinstance(tolerance, PercentageTolerance) else None
    return ToleranceFacts(
        type=tolerance_type(tolerance).value,
        value=decimal_text(tolerance_value(tolerance)),
        base=base,
    )


def difference_facts(part: Part) -> DifferenceFacts:
    """One sample of run.json."""
    return DifferenceFacts(
        break_id=part.text("break_id"),
        measure=part.text("measure"),
        is_break=part.text("outcome") == Outcome.BREAK,
        difference_class=DifferenceClass(part.text("difference_class")),
        presence=part.count("presence"),
        odd_one_out=part.maybe("odd_one_out"),
        key=part.texts("key"),
        values=part.pairs("values"),
        raw_values=part.pairs("raw_values"),
        deltas=part.pairs("deltas"),
        delta_percent=part.pairs("delta_percent"),
        raw_keys=part.pairs("raw_keys"),
    )


def incomplete_stages(document: Mapping[str, object], stage: str | None = None) -> list[str]:
    """A line for each stage that stores only some differences: how many of how many.

    Args:
        document: a run.json.
        stage: only this stage.
    """
    warnings = whole(document).maybe_part("proof").maybe_parts("warnings")
    return [
        f"stage {visible(each.maybe('stage') or '')}: {visible(each.text('message'))}"
        for each in warnings
        if each.maybe("code") == BREAKS_TRUNCATED and stage in {None, each.maybe("stage")}
    ]
