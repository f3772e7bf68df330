"""The matrix of row stages: what is in it, and that its truth is the oracle's."""

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_connectors.extracted import rows_of
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_memory.engine import MemoryEngine
from datarecs_runtime.environment import process_environment
from datarecs_testing.row_matrix.checks import faults_of
from datarecs_testing.row_matrix.combinations import (
    DIMENSIONS,
    RULES,
    STORED_MANY,
    Combination,
    Duplicates,
    Files,
    Key,
    Order,
    Rule,
    Share,
    Storage,
    Values,
    all_combinations,
    first_combinations,
)
from datarecs_testing.row_matrix.comparing import planned
from datarecs_testing.row_matrix.files import Data, write_data
from datarecs_testing.row_matrix.truth import TrueCounts, truth_of

ROWS = 400
SHAPES = int(process_environment().get("DATARECS_TEST_SHAPES", "20"))
Answered = tuple[Data, StagePlan, StageResults]


def oracle_answer(data: Data, directory: Path) -> tuple[StagePlan, StageResults]:
    """Of the slow engine, its differences as one file of the columns that the check reads."""

    def write(_: StagePlan, rows: Sequence[Difference]) -> str:
        directory.mkdir()
        texts = pa.map_(pa.string(), pa.string())
        columns = {
            "break_id": [row.break_id for row in rows],
            "measure": [row.measure for row in rows],
            "class": [row.difference_class.value for row in rows],
            "outcome": [row.outcome.value for row in rows],
            "key_text": pa.array([row.key for row in rows], pa.list_(pa.string())),
            "values": pa.array([row.values for row in rows], texts),
            "deltas": pa.array(
                [[(name, format(delta, "f")) for name, delta in row.deltas] for row in rows], texts
            ),
        }
        pq.write_table(pa.table(columns), directory / "part-0.parquet")
        return str(directory)

    with planned(data) as (opened, plan):
        connectors = {each.source.name: each.connector for each in opened}
        engine = MemoryEngine(lambda scan: rows_of(connectors[scan.source], scan), write=write)
        (stage,) = plan.stages
        return stage, engine.compare(stage, lambda _: None)


@pytest.mark.parametrize("combination", first_combinations(SHAPES), ids=lambda each: each.name)
def test_the_truth_of_a_combination_is_the_oracles_answer(
    combination: Combination, tmp_path: Path
) -> None:
    data = write_data(combination, tmp_path, rows=ROWS)
    plan, results = oracle_answer(data, tmp_path / "differences")
    with truth_of(data, tmp_path) as truth:
        assert faults_of(truth, plan, results) == []


def test_every_pair_of_values_that_can_occur_is_in_a_combination() -> None:
    chosen = all_combinations()
    assert len({each.name for each in chosen}) == len(chosen) >= 60
    for one, other in combinations(DIMENSIONS, 2):
        pairs = {(getattr(each, one), getattr(each, other)) for each in chosen}
        possible = set(product(DIMENSIONS[one], DIMENSIONS[other]))
        if (one, other) == ("values", "rule"):
            possible = {(values, rule) for values in RULES for rule in RULES[values]}
        assert pairs == possible


def test_the_first_combinations_have_every_value() -> None:
    chosen = first_combinations(20)
    assert len(set(chosen)) == 20
    for name, values in DIMENSIONS.items():
        assert {getattr(each, name) for each in chosen} == set(values)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Answered:
    """A combination with differences of many kinds, and the true answer to it."""
    folder = tmp_path_factory.mktemp("answered")
    combination = Combination(
        share=Share.SOME,
        order=Order.SHUFFLED,
        key=Key.NULLABLE,
        files=Files.EIGHT,
        duplicates=Duplicates.UNEQUAL,
        values=Values.PLAIN,
        sources=3,
        rule=Rule.ABSOLUTE,
        storage=Storage.ZSTD,
        limit=STORED_MANY,
    )
    data = write_data(combination, folder, rows=ROWS)
    return data, *oracle_answer(data, folder / "differences")


def faults_with(answered: Answered, folder: Path, results: StageResults) -> list[str]:
    """Faults of results that were changed."""
    data, plan, _ = answered
    with truth_of(data, folder) as truth:
        return faults_of(truth, plan, results)


def changed(name: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 - of any field
    """The field with another number."""
    if isinstance(value, int):
        return {name: value + 1}
    first, *others = value
    if isinstance(first, tuple):
        return {name: ((first[0], first[1] + 1), *others)}
    return {name: (first + 1, *others)}


@pytest.mark.parametrize("name", [each.name for each in fields(TrueCounts)])
def test_every_wrong_count_is_a_fault(answered: Answered, tmp_path: Path, name: str) -> None:
    results = answered[2]
    counts = replace(results.counts, **changed(name, getattr(results.counts, name)))
    wrong = replace(results, counts=counts)
    assert any(each.startswith(f"{name} is ") for each in faults_with(answered, tmp_path, wrong))


@pytest.mark.parametrize(
    "name", ["within", "outside", "equal", "null_mismatch", "precision", "multiplicity"]
)
def test_every_wrong_number_of_a_measure_is_a_fault(
    answered: Answered, tmp_path: Path, name: str
) -> None:
    results = answered[2]
    first, *others = results.measures
    other = replace(first, **changed(name, getattr(first, name)))
    wrong = replace(results, measures=(other, *others))
    assert any(
        each.startswith(f"{name} of {first.name} is ")
        for each in faults_with(answered, tmp_path, wrong)
    )


@pytest.mark.parametrize("change", ["class", "measure", "key_text", "values"])
def test_a_stored_difference_that_is_not_true_is_a_fault(
    answered: Answered, tmp_path: Path, change: str
) -> None:
    results = answered[2]
    (part,) = Path(str(results.differences.location)).glob("part-*.parquet")
    stored = pq.read_table(part)
    at = stored.column_names.index(change)
    column = stored.column(change).combine_chunks()
    moved = pa.concat_arrays([column[1:], column[:1]])
    pq.write_table(stored.set_column(at, change, moved), tmp_path / "part-0.parquet")
    wrong = replace(results, differences=replace(results.differences, location=str(tmp_path)))
    assert any(each.startswith("stored diff") for each in faults_with(answered, tmp_path, wrong))


def test_a_difference_that_is_stored_twice_is_a_fault(answered: Answered, tmp_path: Path) -> None:
    results = answered[2]
    (part,) = Path(str(results.differences.location)).glob("part-*.parquet")
    stored = pq.read_table(part)
    twice = pa.concat_tables([stored.slice(1), stored.slice(1, 1)])
    pq.write_table(twice, tmp_path / "part-0.parquet")
    wrong = replace(results, differences=replace(results.differences, location=str(tmp_path)))
    assert any("ids" in each for each in faults_with(answered, tmp_path, wrong))
