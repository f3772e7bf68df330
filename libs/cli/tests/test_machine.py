from pathlib import Path

import pytest

from datarecs_cli.stack.failures import MachineTooSmallError
from datarecs_cli.stack.machine import GIB, check_machine, memory_of_machine, unwritable

ENOUGH = 100 * GIB


@pytest.mark.case("K50")
def test_too_little_disk_is_said_with_both_sizes(tmp_path: Path) -> None:
    with pytest.raises(MachineTooSmallError, match=r"has 1\.5 GiB free; 2\.0 GiB are needed"):
        check_machine(tmp_path, free_bytes=GIB * 3 // 2, memory_bytes=ENOUGH)


@pytest.mark.case("K50")
def test_too_little_memory_is_said_with_both_sizes(tmp_path: Path) -> None:
    with pytest.raises(MachineTooSmallError, match=r"2\.0 GiB of memory; 3\.0 GiB are needed"):
        check_machine(tmp_path, free_bytes=ENOUGH, memory_bytes=2 * GIB)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "gone"
    missing.mkdir()
    failure = OSError(30, "Read-only file system")
    assert "gone cannot be written: Read-only file system" in str(unwritable(missing, failure))


def test_an_ordinary_machine_passes(tmp_path: Path) -> None:
    check_machine(tmp_path, free_bytes=ENOUGH, memory_bytes=ENOUGH)
    assert memory_of_machine() > 0
