"""When each source of a run is read, what is read, and the case that it cannot return groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from datarecs_application.ports.comparing import Read
from datarecs_application.reading import Reading
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.pushdown import MAX_KEYS, NotPushedError
from datarecs_core.comparison.planning.scan import Extract, Groups, Only, Scan
from datarecs_core.jobs.definition import Stage
from datarecs_core.jobs.vocabulary import OnUnmatched, StageType, Strategy
from datarecs_testing.comparisons import a_measure, aggregate_by, rows_by
from datarecs_testing.tables import a_job, pair, plan_of

TABLES = pair("k int, v int", [(1, 1)], [(1, 1)])
GROUPS = Groups(dimensions=("k",))
KEYS = (("1",), (None,))
SHAPE = Stage(name="shape", type=StageType.SCHEMA)


@dataclass
class Source:
    """A connector that records its reads, and refuses some of them."""

    read_stage: list[tuple[str, bool, bool]] = field(default_factory=list)
    """Folder, whether groups and whether keys were requested."""
    refuses: bool = False

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        less = scan.groups is not None or scan.only is not None
        self.read_stage.append((directory, scan.groups is not None, scan.only is not None))
        progress(Read(rows=len(self.read_stage), decoded_bytes=0))
        if less and self.refuses:
            raise NotPushedError("it holds NaN")
        return replace(scan, extract=Extract(root="/", files=(), rows=1, decoded_bytes=1))


@dataclass
class Engine:
    keys: Sequence[Sequence[str | None]] | None = KEYS

    def differing(self, _stage: str, most: int) -> Sequence[Sequence[str | None]] | None:
        assert most == MAX_KEYS
        return self.keys


@dataclass
class House:
    source: Source = field(default_factory=Source)
    reported: list[tuple[int, str | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reading = Reading(extract=self._extract)

    def _extract(self, scan: Scan, folder: str, stage: str | None) -> Scan:
        self.reported.append((scan.index, stage))
        return self.reading.query_connector(self.source, scan, folder)  # type: ignore[arg-type]  # half a connector


def planned(*, pushed: bool = True) -> ComparisonPlan:
    """Groups of both sources, then the rows of those that differ."""
    first = aggregate_by("k", a_measure("v"), on_unmatched=OnUnmatched.ESCALATE)
    plan = plan_of(a_job(TABLES, first, rows_by("k", a_measure("v")), SHAPE), TABLES)
    if not pushed:
        return plan
    groups, rows, shape = plan.stages
    strategy = replace(groups.strategy, chosen=Strategy.PUSHDOWN)
    groups = replace(groups, groups=(GROUPS, GROUPS), strategy=strategy)
    return replace(plan, stages=(groups, replace(rows, by_keys=(0, 1)), shape))


def read_stage(house: House, stage: StagePlan, engine: Any = None) -> StagePlan:  # noqa: ANN401  half an engine
    return house.reading.read_stage(stage, engine)


def test_progress_of_a_read_is_reported_for_either_engine() -> None:
    house, reads = House(Source(refuses=True)), list[Read]()
    scan = replace(planned().scans[0], groups=GROUPS)
    house.reading.query_connector(house.source, scan, "0", progress=reads.append)  # type: ignore[arg-type]  # half a connector
    assert [each.rows for each in reads] == [1, 2]


def test_rows_that_some_stage_needs_are_read_first_and_once() -> None:
    house = House()
    plan = house.reading.brought(planned(pushed=False))
    assert house.reported == [(0, None), (1, None)]
    for stage in plan.stages:
        assert read_stage(house, stage, Engine()).scans == plan.scans
    assert house.source.read_stage == [("0", False, False), ("1", False, False)]


def test_groups_are_read_by_their_stage_and_rows_by_the_keys_that_differ() -> None:
    house = House()
    plan = house.reading.brought(planned())
    assert house.reported == []
    groups, rows, shape = plan.stages
    assert [scan.groups for scan in read_stage(house, groups).scans] == [GROUPS, GROUPS]
    assert read_stage(house, shape) == shape
    plan_read = read_stage(house, rows, Engine())
    assert plan_read.scans[1].only is not None
    assert plan_read.scans[1].only.keys is not None
    assert plan_read.scans[1].only.keys.values == KEYS
    assert house.reported == [(0, None), (1, None), (0, "rows"), (1, "rows")]
    assert house.source.read_stage[2:] == [("1-0", False, True), ("1-1", False, True)]


def test_too_many_keys_bring_all_rows() -> None:
    house = House()
    plan = house.reading.brought(planned())
    plan_read = read_stage(house, plan.stages[1], Engine(keys=None))
    assert [scan.only for scan in plan_read.scans] == [None, None]
    assert house.source.read_stage == [("0", False, False), ("1", False, False)]
    assert read_stage(house, plan.stages[1], Engine()).scans == plan_read.scans


def test_a_source_that_may_not_group_sends_its_rows_with_the_reason() -> None:
    house = House(source=Source(refuses=True))
    plan = house.reading.brought(planned())
    plan_read = read_stage(house, plan.stages[0])
    assert (plan_read.groups, plan_read.strategy.chosen) == ((), Strategy.FULL)
    assert plan_read.strategy.rejected[0] == (
        Strategy.PUSHDOWN,
        "one sends rows: it holds NaN; two sends rows: it holds NaN",
    )
    assert house.source.read_stage[:2] == [("0-0", True, False), ("0-0-rows", False, False)]
    assert read_stage(house, plan.stages[1], Engine()).scans == plan_read.scans


def test_keys_that_a_source_cannot_select_need_its_rows() -> None:
    house = House(source=Source(refuses=True))
    plan = house.reading.brought(planned())
    plan_read = read_stage(house, plan.stages[1], Engine())
    assert [scan.only for scan in plan_read.scans] == [None, None]
    assert sorted(house.reading.whole) == [0, 1]


def test_one_source_that_sends_rows_leaves_the_others_grouped() -> None:
    house = House()
    plan = house.reading.brought(planned())
    first = replace(plan.stages[0], groups=(GROUPS, None))
    plan_read = read_stage(house, first)
    assert plan_read.groups == (GROUPS, None)
    assert plan_read.strategy.chosen is Strategy.PUSHDOWN
    house = House(source=Source(refuses=True))
    house.reading.whole[1] = plan.scans[1]
    assert read_stage(house, first).strategy.chosen is Strategy.FULL


def test_a_shared_condition_goes_with_the_keys() -> None:
    house = House()
    plan = planned()
    scans = tuple(replace(scan, only=Only(where="v > 0")) for scan in plan.scans)
    rows = plan.with_scans(scans).stages[1]
    plan_read = read_stage(house, rows, Engine())
    assert plan_read.scans[0].only is not None
    assert plan_read.scans[0].only.where == "v > 0"
