"""Folders as sources: one kind of files, whatever name the folder is given by."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli.main import run

Shown = pytest.CaptureFixture[str]
ROWS = "id,amount\n1,1.10\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("other.csv").write_text(ROWS)
    Path("data/one.csv").write_text(ROWS)
    return tmp_path / "data"


def compared(place: str) -> int:
    return run(["compare", place, *OTHER])


OTHER = ["../other.csv", "--key", "id", "--out", "../out"]
PLACES = [".", "./", "../data", "*.csv", "{folder}"]


@pytest.mark.parametrize("place", PLACES)
def test_a_folder_can_be_named_in_every_way(
    place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert compared(place.format(folder=folder)) == 0


@pytest.mark.parametrize("place", [place for place in PLACES if "*" not in place])
@pytest.mark.parametrize("name", ["two.parquet", "two.jsonl", "two.tsv", "two.json.gz"])
def test_a_folder_of_two_kinds_lists_them(
    place: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.chdir(folder)
    Path(name).touch()
    Path("more.csv.gz").touch()
    assert compared(place.format(folder=folder)) == 2
    shown = capsys.readouterr().err
    other = f".{name.split('.')[1]}"
    assert "the folder has files of several kinds: 2 .csv" in shown
    assert f"1 {other}" in shown
    assert "/**/*.csv'" in shown


@pytest.mark.parametrize("place", ["**/*.csv", "{folder}/**/*.csv", "../data/**/*.csv"])
def test_a_pattern_of_any_folders_reads_files_at_every_depth(
    place: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.chdir(folder)
    Path("sub/deep").mkdir(parents=True)
    Path("sub/deep/two.csv").write_text("id,amount\n2,1.10\n")
    assert compared(place.format(folder=folder)) == 1, capsys.readouterr().err
    assert "2 rows" in capsys.readouterr().err
    with Path("../other.csv").open("a") as file:
        file.write("2,1.10\n")
    assert compared(place.format(folder=folder)) == 0


@pytest.mark.usefixtures("folder")
def test_files_that_writers_leave_beside_data_are_no_kind(capsys: Shown) -> None:
    for name in ("_delta_log/0.json", ".hidden/0.parquet", "_temporary/0/a.tsv", ".part.json"):
        file = Path("data", name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    Path("data/.part.json").unlink()
    assert run(["compare", "data", "other.csv", "--key", "id", "--out", "out"]) == 0, (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("name", ["one.csv", "one.parquet"])
def test_results_of_an_earlier_comparison_are_no_source(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.chdir(folder)
    pq.write_table(pa.table({"id": [1]}), "../other.parquet")
    if name == "one.parquet":
        Path("one.csv").unlink()
        pq.write_table(pa.table({"id": [1]}), name)
    other = f"../other{Path(name).suffix}"
    for place in (".", ".", folder):
        assert run(["compare", str(place), other, "--key", "id"]) == 0, capsys.readouterr().err
        assert list(Path("datarecs-compare").iterdir())


@pytest.mark.parametrize("link", ["file.csv", "linked", "data/two.csv"])
def test_links_are_followed_on_this_machine(link: str, folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "x.csv").write_text(ROWS)
    Path(link).symlink_to(outside if link == "linked" else outside / "x.csv")
    rows = 1 if link == "data/two.csv" else 0
    source = "data" if rows else link
    assert run(["compare", source, "other.csv", "--key", "id", "--out", "out"]) == rows


@pytest.mark.usefixtures("folder")
def test_files_with_two_types_name_a_remedy_that_helps(capsys: Shown) -> None:
    Path("types").mkdir()
    for name, kind in (("1", pa.int64()), ("2", pa.float64())):
        table = pa.table({"id": [int(name)], "v": pa.array([1], kind)})
        pq.write_table(table, f"types/{name}.parquet")
    pq.write_table(pa.table({"id": [1, 2], "v": [1.0, 1.0]}), "whole.parquet")
    assert run(["compare", "types", "whole.parquet", "--key", "id", "--out", "out"]) == 3
    shown = capsys.readouterr().err
    assert "cast the column in a `query` that has the files as `tables`" in shown
    assert "merge_schema" not in shown
    Path("job.yaml").write_text(
        """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: types}
spec:
  sources:
    - name: one
      kind: parquet
      path: types/1.parquet
      tables: {second: {path: types/2.parquet}}
      query: SELECT id, CAST(v AS double) AS v FROM one UNION ALL SELECT id, v FROM second
    - {name: two, kind: parquet, path: whole.parquet}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: "*"}
"""
    )
    assert run(["compare", "job.yaml", "--out", "out"]) == 0, capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_a_repeated_column_has_no_reason_about_digits(capsys: Shown) -> None:
    Path("twice.csv").write_text("id,amount,amount\n1,2,3\n")
    assert run(["compare", "twice.csv", "other.csv", "--key", "id", "--out", "out"]) == 1
    shown = capsys.readouterr().out
    assert "gap unknown (the column cannot be compared)" in shown
    assert "38 digits" not in shown + Path("out/report.html").read_text()
