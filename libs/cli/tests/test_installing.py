"""What `make setup` does after the packages: Java is located, class archives are stored."""

from pathlib import Path

import pytest

from datarecs_cli.stack import classes, installing
from datarecs_cli.stack.failures import JavaMissingError
from datarecs_cli.stack.jars import read_lock
from datarecs_cli.stack.java import Java

JAVA = Java(home=Path("/opt/java"), version="21.0.8", origin="PATH")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(classes, "FOLDER", tmp_path / "of classes")
    classes.FOLDER.mkdir()
    return classes.FOLDER


def test_an_archive_is_used_once_it_is_there() -> None:
    lock = read_lock()
    assert (classes.of_spark(JAVA), classes.of_kafka(JAVA, lock)) == ("", ())
    classes.archive_of_spark(JAVA).touch()
    classes.archive_of_kafka(JAVA, lock).touch()
    assert classes.of_spark(JAVA).endswith(f"'-XX:SharedArchiveFile={classes.FOLDER}/{_spark()}'")
    assert classes.of_spark(JAVA, "-Xss4m").endswith(f"{_spark()}' -Xss4m")
    named = classes.FOLDER / f"kafka-{lock.version}-java-21.0.8.jsa"
    assert classes.of_kafka(JAVA, lock)[-1] == f"-XX:SharedArchiveFile={named}"


def _spark() -> str:
    return classes.archive_of_spark(JAVA).name


def test_an_archive_whose_program_failed_is_written_by_the_next_setup(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(archive: Path, _environment: object) -> None:
        archive.write_bytes(b"half of it")
        raise OSError("no space left on device")

    monkeypatch.setattr(installing, "find_java", lambda *_, **__: JAVA)
    monkeypatch.setattr(installing, "_compare", broken)
    monkeypatch.setattr(installing, "_run_broker", lambda archive, *_: archive.touch())
    assert installing.main("classes") == 1
    assert [one.name.split("-")[0] for one in folder.iterdir()] == ["kafka"]
    said = capfd.readouterr().err
    assert "no space left on device" in said
    assert "the next `make`" in said
    monkeypatch.setattr(installing, "_compare", lambda archive, _: archive.touch())
    assert installing.main("classes") == 0


def test_an_archive_is_made_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def write(archive: Path, *_: object) -> None:
        archive.touch()
        made.append(archive)

    monkeypatch.setattr(installing, "_compare", write)
    monkeypatch.setattr(installing, "_run_broker", write)
    for _ in range(2):
        installing.store_classes(JAVA, {})
    assert len(made) == 2
    assert sorted(one.suffix for one in folder.iterdir()) == [".jsa", ".jsa"]


def test_without_java_the_step_says_where_it_searched(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def none(*_: object, **__: object) -> Java:
        raise JavaMissingError(searched=["PATH"])

    monkeypatch.setattr(installing, "find_java", none)
    assert installing.main("java") == 3
    assert "searched: PATH" in capfd.readouterr().err
