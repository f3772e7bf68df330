"""What tasks count in files: the sum of all of them, and no fault of a file is theirs."""

from pathlib import Path

from datarecs_kernel.row_counts import RowCount, rows_counted


def test_rows_of_all_tasks_add_up_and_each_reading_adds_its_part(tmp_path: Path) -> None:
    assert rows_counted(tmp_path) == 0
    one, other = (RowCount(str(tmp_path), name, readings=2) for name in ("0-1", "1-2"))
    seen = []
    for count in (one, other, one):
        count.add(2_000_000_000_000)
        seen.append(rows_counted(tmp_path))
    assert seen == [10**12, 2 * 10**12, 3 * 10**12]


def test_a_folder_that_is_not_there_disturbs_nobody(tmp_path: Path) -> None:
    count = RowCount(str(tmp_path / "gone"), "0-1", readings=1)
    count.add(1)
    (tmp_path / "gone").mkdir()
    count.add(1)
    assert rows_counted(tmp_path / "gone") == 0


def test_a_file_of_which_nothing_has_arrived_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "0-1.counted").touch()
    assert rows_counted(tmp_path) == 0
