"""What a finished run says about itself, typed: run.json read once for every kind of report.

Page and terminal show this one value, so they cannot differ. Values stay exact text; which words
and separators they get is decided in `words` and `figures`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from datarecs_core.comparison.plan import PRESENCE
from datarecs_core.comparison.results import DifferenceClass, Outcome
from datarecs_core.documents import from_document
from datarecs_core.jobs.types import CanonicalType
from datarecs_reports.reading import Part, whole

_CLASSES = (
    (DifferenceClass.INVALID, "invalid"),
    (DifferenceClass.NULL_MISMATCH, "null_mismatch"),
    (DifferenceClass.NOT_COMPARABLE, "not_comparable"),
    (DifferenceClass.PRECISION, "precision"),
    (DifferenceClass.MULTIPLICITY, "multiplicity"),
)
"""Classes of `outside` with their field in run.json; the rest is OUTSIDE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedFile:
    path: str
    size_bytes: int
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinFacts:
    """What made the read repeatable; which fields are set depends on the kind."""

    kind: str
    database: str | None
    snapshot: str | None
    lsn: str | None
    taken_at: str | None
    file_count: int
    size_bytes: int
    digest: str | None
    files: tuple[PinnedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts:
    """Rows of one source: extracted = grouped + excluded + out of scope."""

    extracted: int
    grouped: int
    excluded: int
    out_of_scope: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """A cast, zone or map that a source's column goes through before it is compared."""

    column: str
    cast: str | None
    zone: str | None
    map: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    name: str
    kind: str
    place: Mapping[str, str]
    """Connection, relation, query, path and filter, as far as they were given."""
    pin: PinFacts
    columns: tuple[tuple[str, str], ...]
    """Name and type of everything that was read."""
    read: ReadFacts
    changes: tuple[ColumnChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceFacts:
    type: str
    value: str
    """Seconds of a DURATION, percent of a PERCENTAGE."""
    base: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureFacts:
    name: str
    tolerances: tuple[ToleranceFacts, ...]
    function: str | None
    """None for `$rows`, which no job declares."""
    combine: str
    bound: str
    compare_to: str
    rules: Mapping[str, str]
    comparable: bool
    within: int
    outside: int
    equal: int
    within_not_equal: int
    classes: Mapping[DifferenceClass, int]
    """`outside` broken down; classes without a group are left out."""
    gaps: tuple[str | None, ...]
    """By source."""
    totals: tuple[str | None, ...]
    max_abs_delta: str | None

    @property
    def compared(self) -> int:
        return self.within + self.outside

    @property
    def passed(self) -> bool:
        return self.outside == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionFacts:
    name: str
    rules: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceFacts:
    """One stored difference. Its values are by source; a source without the group is absent."""

    break_id: str
    measure: str
    is_break: bool
    difference_class: DifferenceClass
    presence: int
    odd_one_out: str | None
    key: tuple[str | None, ...]
    values: Mapping[str, str | None]
    raw_values: Mapping[str, str | None]
    deltas: Mapping[str, str | None]
    delta_percent: Mapping[str, str | None]

    @property
    def is_missing(self) -> bool:
        return self.measure == PRESENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class CountFacts:
    """Every tuple has one entry per source."""

    source_rows: tuple[int, ...]
    groups: tuple[int, ...]
    matched_groups: int
    unmatched_groups: int
    unmatched: tuple[int, ...]
    missing: tuple[int, ...]
    presence: tuple[tuple[int, int], ...]
    """Mask and groups, most frequent first."""
    presence_other: int
    rows_compared: int
    rows_matched: int
    rows_unmatched: int
    duplicate_keys: tuple[int, ...]
    null_keys: tuple[int, ...]
    excluded_rows: tuple[int, ...]

    @property
    def outside_groups(self) -> int:
        """Groups of every source with some measure outside its tolerance."""
        return self.rows_unmatched - self.unmatched_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFacts:
    dimensions: tuple[DimensionFacts, ...]
    reference: str
    where: str | None
    scope: str | None
    duplicates: str
    null_keys: str
    empty: str
    on_unmatched: str
    accept: Mapping[str, str]
    warn_at: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What a stage asked and found."""

    result: str
    acceptance: str
    question: QuestionFacts
    counts: CountFacts
    measures: tuple[MeasureFacts, ...]
    stored: int
    truncated: bool
    samples: tuple[DifferenceFacts, ...]

    @property
    def matched(self) -> bool:
        return self.result == "MATCHED"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    name: str
    type: str
    executed: Executed | None
    skipped: str | None
    stopped_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningFacts:
    code: str
    message: str
    where: tuple[str, ...]
    """Stage, source and column, as far as they apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run that reached a verdict."""

    job: str
    run: Part
    """Ids, attempt, times, execution: of this run alone."""
    result: str
    acceptance: str
    proof_hash: str
    spec_hash: str
    key_id: str
    canonical: str
    versions: Mapping[str, str]
    parameters: Mapping[str, str]
    warnings: tuple[WarningFacts, ...]
    sources: tuple[SourceFacts, ...]
    stages: tuple[StageFacts, ...]
    samples_cut: bool

    @property
    def source_names(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.sources)

    @property
    def matched(self) -> bool:
        return self.result == "MATCHED"


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
