"""From run.json to the model: where each fact stands in the document, and nothing else.

Apart from the model because the written form belongs to `datarecs_core.comparison.run_json`; what
it adds later is read here.
"""

from collections.abc import Mapping

from datarecs_core.comparison.results import DifferenceClass, Outcome
from datarecs_core.documents import from_document
from datarecs_core.jobs.types import CanonicalType
from datarecs_reports.model import (
    ColumnChange,
    CountFacts,
    DifferenceFacts,
    DimensionFacts,
    Executed,
    MeasureFacts,
    PinFacts,
    PinnedFile,
    QuestionFacts,
    ReadFacts,
    RunFacts,
    SourceFacts,
    StageFacts,
    ToleranceFacts,
    WarningFacts,
)
from datarecs_reports.reading import Part, whole

_CLASSES = (
    (DifferenceClass.INVALID, "invalid"),
    (DifferenceClass.NULL_MISMATCH, "null_mismatch"),
    (DifferenceClass.NOT_COMPARABLE, "not_comparable"),
    (DifferenceClass.PRECISION, "precision"),
    (DifferenceClass.MULTIPLICITY, "multiplicity"),
)
"""Classes of `outside` with their field in run.json; the rest is OUTSIDE."""


def run_facts(document: Mapping[str, object]) -> RunFacts:
    """Read a run.json.

    Raises:
        DocumentUnreadableError: a field is absent or not of its type.
    """
    root = whole(document)
    proof, run = root.part("proof"), root.part("run")
    places = {place.text("name"): place for place in run.parts("sources")}
    sources = tuple(_source(each, places.get(each.text("name"))) for each in proof.parts("sources"))
    samples = root.part("samples")
    return RunFacts(
        job=run.maybe("job") or "",
        run=run,
        result=proof.text("result"),
        acceptance=proof.text("acceptance"),
        proof_hash=root.text("proof_hash"),
        spec_hash=proof.text("spec_hash"),
        key_id=proof.text("key_id"),
        canonical=proof.text("canonical"),
        versions=proof.mapping("versions"),
        parameters=proof.mapping("parameters"),
        warnings=tuple(_warning(each) for each in proof.parts("warnings")),
        sources=sources,
        stages=tuple(_stage(each, samples, len(sources)) for each in proof.parts("stages")),
        samples_cut="samples_cut" in document,
    )


def _warning(part: Part) -> WarningFacts:
    places = [part.maybe(name) for name in ("stage", "source", "column")]
    return WarningFacts(
        code=part.text("code"),
        message=part.text("message"),
        where=tuple(place for place in places if place is not None),
    )


def _source(part: Part, place: Part | None) -> SourceFacts:
    closure = part.part("closure")
    rules = part.part("rules")
    given = ("connection", "relation", "query", "path", "filter")
    return SourceFacts(
        name=part.text("name"),
        kind=part.text("kind"),
        place={name: text for name in given if place and (text := place.maybe(name)) is not None},
        pin=_pin(part.part("pin")),
        columns=tuple((each.text("name"), _type(each)) for each in part.parts("schema")),
        read=ReadFacts(
            extracted=closure.count("extracted"),
            grouped=closure.count("grouped"),
            excluded=closure.count("excluded"),
            out_of_scope=closure.count("out_of_scope"),
        ),
        changes=tuple(_change(name, rules.part(name)) for name in rules.content),
    )


def _type(column: Part) -> str:
    kind = column.part("type")
    try:
        return str(from_document(CanonicalType, dict(kind.content)))  # type: ignore[arg-type]  # parsed JSON
    except ValueError:
        return kind.text("kind")


def _change(column: str, part: Part) -> ColumnChange:
    return ColumnChange(
        column=column, cast=part.maybe("cast"), zone=part.maybe("zone"), map=part.mapping("map")
    )


def _pin(part: Part) -> PinFacts:
    return PinFacts(
        kind=part.text("kind"),
        database=part.maybe("database"),
        snapshot=part.maybe("snapshot"),
        lsn=part.maybe("lsn"),
        taken_at=part.maybe("taken_at"),
        file_count=part.count("count"),
        size_bytes=part.count("size_bytes"),
        digest=part.maybe("digest"),
        files=tuple(
            PinnedFile(
                path=file.text("path"),
                size_bytes=file.number("size_bytes"),
                sha256=file.maybe("sha256"),
            )
            for file in part.parts("files")
        ),
    )


