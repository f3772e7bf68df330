"""Only files that finished tasks have named are ever read."""

from pathlib import Path

import pytest

from datarecs_core.errors.run import RunDetail
from datarecs_kernel.accepting import accepted, attempts_of, fresh
from datarecs_kernel.refusals import ComparisonFailedError


def test_a_lost_task_that_still_writes_changes_nothing(tmp_path: Path) -> None:
    attempts = fresh(attempts_of(tmp_path / "rows"))
    (attempts / "part-00000-3.parquet").write_text("counts")
    with (attempts / "part-00000-1.parquet").open("w") as lost:
        files = accepted("rows", ["part-00000-3.parquet"], tmp_path / "rows")
        lost.write("late")
    with pytest.raises(FileNotFoundError):
        (attempts / "part-00001-2.parquet").write_text("later still")
    assert {path.name: path.read_text() for path in files.iterdir()} == {
        "part-00000-3.parquet": "counts"
    }


def test_files_of_an_earlier_pass_are_gone(tmp_path: Path) -> None:
    directory = tmp_path / "rows"
    for name in ("part-00000-1.parquet", "part-00000-2.parquet"):
        fresh(attempts_of(directory)).joinpath(name).touch()
        accepted("rows", [name], directory)
    assert [path.name for path in directory.iterdir()] == ["part-00000-2.parquet"]


def test_a_file_that_was_written_elsewhere_ends_the_stage(tmp_path: Path) -> None:
    fresh(attempts_of(tmp_path / "rows"))
    with pytest.raises(ComparisonFailedError, match="do all executors share it") as caught:
        accepted("rows", ["part-00000-1.parquet"], tmp_path / "rows")
    assert caught.value.code is RunDetail.RESULT_STORE_FAILED
