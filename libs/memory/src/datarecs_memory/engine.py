"""The Engine port over the oracle: for tests and for small `datarecs compare`.

It reads each source once per run and once per recheck, and stores the scopes of later stages; every
number comes from `datarecs_core.comparison.oracle.reference`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from zoneinfo import ZoneInfo

from datarecs_application.ports.comparing import Explanation, Progress
from datarecs_core.comparison.oracle.grouping import MAX_ROWS, Outside
from datarecs_core.comparison.oracle.reference import OracleStage, compare_stage
from datarecs_core.comparison.planning.confirming import counted_rechecks, rows_that_count
from datarecs_core.comparison.planning.engine_cost import TEXT_FACTOR, row_bytes
from datarecs_core.comparison.planning.faults import OracleMemoryError
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan, StrategyChoice
from datarecs_core.comparison.planning.scan import Pin, Scan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_core.jobs.vocabulary import Strategy

Reader = Callable[[Scan], Iterable[tuple[object, ...]]]
"""Reads plain rows of a scan, for example `Connector.rows`."""
Writer = Callable[[StagePlan, Sequence[Difference]], str]
"""Stores a stage's differences; returns their location."""


class MemoryEngine:
    """One run over the oracle; at most 100,000 rows per source.

    Args:
        read: returns the rows of a scan, from its extract if it has one; called once per
            source, pin and query.
        key: the tenant's key for break ids, hashes and masks; the published one by default.
        write: stores differences; without it they stay in `differences`.
        zone: time zone by IANA name.
        max_bytes: memory for rows; None leaves it to the limit of rows.
    """

    def __init__(
        self,
        read: Reader,
        *,
        key: bytes = COMPARE_KEY,
        write: Writer | None = None,
        zone: Callable[[str], tzinfo] = ZoneInfo,
        max_bytes: int | None = None,
    ) -> None:
        self._read, self._key, self._write, self._zone = read, key, write, zone
        self._max_bytes, self._bytes = max_bytes, 0
        self._rows: dict[tuple[int, Pin, str | None, bool], list[tuple[object, ...]]] = {}
        self._done: dict[str, OracleStage] = {}
        self._differing: dict[str, list[frozenset[bytes]]] = {}
        """By stage, the groups that differed in each of its passes."""

    def load(self, plan: ComparisonPlan) -> None:
        """Read the rows of every source now, so that their memory is known before comparing.

        Raises:
            OracleMemoryError: they need more than `max_bytes`.
        """
        for stage in plan.stages:
            if stage.catalogue is None and stage.confirm is None and not stage.by_keys:
                for scan in stage.scans:
                    self._rows_of(scan)

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        """Run one stage; the stage it is scoped to must have run before."""
        outside = Outside(
            key=self._key,
            zones={name: self._zone(name) for name in plan.zones},
            scopes={name: done.differing for name, done in self._done.items()},
            beside=self._beside(plan),
        )
        done = compare_stage(plan, self._counted(plan, outside), outside)
        before = self._differing.get(plan.name, [])[: len(plan.rechecks)]
        self._differing[plan.name] = [*before, done.differing]
        done = replace(done, results=replace(done.results, strategy=_done(plan.strategy)))
        if self._write is not None:
            location = self._write(plan, done.differences)
            differences = replace(done.results.differences, location=location)
            done = replace(done, results=replace(done.results, differences=differences))
        self._done[plan.name] = done
        counts = done.results.counts
        progress(
            Progress(
                stage=plan.name,
                row_count=sum(counts.source_row_counts),
                mismatch_count=counts.rows_unmatched,
            )
        )
        return done.results

    def differing(self, stage: str, most: int) -> None:
        """None: this engine always reads all rows of a source."""

    def explain(self, plan: StagePlan) -> Explanation:
        """Describe the work of the oracle, the same for every stage."""
        names = ", ".join(plan.sources)
        text = f"{plan.name}: read {names} once, group and compare in memory, strategy full"
        return Explanation(stage=plan.name, text=text)

    def differences(self, stage: str) -> tuple[Difference, ...]:
        """The stored differences of a stage that has run, by break id."""
        return self._done[stage].differences

    def _counted(self, plan: StagePlan, outside: Outside) -> list[list[tuple[object, ...]]]:
        """The rows of each source to compare, of the first read and of every recheck."""
        if plan.catalogue is not None:
            return []
        if not plan.rechecks:
            return [self._rows_of(scan) for scan in plan.scans]
        # A rechecked group is replaced with all its rows, so all of them are needed.
        rechecks = [
            [self._rows_of(_whole(scan)) for scan in scans] for scans in counted_rechecks(plan)
        ]
        before = self._differing[plan.name][: len(plan.rechecks)]
        return rows_that_count(plan, rechecks, before, outside)

    def _beside(self, plan: StagePlan) -> dict[int, int]:
        """The counts of rows that sources did not return, for sources with an extract."""
        if plan.rechecks or plan.catalogue is not None:
            return {}
        return {
            scan.index: max(scan.extract.all_rows - len(self._rows_of(scan)), 0)
            for scan in plan.scans
            if scan.extract is not None
        }

    def _rows_of(self, scan: Scan) -> list[tuple[object, ...]]:
        """Read at most one row above the limit, which is enough to refuse."""
        place = (scan.index, scan.pin, scan.query, scan.extract is None)
        if place not in self._rows:
            rows: list[tuple[object, ...]] = []
            for row in self._read(scan):
                rows.append(row)
                self._count(row, scan)
                if len(rows) > MAX_ROWS:
                    break
            self._rows[place] = rows
        return self._rows[place]

    def _count(self, row: tuple[object, ...], scan: Scan) -> None:
        if self._max_bytes is None:
            return
        self._bytes += row_bytes(len(row)) + TEXT_FACTOR * sum(map(_text_bytes, row))
        if self._bytes > self._max_bytes:
            self._rows.clear()
            raise OracleMemoryError(source=scan.source, limit_bytes=self._max_bytes)


def _text_bytes(value: object) -> int:
    """Bytes of texts and binaries, also inside nested values."""
    match value:
        case str() | bytes():
            return len(value)
        case Mapping():
            return sum(_text_bytes(key) + _text_bytes(one) for key, one in value.items())
        case list() | tuple():
            return sum(map(_text_bytes, value))
        case _:
            return 0


def _whole(scan: Scan) -> Scan:
    """The scan without its extract, if the extract has only a part of the rows."""
    partial = scan.extract is not None and scan.extract.is_partial
    return replace(scan, extract=None) if partial else scan


def _done(choice: StrategyChoice) -> StrategyChoice:
    """The oracle reads every row, for every strategy chosen for an engine."""
    if choice.chosen is Strategy.FULL:
        return choice
    reason = "the oracle answered, which reads every row"
    rejected = ((choice.chosen, reason), *choice.rejected)
    return replace(choice, chosen=Strategy.FULL, rejected=rejected)