def _stage(part: Part, samples: Part, sources: int) -> StageFacts:
    executed = part.text("status") == "EXECUTED"
    return StageFacts(
        name=part.text("name"),
        type=part.text("type"),
        executed=_executed(part, samples.parts(part.text("name")), sources) if executed else None,
        skipped=None if executed else part.maybe("reason"),
        stopped_by=part.maybe("stopped_by"),
    )


def _executed(part: Part, samples: tuple[Part, ...], sources: int) -> Executed:
    differences = part.part("differences")
    return Executed(
        result=part.text("result"),
        acceptance=part.text("acceptance"),
        question=_question(part.part("question")),
        counts=_counts(part.part("counts"), sources),
        measures=tuple(_measure(each, sources) for each in part.parts("measures")),
        stored=differences.number("rows"),
        truncated=differences.flag("truncated"),
        samples=tuple(difference_facts(each) for each in samples),
    )


def _question(part: Part) -> QuestionFacts:
    return QuestionFacts(
        dimensions=tuple(
            DimensionFacts(name=each.text("name"), rules=each.mapping("rules"))
            for each in part.parts("dimensions")
        ),
        reference=part.text("reference"),
        where=part.maybe("where"),
        scope=part.maybe("scope"),
        duplicates=part.text("duplicates"),
        null_keys=part.text("null_keys"),
        empty=part.text("empty"),
        on_unmatched=part.text("on_unmatched"),
        accept=part.mapping("accept"),
        warn_at=part.mapping("warn_at"),
    )


def _counts(part: Part, sources: int) -> CountFacts:
    return CountFacts(
        source_rows=part.by_source("source_row_counts", sources),
        groups=part.by_source("groups_by_source", sources),
        matched_groups=part.number("matched_groups"),
        unmatched_groups=part.number("unmatched_groups"),
        unmatched=part.by_source("unmatched_by_source", sources),
        missing=part.by_source("missing_by_source", sources),
        presence=tuple(
            (each.number("mask"), each.number("groups")) for each in part.parts("presence")
        ),
        presence_other=part.count("presence_other"),
        rows_compared=part.number("rows_compared"),
        rows_matched=part.number("rows_matched"),
        rows_unmatched=part.number("rows_unmatched"),
        duplicate_keys=part.by_source("duplicate_keys_by_source", sources),
        null_keys=part.by_source("null_keys_by_source", sources),
        excluded_rows=part.by_source("excluded_rows_by_source", sources),
    )


def _measure(part: Part, sources: int) -> MeasureFacts:
    classes = {kind: part.count(field) for kind, field in _CLASSES}
    classes[DifferenceClass.OUTSIDE] = part.number("outside") - sum(classes.values())
    return MeasureFacts(
        name=part.text("name"),
        tolerances=tuple(
            ToleranceFacts(
                type=each.text("type"), value=each.text("value"), base=each.maybe("base")
            )
            for each in part.parts("tolerances")
        ),
        function=part.maybe("function"),
        combine=part.maybe("combine") or "all",
        bound=part.maybe("bound") or "inclusive",
        compare_to=part.maybe("compare_to") or "reference",
        rules=part.mapping("rules"),
        comparable="comparable" not in part.content or part.flag("comparable"),
        within=part.number("within"),
        outside=part.number("outside"),
        equal=part.number("equal"),
        within_not_equal=part.number("within_not_equal"),
        classes={kind: groups for kind, groups in classes.items() if groups},
        gaps=part.texts_by_source("gap_by_source", sources),
        totals=part.texts_by_source("total_by_source", sources),
        max_abs_delta=part.maybe("max_abs_delta"),
    )


def difference_facts(part: Part) -> DifferenceFacts:
    """One sample of run.json."""
    return DifferenceFacts(
        break_id=part.text("break_id"),
        measure=part.text("measure"),
        is_break=part.text("outcome") == Outcome.BREAK,
        difference_class=DifferenceClass(part.text("difference_class")),
        presence=part.number("presence"),
        odd_one_out=part.maybe("odd_one_out"),
        key=part.texts("key"),
        values=part.pairs("values"),
        raw_values=part.pairs("raw_values"),
        deltas=part.pairs("deltas"),
        delta_percent=part.pairs("delta_percent"),
    )
