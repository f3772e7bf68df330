"""What is read from each source of a run, and when: all rows once, or groups, or few rows.

Sources with rows for some stage are read before the first stage; groups, and the rows of
differing groups, are read by the stage that needs them. A source that cannot return them sends its
rows. A separate module because only databases return anything but rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from datarecs_application.ports.comparing import Connector, Engine, Read
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.pushdown import MAX_KEYS, NotPushedError, reads_rows
from datarecs_core.comparison.planning.scan import Groups, Keys, Only, Scan
from datarecs_core.jobs.vocabulary import Strategy

Extract = Callable[[Scan, str, str | None], Scan]
"""Reads a scan into a folder of this name; the stage is set where a source is read once more."""


def ignore(_read: Read) -> None:
    """For who needs no progress."""


@dataclass(slots=True, kw_only=True)
class Reading:
    """The reads of one run."""

    extract: Extract
    whole: dict[int, Scan] = field(default_factory=dict)
    """Scans of all rows that stages may read, by source."""
    begun: set[int] = field(default_factory=set)
    """Sources that were read in any way."""
    refusals: dict[int, str] = field(default_factory=dict)
    """Why a source gave its rows, of its latest read."""

    def brought(self, plan: ComparisonPlan) -> ComparisonPlan:
        """The plan over the rows of every source that some stage needs whole."""
        return plan.with_scans(
            tuple(scan if _may_wait(plan, scan.index) else self._rows(scan) for scan in plan.scans)
        )

    def read_stage(self, stage: StagePlan, engine: Engine | None) -> StagePlan:
        """The stage over the data that its sources return.

        Args:
            stage: next to be compared; all before it have been.
            engine: that compared them; None before the first.
        """
        if stage.queries or stage.catalogue is not None:
            return stage
        scans = tuple(self._answer(stage, scan, engine) for scan in stage.scans)
        lost = [
            f"{scan.source} sends rows: {self.refusals[scan.index]}"
            for scan, groups in zip(scans, stage.groups, strict=False)
            if groups is not None and scan.groups is None
        ]
        stage = replace(stage, scans=scans, groups=_groups_of(scans))
        return _without_groups(stage, "; ".join(lost)) if lost else stage

    def is_over(self, index: int, stage: StagePlan, later: Sequence[StagePlan]) -> bool:
        """Whether a source is no longer read at its pin.

        Args:
            index: of the source.
            stage: to be compared now; its data has been read.
            later: stages that may be compared after it.
        """
        whole, scan = self.whole.get(index), stage.scans[index]
        if (whole is not None and whole.extract is None) or scan.groups is not None:
            return False  # engines read files themselves, and the oracle reads the rows of groups
        if stage.confirm is not None and scan.extract is not None and scan.extract.is_partial:
            return False  # the oracle reads omitted rows of groups that are checked again
        return not any(_reads_source(stage, index, known=whole is not None) for stage in later)

    def query_connector(
        self,
        connector: Connector,
        scan: Scan,
        directory: str,
        *,
        progress: Callable[[Read], None] = ignore,
    ) -> Scan:
        """The groups of a connector, or its rows where it cannot return groups."""
        try:
            return connector.extract(scan, directory, progress)
        except NotPushedError as refused:
            self.refusals[scan.index] = str(refused)
            whole = replace(scan, groups=None, only=None)
            return connector.extract(whole, f"{directory}-rows", progress)

    def _answer(self, stage: StagePlan, scan: Scan, engine: Engine | None) -> Scan:
        groups = stage.groups[scan.index] if stage.groups else None
        if groups is not None:
            answer = self._read(replace(scan, groups=groups, only=None, extract=None), stage)
            return (
                answer if answer.groups is not None else self.whole.setdefault(scan.index, answer)
            )
        if scan.index in self.whole:
            return self.whole[scan.index]
        keys = _keys(stage, scan.index, engine) if scan.index in stage.by_keys else None
        if keys is None:
            return self._rows(scan)
        only = Only(where=None if scan.only is None else scan.only.where, keys=keys)
        answer = self._read(replace(scan, only=only, extract=None), stage)
        if answer.only is None:
            self.whole[scan.index] = answer
        return answer

    def _rows(self, scan: Scan) -> Scan:
        """All rows that stages may read, once in a run."""
        again = f"{scan.index}-again" if scan.index in self.begun else str(scan.index)
        self.begun.add(scan.index)
        self.whole[scan.index] = self.extract(scan, again, None)
        return self.whole[scan.index]

    def _read(self, scan: Scan, stage: StagePlan) -> Scan:
        stage_name = stage.name if scan.index in self.begun else None
        self.begun.add(scan.index)
        return self.extract(scan, f"{stage.index}-{scan.index}", stage_name)


def _may_wait(plan: ComparisonPlan, index: int) -> bool:
    """No stage needs all rows of the source, and some stage reads fewer."""
    less = any(
        index in stage.by_keys or (stage.groups and stage.groups[index] is not None)
        for stage in plan.stages
    )
    return less and not any(reads_rows(stage, index) for stage in plan.stages)


def _reads_source(stage: StagePlan, index: int, *, known: bool) -> bool:
    """Whether a stage reads a source, of which all rows are known or not."""
    if stage.queries or stage.catalogue is not None:
        return False
    return not known or bool(stage.groups and stage.groups[index] is not None)


def _keys(stage: StagePlan, index: int, engine: Engine | None) -> Keys | None:
    """The differing groups of the stage's scope, where they are few."""
    if stage.scope is None or engine is None:
        return None
    values = engine.differing(stage.scope.from_stage, MAX_KEYS)
    if values is None:
        return None
    columns = tuple(each.inputs[index].column for each in stage.scope.dimensions)
    return Keys(columns=columns, values=tuple(map(tuple, values)))


def _groups_of(scans: tuple[Scan, ...]) -> tuple[Groups | None, ...]:
    groups = tuple(scan.groups for scan in scans)
    return groups if any(groups) else ()


def _without_groups(stage: StagePlan, reason: str) -> StagePlan:
    """Stated in the strategy, which is `full` where no source returned groups."""
    chosen = Strategy.PUSHDOWN if stage.groups else Strategy.FULL
    others = (each for each in stage.strategy.rejected if each[0] is not Strategy.PUSHDOWN)
    rejected = ((Strategy.PUSHDOWN, reason), *others)
    return replace(stage, strategy=replace(stage.strategy, chosen=chosen, rejected=rejected))


def rows_of(scan: Scan) -> int:
    """Rows a source delivers: counted while extracting, or from the footers of the pinned files."""
    if scan.extract is not None:
        return scan.extract.all_rows if scan.groups is not None else scan.extract.rows
    files: Sequence[object] = getattr(scan.pin, "files", ())
    return sum(getattr(file, "rows", None) or 0 for file in files)
