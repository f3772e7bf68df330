"""`datarecs compare --as-of` of a captured folder: the real catalogue says which files it had."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from datarecs_cli.main import run
from datarecs_core.access.permissions import Role
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.catalogue import ShiftedClock
from datarecs_testing.conformance.catalogued_runs import (
    MONDAY,
    TUESDAY,
    WEDNESDAY,
    CapturedFolder,
)
from datarecs_testing.memory_stores import memory_stores
from datarecs_testing.scripted_api import RealApi, written_credentials

Shown = pytest.CaptureFixture[str]
SOURCE = {"kind": "csv", "connection": "exports", "path": "orders/"}
BOTH = [{**SOURCE, "name": "one"}, {**SOURCE, "name": "two"}]


@pytest.fixture
def house() -> MemoryApiHouse:
    house = memory_api(blobs=MemoryBlobStores(ShiftedClock()))
    # The files have real times, and the server reads none that is still to come.
    house.clock.advance(ShiftedClock().now() - house.clock.now())
    return house


@pytest.fixture
def captured(house: MemoryApiHouse, tmp_path: Path) -> CapturedFolder:
    """Two files of Monday, which were captured; a third came on Wednesday."""
    folder = CapturedFolder(
        stores=memory_stores(house.store, house.clock),
        folder=tmp_path / "exports",
        blobs=house.blobs,
        clock=ShiftedClock(),
    )
    folder.write("a.csv", "1", MONDAY)
    folder.write("b.csv", "2", MONDAY)
    folder.capture()
    folder.write("c.csv", "3", WEDNESDAY)
    return folder


@pytest.fixture
def server(
    house: MemoryApiHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RealApi]:
    """The API of the tenant, by a key that only reads."""
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    api = RealApi(house.caller(A_TENANT, Role.VIEWER))
    with api.in_place_of_the_network():
        yield api


def job(*sources: Mapping[str, object], **connections: Path) -> str:
    documents: list[dict[str, object]] = [
        {
            "kind": "ReconciliationJob",
            "metadata": {"name": "orders"},
            "spec": {
                "sources": list(sources),
                "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
            },
        }
    ]
    for name, root in connections.items():
        spec = {"type": "files", "config": {"root": str(root)}}
        documents.append({"kind": "Connection", "metadata": {"name": name}, "spec": spec})
    text = "\n---\n".join(json.dumps({"apiVersion": "datarecs.io/v1", **d}) for d in documents)
    Path("job.yaml").write_text(text, encoding="utf-8")
    return "job.yaml"


def call(shown: Shown, *words: str) -> tuple[int, str]:
    code = run([*words, "--quiet"])
    return code, " ".join("".join(shown.readouterr()).split())


def compared(shown: Shown, *flags: str) -> tuple[int, str]:
    return call(shown, "compare", "job.yaml", "--out", "out", *flags)


def pins() -> list[Any]:
    document = json.loads(Path("out/run.json").read_bytes())
    return [source["pin"] for source in document["proof"]["sources"]]


def paths(pin: Any) -> list[str]:  # noqa: ANN401  a part of run.json
    return [file["path"] for file in pin["files"]]


def at(moment: datetime) -> str:
    return moment.isoformat()


@pytest.mark.usefixtures("server")
def test_a_folder_is_read_as_it_was(captured: CapturedFolder, capsys: Shown) -> None:
    job(*BOTH)
    code, output = compared(capsys, "--as-of", at(TUESDAY))
    assert (code, "MATCHED 2 of 2" in output) == (0, True), output
    for pin in pins():
        assert paths(pin) == ["orders/a.csv", "orders/b.csv"]
        assert pin["catalogued"]["committed_at"] == "2026-01-05T12:00:00.000000Z"
    assert compared(capsys)[0] == 0
    assert [len(pin["files"]) for pin in pins()] == [3, 3]
    captured.capture()
    compared(capsys, "--as-of", at(WEDNESDAY + timedelta(seconds=1)))
    assert [len(pin["files"]) for pin in pins()] == [3, 3]


@pytest.mark.usefixtures("server", "captured")
def test_the_past_of_a_source_is_compared_with_its_present(capsys: Shown) -> None:
    earlier = {**BOTH[0], "snapshot": {"as_of": at(TUESDAY)}}
    job(earlier, BOTH[1])
    code, output = compared(capsys)
    assert (code, "UNMATCHED" in output) == (1, True), output
    assert [len(pin["files"]) for pin in pins()] == [2, 3]
    code, output = call(capsys, "plan", "job.yaml")
    assert (code, "of the catalogue, committed 2026-01-05T12:00:00" in output) == (0, True), output


@pytest.mark.usefixtures("server", "captured")
def test_the_flag_is_the_field_of_the_job(capsys: Shown) -> None:
    job(*BOTH)
    assert compared(capsys, "--as-of", at(TUESDAY))[0] == 0
    by_flag = json.loads(Path("out/run.json").read_bytes())["proof"]["spec_hash"]
    job(*({**one, "snapshot": {"as_of": at(TUESDAY)}} for one in BOTH))
    assert compared(capsys)[0] == 0
    assert json.loads(Path("out/run.json").read_bytes())["proof"]["spec_hash"] == by_flag


@pytest.mark.usefixtures("server", "captured")
def test_a_part_of_the_table_is_read(capsys: Shown) -> None:
    job({**BOTH[0], "path": "orders/[bc].csv"}, {**BOTH[1], "path": "orders/b.csv"})
    assert compared(capsys, "--as-of", at(TUESDAY))[0] == 0
    assert [paths(pin) for pin in pins()] == [["orders/b.csv"]] * 2
    job(BOTH[0], {**BOTH[1], "path": "."})
    code, output = compared(capsys, "--as-of", at(TUESDAY))
    assert (code, "below the root of its connection" in output) == (3, True), output


@pytest.mark.parametrize("path", ["orders", "./orders", "orders//", "./orders/./", "orders/*"])
@pytest.mark.usefixtures("server")
def test_the_past_of_now_is_the_present(captured: CapturedFolder, capsys: Shown, path: str) -> None:
    for name in ("B.CSV", "part-0001", "_SUCCESS"):
        captured.write(name, name, WEDNESDAY)
    captured.capture()
    earlier = {**BOTH[0], "path": path, "snapshot": {"as_of": at(captured.clock.now())}}
    job(earlier, {**BOTH[1], "path": path})
    code, output = compared(capsys)
    assert (code, "MATCHED 5 of 5" in output) == (0, True), output


@pytest.mark.usefixtures("server")
def test_a_link_that_no_capture_reads_is_no_verdict(
    captured: CapturedFolder, tmp_path: Path, capsys: Shown
) -> None:
    (tmp_path / "beside.csv").write_text("id\n4\n")
    (captured.folder / "orders/link.csv").symlink_to(tmp_path / "beside.csv")
    captured.capture()
    job(*BOTH)
    assert compared(capsys)[0] == 0
    assert [len(pin["files"]) for pin in pins()] == [4, 4]
    code, output = compared(capsys, "--as-of", at(captured.clock.now()))
    assert (code, "orders/link.csv is a link, or below one" in output) == (3, True), output


@pytest.mark.usefixtures("server", "captured")
def test_a_time_that_is_still_to_come_is_no_verdict(capsys: Shown) -> None:
    job({**BOTH[0], "snapshot": {"as_of": "2096-01-01T00:00:00Z"}}, BOTH[1])
    code, output = compared(capsys)
    assert (code, "snapshot.as_of is still to come" in output) == (3, True), output


@pytest.mark.usefixtures("server")
def test_a_file_that_is_gone_or_changed_is_named(captured: CapturedFolder, capsys: Shown) -> None:
    job(*BOTH)
    file = captured.write("b.csv", "2", MONDAY)
    code, output = compared(capsys, "--as-of", at(TUESDAY))
    assert (code, "DR3006" in output) == (3, True), output
    assert "orders/b.csv of snapshot" in output
    assert "has changed" in output
    file.unlink()
    code, output = call(capsys, "plan", "job.yaml", "--as-of", at(TUESDAY))
    assert (code, "is gone" in output, "orders/b.csv" in output) == (3, True, True), output


@pytest.mark.usefixtures("server")
def test_a_time_without_a_capture_is_no_verdict(captured: CapturedFolder, capsys: Shown) -> None:
    job(*BOTH)
    code, output = compared(capsys, "--as-of", at(MONDAY - timedelta(days=1)))
    assert (code, "no capture of connection 'exports' has a snapshot" in output) == (3, True)
    job({**BOTH[0], "path": "invoices/"}, BOTH[1])
    code, output = compared(capsys, "--as-of", at(TUESDAY))
    assert (code, "has a snapshot of 'invoices'" in output) == (3, True), output
    job(*BOTH)
    captured.capture(with_files=False)
    code, output = compared(capsys, "--as-of", at(WEDNESDAY + timedelta(days=1)))
    assert (code, "connection with --capture stats" in output) == (3, True), output


@pytest.mark.usefixtures("captured", "server")
def test_another_tenant_reads_nothing_of_the_catalogue(
    house: MemoryApiHouse, server: RealApi, tmp_path: Path, capsys: Shown
) -> None:
    server.client = house.caller(B_TENANT)
    job(*BOTH, exports=tmp_path / "exports")
    code, output = compared(capsys, "--as-of", at(TUESDAY))
    assert (code, "no capture of connection 'exports'" in output) == (3, True), output


@pytest.mark.usefixtures("captured")
def test_without_a_server_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.chdir(tmp_path)
    job(*BOTH, exports=tmp_path / "exports")
    code, output = compared(capsys, "--as-of", at(TUESDAY))
    assert (code, "only the server that captures connection exports" in output) == (5, True), output


@pytest.mark.usefixtures("captured")
def test_a_folder_of_another_root_is_not_the_captured_one(
    server: RealApi, tmp_path: Path, capsys: Shown
) -> None:
    copy = tmp_path / "copy" / "orders"
    copy.mkdir(parents=True)
    for name in ("a.csv", "b.csv"):
        (copy / name).write_text((tmp_path / "exports/orders" / name).read_text())
    job(*BOTH, exports=tmp_path / "copy")
    code, output = compared(capsys, "--as-of", at(TUESDAY))
    assert (code, "orders/a.csv of snapshot" in output) == (3, True), output
    assert server.requests_to("GET", "/catalog/resolve")


@pytest.mark.usefixtures("captured")
def test_an_offline_plan_reads_no_catalogue(server: RealApi, tmp_path: Path, capsys: Shown) -> None:
    job(*BOTH, exports=tmp_path / "exports")
    assert call(capsys, "plan", "job.yaml", "--offline", "--as-of", at(TUESDAY))[0] == 0
    assert not server.requests
