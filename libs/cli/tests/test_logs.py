from pathlib import Path

from datarecs_cli.stack.logs import MOST_FILES, rotate


def test_a_log_over_the_limit_is_shifted_and_cut(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_text("long enough")
    assert rotate(log, limit_bytes=5)
    assert log.read_text() == ""
    assert (tmp_path / "kafka.log.1").read_text() == "long enough"


def test_a_writer_that_appends_goes_on_in_the_cut_file(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    with log.open("a") as writer:
        writer.write("0123456789")
        writer.flush()
        rotate(log, limit_bytes=5)
        writer.write("next")
    assert log.read_text() == "next"


def test_five_files_are_retained_and_the_oldest_goes(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    for turn in range(8):
        log.write_text(f"turn {turn}")
        rotate(log, limit_bytes=1)
    contents = {one.name: one.read_text() for one in tmp_path.iterdir()}
    assert len(contents) == MOST_FILES
    assert contents["kafka.log.4"] == "turn 4"


def test_a_small_or_missing_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    assert not rotate(log)
    log.write_text("short")
    assert not rotate(log)
