"""Files that commands write: an error names the file and the cause, and leaves no part of one."""

import os
from collections.abc import Iterator
from errno import ENOSPC, EXDEV
from pathlib import Path

import pytest

from datarecs_cli.exporting import ExportForm, Layout, Row, export
from datarecs_cli.local.faults import OutNotWritableError
from datarecs_cli.local.folder import OutFolder
from datarecs_cli.main import run
from datarecs_cli.saving import save

Shown = pytest.CaptureFixture[str]
LAYOUT = Layout(dimensions=("k",), sources=("a", "b"))
ROW = {"stage": "s", "measure": "v", "class": "OUTSIDE", "key": {"k": "1"}, "values": {"a": "1"}}
FULL = os.strerror(ENOSPC)


def full_disk(*_arguments: object, **_options: object) -> None:
    raise OSError(ENOSPC, FULL)


def another_disk(*_arguments: object) -> None:
    raise OSError(EXDEV, os.strerror(EXDEV))


@pytest.mark.parametrize("form", list(ExportForm))
def test_an_export_into_a_place_that_is_no_folder_says_so(tmp_path: Path, form: ExportForm) -> None:
    """As into a read-only folder: the temporary file can be neither written nor removed."""
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "differences"
    with pytest.raises(OutNotWritableError, match=f"{target}: .*(File exists|Not a directory)"):
        export([ROW], LAYOUT, form, target)


@pytest.mark.parametrize("form", [form for form in ExportForm if form is not ExportForm.XLSX])
def test_an_export_to_a_full_disk_says_so(form: ExportForm) -> None:
    with pytest.raises(OutNotWritableError, match=f"/dev/full: .*{FULL}"):
        export([ROW] * 10_000, LAYOUT, form, Path("/dev/full"))


@pytest.mark.parametrize("form", list(ExportForm))
def test_an_error_between_rows_leaves_no_file(tmp_path: Path, form: ExportForm) -> None:
    def rows() -> Iterator[Row]:
        yield ROW
        full_disk()

    with pytest.raises(OutNotWritableError, match=FULL):
        export(rows(), LAYOUT, form, tmp_path / "differences")
    assert list(tmp_path.iterdir()) == []


def test_a_report_on_a_full_disk_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def partly(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[:1])
        full_disk()

    monkeypatch.setattr(Path, "write_bytes", partly)
    with pytest.raises(OutNotWritableError, match=FULL):
        save(tmp_path / "x.html", b"page")
    with pytest.raises(OutNotWritableError, match=FULL):
        OutFolder(tmp_path).store(tmp_path / "x.html", b"page")
    assert list(tmp_path.iterdir()) == []


def test_differences_that_do_not_fit_on_the_other_disk_name_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's folder is on the disk of temporary files."""
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / "part-00000.parquet").write_bytes(b"rows")
    monkeypatch.setattr(Path, "rename", another_disk)
    with OutFolder(tmp_path / "out").preparing() as out:
        out.settle("rows", str(engine))
        (stored,) = out.differences.glob("*/*")
        assert stored.read_bytes() == b"rows"
    monkeypatch.setattr("shutil.copyfile", full_disk)
    engine.mkdir()
    (engine / "part-00000.parquet").write_bytes(b"rows")
    with (
        pytest.raises(OutNotWritableError, match=f"out: the results cannot be stored: {FULL}"),
        OutFolder(tmp_path / "out").preparing() as out,
    ):
        out.settle("rows", str(engine))


@pytest.mark.parametrize(
    "command",
    [
        ("export", "kept", "--out", "-"),
        ("report", "kept", "--out", "-"),
        ("compare", "one.csv", "two.csv", "--key", "id", "--out", "-"),
        ("compare", "one.csv", "two.csv", "--key", "id", "--junit", "-"),
    ],
)
def test_a_dash_is_never_the_name_of_a_file(
    results: Path, command: tuple[str, ...], capsys: Shown
) -> None:
    assert run(command) == 2
    flag = command[-2]
    assert f"{flag} -: name a file; for a pipe write {flag} /dev/stdout" in capsys.readouterr().err
    assert not (results / "-").exists()


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("id,amount\n1,1.10\n")
    Path("two.csv").write_text("id,amount\n1,1.20\n")
    assert run(["compare", "-q", "one.csv", "two.csv", "--key", "id", "--out", "kept"]) == 1
    return tmp_path


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_export_to_stdout_is_only_the_file(
    results: Path, form: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    capfdbinary.readouterr()
    assert run(["export", "kept", "--format", form, "--out", "/dev/stdout"]) == 0
    printed = capfdbinary.readouterr().out
    assert run(["export", "kept", "--format", form, "--out", "file"]) == 0
    assert printed == (results / "file").read_bytes()


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    save(pipe, b"page")
    assert os.read(reader, 10) == b"page"
    assert pipe.is_fifo()
    os.close(reader)


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize("target", ["kept", "."])
def test_a_folder_is_refused_as_a_file(target: str, capsys: Shown) -> None:
    assert run(["export", "kept", "--out", target]) == 3
    assert "it is a folder; name a file in it" in capsys.readouterr().err


FOREIGN = {
    "run.json": ['{"schema": "other/1"}', "[]", "not JSON", '{"schema": "datarecs.runner"}'],
    "report.html": ["<html>coverage</html>"],
    "error.html": ["<html>Not found</html>"],
}


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(
    ("name", "content"), [(name, text) for name, texts in FOREIGN.items() for text in texts]
)
def test_a_file_of_another_program_is_never_replaced(
    name: str, content: str, capsys: Shown
) -> None:
    Path("mine").mkdir()
    Path("mine", name).write_text(content)
    assert run(["compare", "one.csv", "two.csv", "--key", "id", "--out", "mine"]) == 3
    assert f"DR3031 mine: the results cannot be stored: its {name} is no" in capsys.readouterr().err
    assert [path.name for path in Path("mine").iterdir()] == [name]
    assert Path("mine", name).read_text() == content


@pytest.mark.usefixtures("results")
def test_results_of_earlier_comparisons_are_replaced() -> None:
    again = ["compare", "one.csv", "two.csv", "--key", "id", "--out", "kept"]
    assert run(again) == 1
    Path("kept/run.json").unlink()  # as after a comparison that was killed
    assert run(again) == 1
    Path("two.csv").write_bytes(b"id,amount\n1,\x00\n")
    assert run(again) == 3
    Path("two.csv").write_text("id,amount\n1,1.10\n")
    assert run(again) == 0
    assert sorted(path.name for path in Path("kept").glob("*.*")) == ["report.html", "run.json"]
