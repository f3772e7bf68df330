"""What a tenant can make a worker open: files below the tenant's roots, as text or Parquet.

Every format and every catalog is tried with the same hostile paths and files, so that a new reader
that opens files by itself is noticed here.
"""

import gzip
import io
import os
import pickle
import socket
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from datarecs_application.ports.comparing import Connector, HeldPin
from datarecs_connectors import private_places
from datarecs_connectors.file_tree import Identity
from datarecs_connectors.locations import TenantRoots
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.scan import Scan, ScanColumn, SourceSchema
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Limits, Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    CatalogType,
    Connection,
    ConnectionType,
    FilesConfig,
    HadoopCatalog,
    IcebergConfig,
    SqlCatalog,
)
from datarecs_testing.lake import Lake, a_lake, path_at

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
POLICY = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
TEXTS = (SourceKind.CSV, SourceKind.JSON)
FORMATS = (*TEXTS, SourceKind.PARQUET)
LINES = {SourceKind.CSV: b"id,word\n1,one\n", SourceKind.JSON: b'{"id": 1, "word": "one"}\n'}
SECRET = "s3cret-4711"
TENANT, OTHER = UUID(int=1), UUID(int=2)
MEMORY_MIB = 500
"""Of a process that reads a bomb: its libraries take 200."""


@dataclass(kw_only=True)
class House:
    """A root with files, folders of the platform inside it and others beside it."""

    folder: Path
    excluded: tuple[Path, ...] = ()
    opened: list[HeldPin] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.folder / "project"

    def surroundings(self) -> Surroundings:
        return Surroundings(
            roots=(self.root,), policy=POLICY, now=lambda: NOON, excluded=self.excluded
        )

    def connect(self, kind: SourceKind, folder: str = ".") -> Connector:
        connection = Connection(type=ConnectionType.FILES, config=FilesConfig(root=folder))
        source = Source(name="exports", kind=kind, connection="c", path="x")
        return open_connector(source, connection, {}, surroundings=self.surroundings())

    def read(
        self, kind: SourceKind, path: str, folder: str = ".", limits: Limits | None = None
    ) -> list[tuple[object, ...]]:
        """All rows, after the last check of the pin."""
        connector = self.connect(kind, folder)
        source = Source(name="exports", kind=kind, connection="c", path=path)
        source = replace(source, limits=limits or source.limits)
        held = connector.pin(source)
        self.opened.append(held)
        scan = scan_of(source, connector.describe(source, held.pin), held)
        connector.extract(scan, str(self.folder / "extract"), lambda _: None)
        rows = list(connector.rows(scan))
        held.check()
        return rows

    def error(
        self, kind: SourceKind, path: str, folder: str = ".", limits: Limits | None = None
    ) -> DatarecsError:
        with pytest.raises(DatarecsError) as caught:
            self.read(kind, path, folder, limits)
        assert SECRET not in str(caught.value)
        return caught.value


def scan_of(source: Source, schema: SourceSchema, held: HeldPin) -> Scan:
    return Scan(
        source=source.name,
        index=0,
        kind=source.kind,
        connection=source.connection,
        path=source.path,
        columns=tuple(
            ScanColumn(name=column.name, physical=column.name, type=column.type)
            for column in schema.columns
        ),
        schema=schema,
        pin=held.pin,
        limits=source.limits,
    )


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(folder=tmp_path)
    house.root.mkdir()
    yield house
    for held in house.opened:
        held.close()


def write(path: Path, kind: SourceKind, lines: bytes | None = None) -> None:
    """A small file of a kind; `lines` for text alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind is SourceKind.PARQUET:
        pq.write_table(pa.table({"id": [1], "word": ["one"]}), path)
    else:
        path.write_bytes(LINES[kind] if lines is None else lines)


def words(kind: SourceKind, content: bytes) -> bytes:
    """A text file with these bytes as its only value."""
    return b"id,word\n1," + content + b"\n" if kind is SourceKind.CSV else content


# Paths


@pytest.mark.case("X55")
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "path",
    [
        "../outside.csv",
        "../../etc/passwd",
        "a/../../outside.csv",
        "**/../outside.csv",
        "**/../../**/outside.csv",
        "/**/outside.csv",
        "%2e%2e/outside.csv",
        "a%2F..%2foutside.csv",
        "/etc/passwd",
        "a\0b.csv",
        "\\\\server\\share\\a.csv",
        "//server/share/a.csv",
        "C:\\a.csv",
        "file:///etc/passwd",
        "s3://bucket/a.parquet",
        "http://169.254.169.254/latest/meta-data",
        "hdfs://node/a.parquet",
        "jar:file:/a.jar!/x",
    ],
)
def test_a_path_out_of_the_folder_is_refused_before_anything_is_opened(
    house: House, monkeypatch: pytest.MonkeyPatch, kind: SourceKind, path: str
) -> None:
    connector = house.connect(kind)
    opened: list[object] = []
    monkeypatch.setattr(os, "open", lambda *name, **_: opened.append(name))
    source = Source(name="exports", kind=kind, connection="c", path=path)
    with pytest.raises(DatarecsError) as caught:
        connector.pin(source)
    assert (caught.value.code.name, opened) == ("PATH_REFUSED", [])


@pytest.mark.case("X55")
@pytest.mark.parametrize(
    "folder", ["..", "../project2", "/etc", "file:///etc", "a/../../x", "//h/s"]
)
def test_a_folder_of_a_connection_outside_the_roots_is_refused(house: House, folder: str) -> None:
    (house.folder / "project2").mkdir()
    assert house.error(SourceKind.CSV, "a.csv", folder).code.name == "PATH_REFUSED"


@pytest.mark.case("X55")
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("folder", "path"),
    [
        (".", "link.csv"),
        (".", "link/a.csv"),
        (".", "deep/link/a.csv"),
        (".", "**/link/a.csv"),
        (".", "**/link/**/a.csv"),
        (".", "**/link.csv"),
        ("link", "a.csv"),
        ("link", "*.csv"),
        ("link", "**/*.csv"),
        ("deep/link", "a.csv"),
    ],
)
def test_a_link_in_any_component_is_refused(
    house: House, kind: SourceKind, folder: str, path: str
) -> None:
    outside = house.folder / "outside"
    write(outside / "a.csv", kind)
    (house.root / "deep").mkdir()
    (house.root / "link.csv").symlink_to(outside / "a.csv")
    (house.root / "link").symlink_to(outside)
    (house.root / "deep/link").symlink_to(outside)
    error = house.error(kind, path, folder)
    assert (error.code.name, "leads through a link" in str(error)) == ("PATH_REFUSED", True)


@pytest.mark.case("X55")
def test_a_pattern_passes_over_links_and_folders_of_the_platform(house: House) -> None:
    outside = house.folder / "outside"
    write(outside / "secret.csv", SourceKind.CSV)
    write(house.root / "exports/a.csv", SourceKind.CSV)
    write(house.root / "state/b.csv", SourceKind.CSV)
    (house.root / "exports/b.csv").symlink_to(outside / "secret.csv")
    (house.root / "linked").symlink_to(outside)
    house.excluded = (house.root / "state",)
    (house.root / "exports/up").symlink_to(house.folder)
    for path in ("*/*.csv", "*", "**", "**/*.csv", "exports/**", "exports"):
        assert house.read(SourceKind.CSV, path) == [(1, "one")]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("_b.csv", True),
        (".b.csv", True),
        ("_b", True),
        ("_metadata.csv", True),
        ("_successful.csv", True),
        ("b.csv.crc", True),
        ("_SUCCESS", False),
        ("_metadata", False),
        ("_common_metadata", False),
        ("_committed_1", False),
        ("_started_1", False),
        (".b.csv.crc", False),
        ("_temporary/b.csv", False),
        ("_delta_log/b.csv", False),
        (".hidden/b.csv", False),
    ],
)
def test_a_folder_is_read_whole_but_for_what_writers_leave_beside_data(
    house: House, kind: SourceKind, name: str, *, is_read: bool
) -> None:
    write(house.root / "d/a.csv", kind)
    write(house.root / "d" / name, kind)
    for path in ("d", "d/*", "*", "**", "d/**"):
        assert len(house.read(kind, path)) == 1 + is_read
    assert house.read(kind, f"d/{name}") == [(1, "one")]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("root", "folder", "path"),
    [
        ("project", ".", ".datarecs/secrets/kek"),
        ("project", ".datarecs", "secrets/kek"),
        ("project", ".datarecs/secrets", "kek"),
        ("project", ".", "state/blobs/kek"),
        ("project", "state/blobs", "k*"),
        ("project", ".", "keys/kek"),
        ("project/.datarecs", ".", "secrets/kek"),
        ("project/state/blobs", ".", "kek"),
        (".", "project/state", "blobs/kek"),
        (".", ".", "project/*/blobs/kek"),
        (".", ".", "**/kek"),
        ("project", ".", "**/.datarecs/**/kek"),
        (".", ".", "project/bound/blobs/kek"),
        (".", ".", "project/hard-link"),
    ],
)
def test_folders_of_the_platform_are_closed_wherever_the_root_lies(
    tmp_path: Path, kind: SourceKind, root: str, folder: str, path: str
) -> None:
    project = tmp_path / "project"
    for place in (".datarecs/secrets/kek", "state/blobs/kek", "keys/kek"):
        write(project / place, kind, SECRET.encode())
    (project / "hard-link").hardlink_to(project / "keys/kek")
    (project / "bound").symlink_to(project / "state")

    class Placed(House):
        @property
        def root(self) -> Path:
            return tmp_path / root

    house = Placed(folder=tmp_path, excluded=(project / "state/blobs", project / "keys/kek"))
    error = house.error(kind, path, folder)
    assert error.code.name in {"PATH_REFUSED", "NO_FILES"}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "place", [".datarecs/credentials", ".datarecs/a/b/key", "state/blobs/key", "data/.datarecs/key"]
)
def test_a_hard_link_to_a_file_inside_a_folder_of_the_platform_is_refused(
    house: House, kind: SourceKind, place: str
) -> None:
    write(house.root / place, kind, SECRET.encode())
    (house.root / "d").mkdir()
    (house.root / "d/link").hardlink_to(house.root / place)
    (house.root / "data/.datarecs/blobs").mkdir(parents=True, exist_ok=True)
    house.excluded = (house.root / "state", house.root / "data/.datarecs/blobs")
    for folder, path in ((".", "d/link"), (".", "d"), ("d", "*"), (".", "**/link")):
        assert house.error(kind, path, folder).code.name == "PATH_REFUSED"


@pytest.mark.parametrize("kind", FORMATS)
def test_hard_links_between_other_folders_stay_readable_until_one_leads_inside(
    house: House, kind: SourceKind
) -> None:
    write(house.root / "a", kind)
    write(house.root / ".datarecs/key", kind)
    (house.root / "b").hardlink_to(house.root / "a")
    assert house.read(kind, "*") == [(1, "one")] * 2
    (house.root / ".datarecs/c").hardlink_to(house.root / "a")
    assert house.error(kind, "*").code.name == "PATH_REFUSED"


def test_a_hard_link_is_refused_where_a_folder_of_the_platform_holds_too_many_files(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_places, "MAX_ENTRIES", 1)
    write(house.root / "a", SourceKind.CSV)
    (house.root / "b").hardlink_to(house.root / "a")
    for name in "xyz":
        write(house.root / ".datarecs" / name, SourceKind.CSV)
    error = house.error(SourceKind.CSV, "a")
    assert (error.code.name, "copy the file" in str(error)) == ("PATH_REFUSED", True)


@pytest.mark.parametrize("root", ["project", "project/.datarecs"])
def test_an_iceberg_catalog_does_not_open_folders_of_the_platform(
    tmp_path: Path, root: str
) -> None:
    with ExitStack() as closing:
        lake = a_lake(tmp_path / "project/.datarecs", closing)
        table = lake.table("words", WORDS, ROWS)
        lake.publish_to_folder(table)
    inside = "" if root.endswith(".datarecs") else ".datarecs/"
    catalogs = (
        SqlCatalog(type=CatalogType.SQL, name="lake", sqlite=f"{inside}catalog.db"),
        HadoopCatalog(type=CatalogType.HADOOP, warehouse=f"{inside}warehouse"),
    )
    for catalog in catalogs:
        connection = Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))
        error = table_error(connection, tmp_path / root)
        assert error.code.name == "PATH_REFUSED"


@pytest.mark.parametrize("place", ["outside", "lake/.datarecs", "lake/link"])
def test_an_iceberg_table_whose_metadata_names_another_file_does_not_open_it(
    tmp_path: Path, place: str
) -> None:
    """Metadata and manifest list, each moved to where the tenant may not read."""
    (tmp_path / "outside").mkdir()
    for at, wanted in enumerate(("metadata.json", "snap-*.avro")):
        with ExitStack() as closing:
            lake = a_lake(tmp_path / f"lake{at}" / "lake", closing)
            table = lake.table("words", WORDS, ROWS)
            folder = path_at(table.location()) / "metadata"
            (file,) = list(folder.glob(f"00001-*.{wanted}" if at == 0 else wanted))[-1:]
            target = tmp_path / f"lake{at}" / place
            target.parent.mkdir(exist_ok=True)
            if place == "lake/link":
                target.symlink_to(tmp_path / "outside")
            else:
                target.mkdir(exist_ok=True)
            file.rename(target / file.name)
            named(lake, file, target / file.name)
            error = table_error(lake.connection, lake.folder)
            assert error.code.name == "PATH_REFUSED"


WORDS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "word", StringType(), required=False),
)
ROWS = pa.table({"id": pa.array([1], pa.int64()), "word": ["one"]})


def named(lake: Lake, old: Path, new: Path) -> None:
    """What names the file names its new place."""
    with lake.catalog.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE iceberg_tables SET metadata_location = replace(metadata_location, ?, ?)",
            (str(old), str(new)),
        )
    for metadata in lake.folder.rglob("*.metadata.json"):
        metadata.write_text(metadata.read_text().replace(str(old), str(new)))


def table_error(connection: Connection, root: Path) -> DatarecsError:
    around = Surroundings(roots=(root,), policy=POLICY, now=lambda: NOON)
    source = Source(name="lake", kind=SourceKind.ICEBERG, connection="c", relation="books.words")

    def read() -> None:
        connector = open_connector(source, connection, {}, surroundings=around)
        held = connector.pin(source)
        list(connector.rows(scan_of(source, connector.describe(source, held.pin), held)))

    with pytest.raises(DatarecsError) as caught:
        read()
    return caught.value


def test_a_tenant_reads_its_folder_below_a_root(tmp_path: Path) -> None:
    roots = TenantRoots(roots=(tmp_path,))
    assert roots.of(TENANT) == (tmp_path / str(TENANT),)
    assert roots.of(OTHER) == (tmp_path / str(OTHER),)


def test_roots_with_an_owner_are_closed_to_every_other_tenant(tmp_path: Path) -> None:
    roots = TenantRoots(roots=(tmp_path,), owner=TENANT)
    assert roots.of(TENANT) == (tmp_path,)
    assert roots.of(OTHER) == ()


@pytest.mark.parametrize("folder", ["..", f"../{TENANT}", "."])
def test_a_tenant_does_not_read_the_folder_of_another(tmp_path: Path, folder: str) -> None:
    write(tmp_path / str(TENANT) / "a.csv", SourceKind.CSV)
    (tmp_path / str(OTHER)).mkdir()
    around = Surroundings(
        roots=TenantRoots(roots=(tmp_path,)).of(OTHER), policy=POLICY, now=lambda: NOON
    )
    connection = Connection(type=ConnectionType.FILES, config=FilesConfig(root=folder))
    source = Source(name="s", kind=SourceKind.CSV, connection="c", path="a.csv")
    with pytest.raises(DatarecsError) as caught:
        open_connector(source, connection, {}, surroundings=around).pin(source)
    assert caught.value.code.name in {"PATH_REFUSED", "NO_FILES"}


# Changes while a file is read


def overwrite_in_place(path: Path) -> None:
    """One byte, with the time of modification set back; returns once the system has noted it."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        with path.open("r+b") as file:
            file.write(b"!")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_overwritten_in_place_with_its_time_set_back_is_lost(
    house: House, kind: SourceKind
) -> None:
    write(house.root / "a", kind)
    connector = house.connect(kind)
    held = connector.pin(Source(name="exports", kind=kind, connection="c", path="a"))
    house.opened.append(held)
    held.check()
    before = Identity.of((house.root / "a").stat())
    overwrite_in_place(house.root / "a")
    after = Identity.of((house.root / "a").stat())
    assert replace(after, changed_ns=before.changed_ns) == before
    with pytest.raises(DatarecsError) as caught:
        held.check()
    assert caught.value.code.name == "SNAPSHOT_LOST"


# What is no regular file


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.case("X56")
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("make", "word"), [(a_pipe, "a named pipe"), (a_socket, "a socket")])
def test_a_pipe_or_socket_is_refused_without_waiting(
    house: House, kind: SourceKind, make: Callable[[Path], None], word: str
) -> None:
    make(house.root / "x")
    error = house.error(kind, "x")
    assert (error.code.name, word in str(error)) == ("SOURCE_UNSUPPORTED", True)
    assert house.error(kind, "*").code.name == "NO_FILES"


@pytest.mark.case("X56")
@pytest.mark.parametrize("kind", FORMATS)
def test_devices_and_proc_are_refused_even_below_a_root_that_holds_them(
    tmp_path: Path, kind: SourceKind
) -> None:
    class Everything(House):
        @property
        def root(self) -> Path:
            return Path("/")

    house = Everything(folder=tmp_path)
    zero = house.error(kind, "zero", "dev")
    assert (zero.code.name, "a device" in str(zero)) == ("SOURCE_UNSUPPORTED", True)
    for folder, path in (
        ("proc", "self/environ"),
        (".", "proc/*/environ"),
        (".", "pro*/*/environ"),
    ):
        assert house.error(kind, path, folder).code.name in {"PATH_REFUSED", "NO_FILES"}


@pytest.mark.case("X56")
@pytest.mark.parametrize("kind", FORMATS)
def test_an_empty_folder_holds_no_files(house: House, kind: SourceKind) -> None:
    (house.root / "x").mkdir()
    assert house.error(kind, "x").code.name == "NO_FILES"


def test_folders_without_end_are_a_limit(house: House) -> None:
    (house.root / "/".join("d" * 70)).mkdir(parents=True)
    assert house.error(SourceKind.CSV, "d").code.name == "SOURCE_LIMIT"


# Pins


@pytest.mark.case("X57")
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("swap", ["link", "append", "same size", "gone", "folder link", "pipe"])
def test_a_file_that_is_another_one_after_the_pin_leaves_no_verdict(
    house: House, kind: SourceKind, swap: str
) -> None:
    path = house.root / "day/a.csv"
    write(path, kind)
    write(house.folder / "outside/a.csv", kind)
    connector = house.connect(kind)
    source = Source(name="exports", kind=kind, connection="c", path="day/a.csv")
    held = connector.pin(source)
    house.opened.append(held)
    scan = scan_of(source, connector.describe(source, held.pin), held)
    held.check()
    exchange(path, house.folder / "outside", swap)
    with pytest.raises(DatarecsError) as caught:
        held.check()
    assert caught.value.code.name == "SNAPSHOT_LOST"
    if swap != "same size":
        with pytest.raises(DatarecsError) as caught:
            list(connector.rows(scan))
        assert caught.value.code.name == "SNAPSHOT_LOST"


def exchange(path: Path, outside: Path, swap: str) -> None:
    content = path.read_bytes()
    if swap == "append":
        path.write_bytes(content + b"2,two\n")
        return
    if swap == "folder link":
        path.parent.rename(outside.parent / "moved")
        path.parent.symlink_to(outside)
        return
    path.unlink()
    if swap == "link":
        path.symlink_to(outside / "a.csv")
    elif swap == "pipe":
        os.mkfifo(path)
    elif swap == "same size":
        path.write_bytes(content[::-1])


# Compressed files


def packed(data: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.compress(data)
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("suffix", [".gz", ".zst", ".GZ"])
def test_a_compressed_file_is_read_as_the_text_in_it(
    house: House, kind: SourceKind, suffix: str
) -> None:
    data = LINES[kind]
    (house.root / f"a.csv{suffix}").write_bytes(packed(data, suffix.lower()))
    assert house.read(kind, f"a.csv{suffix}") == [(1, "one")]


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_parts_of_a_compressed_file_are_one_text_and_letters_are_preserved(
    house: House, kind: SourceKind, suffix: str
) -> None:
    line = "2,zwölf €\n" if kind is SourceKind.CSV else '{"id": 2, "word": "zwölf €"}\n'
    parts = packed(LINES[kind], suffix) + packed(line.encode(), suffix)
    (house.root / f"a.csv{suffix}").write_bytes(parts)
    write(house.root / "b.csv", kind)
    assert house.read(kind, "*") == [(1, "one"), (2, "zwölf €"), (1, "one")]


@pytest.mark.parametrize("kind", TEXTS)
def test_a_suffix_and_a_content_that_differ_are_both_named(house: House, kind: SourceKind) -> None:
    data = LINES[kind]
    cases = {
        "a.csv": (packed(data, ".gz"), "plain text", "gzip"),
        "b.csv": (packed(data, ".zst"), "plain text", "zstd"),
        "c.csv.gz": (data, "gzip", "are not those"),
        "d.csv.gz": (packed(data, ".zst"), "gzip", "zstd"),
        "e.csv.zst": (b"", "zstd", "are not those"),
    }
    for name, (content, *expected) in cases.items():
        (house.root / name).write_bytes(content)
        error = house.error(kind, name)
        assert error.code.name == "CORRUPT_SOURCE"
        assert all(word in str(error) for word in (name, *expected)), str(error)


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("damage", ["cut", "bit", "tail"])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_damaged_compressed_data_is_corrupt(
    house: House, kind: SourceKind, suffix: str, damage: str
) -> None:
    data = bytearray(packed(LINES[kind] + os.urandom(9).hex().encode(), suffix))
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "tail":
        data += b"more"
    else:
        data[-5 if suffix == ".gz" else 4] ^= 0x41
    (house.root / f"a{suffix}").write_bytes(data)
    assert house.error(kind, f"a{suffix}").code.name in {"CORRUPT_SOURCE", "SOURCE_LIMIT"}


def a_zip() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("a.csv", "id\n1\n")
    return target.getvalue()


@pytest.mark.case("X62")
@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize(
    ("content", "word"),
    [
        (a_zip(), "zip"),
        (b"7z\xbc\xaf\x27\x1c" + bytes(30), "7z"),
        (bytes(257) + b"ustar\x0000" + bytes(300), "tar"),
        (b"\xfd7zXZ\x00" + bytes(30), "xz"),
        (b"BZh91AY&SY" + bytes(30), "bzip2"),
        (b"%PDF-1.7\n", "PDF"),
        (b"SQLite format 3\x00" + bytes(30), "SQLite"),
        (pickle.dumps({"id": SECRET}), "pickle"),
        (b"PAR1\x15\x04" + bytes(30), "Parquet"),
    ],
)
def test_another_format_is_refused_by_name(
    house: House, kind: SourceKind, content: bytes, word: str
) -> None:
    (house.root / "a.csv").write_bytes(content)
    error = house.error(kind, "a.csv")
    assert (error.code.name, word in str(error)) == ("SOURCE_UNSUPPORTED", True), str(error)
    (house.root / "b.csv.gz").write_bytes(packed(content, ".gz"))
    assert word in str(house.error(kind, "b.csv.gz"))


@pytest.mark.case("X62")
def test_a_pickle_beside_or_as_a_file_runs_nothing(house: House) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.mkdir, (str(house.folder / "ran"),))

    for name in ("a.parquet", "b.csv", "c.jsonl"):
        (house.root / name).write_bytes(pickle.dumps(Evil()))
    for kind, name in zip(
        (SourceKind.PARQUET, *TEXTS), ("a.parquet", "b.csv", "c.jsonl"), strict=True
    ):
        assert house.error(kind, name).code.name in {"CORRUPT_SOURCE", "SOURCE_UNSUPPORTED"}
    assert not (house.folder / "ran").exists()


@pytest.mark.case("X58")
@pytest.mark.parametrize("kind", TEXTS)
def test_what_unpacks_to_more_than_the_limit_is_refused(house: House, kind: SourceKind) -> None:
    (house.root / "a.gz").write_bytes(packed(LINES[kind] * 100, ".gz"))
    error = house.error(kind, "a.gz", limits=Limits(max_bytes=300))
    assert (error.code.name, "max_bytes" in str(error)) == ("SOURCE_LIMIT", True)


BOMB = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_file_sources import House, SourceKind
house = House(folder=Path({folder!r}))
print(house.error(SourceKind({kind!r}), {name!r}).code.name)
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
write = __import__("test_file_sources").write
write(house.root / "next", SourceKind({kind!r}))
print(len(house.read(SourceKind({kind!r}), "next")))
"""


def bomb_read(house: House, kind: SourceKind, name: str) -> tuple[str, int, int]:
    """Code, MiB at most, and rows that the next read in the same process delivers."""
    tests = str(Path(__file__).parent)
    script = BOMB.format(tests=tests, folder=str(house.folder), kind=kind.value, name=name)
    done = subprocess.run(  # noqa: PLW1510  the output says what went wrong
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    code, memory, rows = done.stdout.split()
    return code, int(memory), int(rows)


@pytest.mark.case("X58")
@pytest.mark.parametrize("kind", TEXTS)
def test_a_gzip_bomb_is_a_limit_in_little_memory(house: House, kind: SourceKind) -> None:
    """About 1028 : 1, one GiB."""
    head = b"id,word\n" if kind is SourceKind.CSV else b""
    part = gzip.compress((b" " * 1024 * 1023 + b"\n") * 16)
    (house.root / "a.gz").write_bytes(gzip.compress(head) + part * 64)
    code, memory, rows = bomb_read(house, kind, "a.gz")
    assert (code, rows) == ("SOURCE_LIMIT", 1)
    assert memory < MEMORY_MIB


@pytest.mark.case("X58")
@pytest.mark.parametrize("kind", TEXTS)
def test_a_zstd_window_that_takes_gigabytes_is_a_limit(house: House, kind: SourceKind) -> None:
    header = bytes.fromhex("28b52ffd") + bytes([0x00, (31 - 10) << 3])
    (house.root / "a.zst").write_bytes(header + bytes([0x01, 0x00, 0x00]))
    assert house.error(kind, "a.zst").code.name == "SOURCE_LIMIT"


@pytest.mark.case("X58")
@pytest.mark.parametrize("bomb", ["pages", "dictionary"])
def test_a_parquet_bomb_is_a_limit_in_little_memory(house: House, bomb: str) -> None:
    """Half a GiB in 0.1 MB of pages; 20 GiB in 1 MB, of which the footer says 1 MB."""
    value = "x" * 1024 * 1024
    path = house.root / "a.parquet"
    if bomb == "pages":
        table = pa.table({"id": range(16), "word": [value] * 16})
        with pq.ParquetWriter(path, table.schema, compression="zstd", use_dictionary=False) as out:
            for _ in range(32):
                out.write_table(table)
    else:
        word = pa.DictionaryArray.from_arrays(pa.array([0] * 20_480, pa.int32()), pa.array([value]))
        table = pa.table({"id": range(20_480), "word": word})
        pq.write_table(
            table, path, compression="none", dictionary_pagesize_limit=1 << 24, store_schema=False
        )
    assert path.stat().st_size < 2 * 1024 * 1024
    code, memory, rows = bomb_read(house, SourceKind.PARQUET, "a.parquet")
    assert (code, rows) == ("SOURCE_LIMIT", 1)
    assert memory < MEMORY_MIB


def test_a_long_value_that_repeats_is_read_in_small_batches(house: House) -> None:
    """Below every limit, and 2 GiB if a batch were decoded at once."""
    word = pa.DictionaryArray.from_arrays(
        pa.array([0] * 60 + [1] * 2_000, pa.int32()), pa.array(["x" * 1024 * 1024, "y"])
    )
    table = pa.table(
        {"id": range(2_060), "word": word, "noise": [os.urandom(500) for _ in range(2_060)]}
    )
    pq.write_table(table, house.root / "a.parquet", store_schema=False)
    rows = house.read(SourceKind.PARQUET, "a.parquet")
    assert [len(str(row[1])) for row in rows] == [1024 * 1024] * 60 + [1] * 2_000


# Parquet with false metadata


def a_parquet(*, checksums: bool = True) -> bytes:
    target = io.BytesIO()
    texts = [f"{SECRET}-{number}" for number in range(1_000)]
    table = pa.table({"id": range(1_000), "word": texts})
    pq.write_table(table, target, compression="none", write_page_checksum=checksums)
    return target.getvalue()


def with_footer(data: bytes, length: int) -> bytes:
    return data[:-8] + struct.pack("<I", length) + data[-4:]


def varint(number: int) -> bytes:
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def from_footer(footer: bytes) -> bytes:
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def hostile_parquet() -> Iterator[tuple[str, bytes]]:
    good = a_parquet()
    (length,) = struct.unpack("<I", good[-8:-4])
    yield "footer beyond the file", with_footer(good, length * 1_000)
    yield "footer too short", with_footer(good, length - 30)
    yield "footer of length 0", with_footer(good, 0)
    yield "truncated", good[:-50]
    yield "cut in front", good[200:]
    yield "empty", b""
    yield "only magic", b"PAR1PAR1"
    yield (
        "page with another checksum",
        good.replace(f"{SECRET}-500".encode(), f"{SECRET}-5x0".encode(), 1),
    )
    yield "list of 10^9", from_footer(b"\x15\x02\x19\xfc" + varint(10**9))
    yield "text of 2 GB", from_footer(b"\x15\x02\x19\x1c\x48" + varint(2 * 10**9) + b"x")
    yield "CSV", LINES[SourceKind.CSV]


@pytest.mark.case("X59")
@pytest.mark.parametrize(("what", "data"), list(hostile_parquet()), ids=lambda one: str(one)[:30])
def test_a_parquet_file_that_lies_is_corrupt_or_a_limit(
    house: House, what: str, data: bytes
) -> None:
    (house.root / "a.parquet").write_bytes(data)
    error = house.error(SourceKind.PARQUET, "a.parquet")
    assert error.code.name in {"CORRUPT_SOURCE", "SOURCE_LIMIT"}, what
    assert "a.parquet" in str(error)


@pytest.mark.case("X59")
def test_fifty_thousand_columns_are_a_limit(house: House) -> None:
    table = pa.table([pa.array([1], pa.int8())] * 50_000, names=[f"c{at}" for at in range(50_000)])
    pq.write_table(table, house.root / "a.parquet", write_statistics=False, use_dictionary=False)
    error = house.error(SourceKind.PARQUET, "a.parquet")
    assert (error.code.name, "50000 columns" in str(error)) == ("SOURCE_LIMIT", True)


# Text that is none


@pytest.mark.case("X60")
@pytest.mark.parametrize("kind", TEXTS)
def test_a_nul_byte_is_named_with_file_and_line(house: House, kind: SourceKind) -> None:
    line = b"2,a\0b\n" if kind is SourceKind.CSV else b'{"id": 2, "word": "a\0b"}\n'
    write(house.root / "a.csv", kind, LINES[kind] + line)
    number = 3 if kind is SourceKind.CSV else 2
    error = house.error(kind, "a.csv")
    assert error.code.name == "CORRUPT_SOURCE"
    assert f"a.csv line {number} contains a NUL byte" in str(error)


@pytest.mark.case("X60")
@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize(
    ("encoding", "fix"),
    [
        ("utf-16-le", "options.encoding: utf-16le"),
        ("utf-16-be", "options.encoding: utf-16be"),
        ("utf-32", "iconv"),
    ],
)
def test_text_in_another_encoding_is_refused_with_what_to_do(
    house: House, kind: SourceKind, encoding: str, fix: str
) -> None:
    write(house.root / "a.csv", kind, LINES[kind].decode().encode(encoding))
    error = house.error(kind, "a.csv")
    assert error.code.name == "CORRUPT_SOURCE"
    assert "UTF-" in str(error)
    assert fix in str(error)


@pytest.mark.case("X60")
def test_a_csv_quote_without_end_and_a_long_line_are_named_with_their_line(house: House) -> None:
    write(house.root / "q.csv", SourceKind.CSV, b'id,word\n1,one\n2,"two\n3,three\n')
    quote = house.error(SourceKind.CSV, "q.csv")
    assert (quote.code.name, "q.csv line 3" in str(quote)) == ("CORRUPT_SOURCE", True)
    ten = b"x" * 10_000_000
    write(house.root / "ten.csv", SourceKind.CSV, b"id,word\n1," + ten + b"\n")
    ((_, word),) = house.read(SourceKind.CSV, "ten.csv")
    assert len(str(word)) == len(ten)
    write(house.root / "long.csv", SourceKind.CSV, b"id,word\n1,one\n2," + 2 * ten + b"\n")
    error = house.error(SourceKind.CSV, "long.csv")
    assert (error.code.name, "long.csv line 3" in str(error)) == ("SOURCE_LIMIT", True)
    write(house.root / "head.csv", SourceKind.CSV, 2 * ten)
    assert house.error(SourceKind.CSV, "head.csv").code.name in {"SOURCE_LIMIT", "CORRUPT_SOURCE"}


@pytest.mark.case("X60")
def test_a_csv_of_two_encodings_has_invalid_values_and_a_header_in_another_is_corrupt(
    house: House,
) -> None:
    write(house.root / "a.csv", SourceKind.CSV, "id,wört\n1,zwölf\n".encode() + b"2,zw\xf6lf\n")
    assert house.read(SourceKind.CSV, "a.csv")[0] == (1, "zwölf")
    write(house.root / "b.csv", SourceKind.CSV, b"id,w\xf6rt\n1,one\n")
    error = house.error(SourceKind.CSV, "b.csv")
    assert (error.code.name, "line 1" in str(error)) == ("CORRUPT_SOURCE", True)


def test_an_empty_csv_and_a_mark_alone_say_that_the_header_is_missing(house: House) -> None:
    for name, content in (("a.csv", b""), ("b.csv", b"\xef\xbb\xbf"), ("c.csv", b"\xef\xbb\xbf\n")):
        write(house.root / name, SourceKind.CSV, content)
        error = house.error(SourceKind.CSV, name)
        assert (error.code.name, "write a header line" in str(error)) == ("CORRUPT_SOURCE", True)


@pytest.mark.parametrize("kind", [SourceKind.CSV, SourceKind.PARQUET])
def test_files_with_columns_in_another_order_are_read_by_name(
    house: House, kind: SourceKind
) -> None:
    if kind is SourceKind.CSV:
        write(house.root / "a", kind, b"id,word\n1,one\n")
        write(house.root / "b", kind, b"word,id\ntwo,2\n")
    else:
        pq.write_table(pa.table({"id": [1], "word": ["one"]}), house.root / "a")
        pq.write_table(pa.table({"word": ["two"], "id": [2]}), house.root / "b")
    assert house.read(kind, "*") == [(1, "one"), (2, "two")]


@pytest.mark.parametrize("kind", FORMATS)
def test_files_with_other_columns_name_both_files_and_the_columns(
    house: House, kind: SourceKind
) -> None:
    write(house.root / "a", kind)
    if kind is SourceKind.PARQUET:
        pq.write_table(pa.table({"id": [1], "wort": ["eins"]}), house.root / "b")
    else:
        lines = {
            SourceKind.CSV: b"id,wort\n1,eins\n",
            SourceKind.JSON: b'{"id": 1, "wort": "eins"}\n',
        }
        write(house.root / "b", kind, lines[kind])
    error = house.error(kind, "*")
    assert error.code.name == "SCHEMA_CHANGED"
    expected = (
        ["a and b"] if kind is SourceKind.JSON else ["a and b", "missing 'word'", "added 'wort'"]
    )
    assert all(words in str(error) for words in expected), str(error)


# Values in errors


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (SourceKind.CSV, f"id,word\n1,{SECRET},more\n"),
        (SourceKind.CSV, f'id,word\n1,"{SECRET}\n'),
        (SourceKind.CSV, f'id,word\n1,"a"{SECRET}\n'),
        (SourceKind.CSV, f"id,word\n{SECRET}\n"),
        (SourceKind.CSV, f"id,word\n1,{SECRET}\0\n"),
        (SourceKind.JSON, f"{SECRET}\n"),
        (SourceKind.JSON, f'{{"id": "{SECRET}"\n'),
        (SourceKind.JSON, f'{{"id": 1, "id": "{SECRET}"}}\n'),
        (SourceKind.JSON, f'["{SECRET}"]\n'),
        (SourceKind.JSON, f'{{"id": {SECRET}}}\n'),
        (SourceKind.PARQUET, f"PAR1{SECRET}PAR1"),
        (SourceKind.CSV, f"{SECRET},4711\n\xff{SECRET}\n"),
    ],
)
def test_no_error_holds_a_value_of_its_file_nor_has_a_cause_that_does(
    house: House, kind: SourceKind, content: str
) -> None:
    (house.root / "a").write_text(content)
    error: BaseException | None = house.error(kind, "a")
    while error is not None:
        assert SECRET not in str(error)
        assert SECRET not in str(getattr(error, "doc", ""))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_a_file_without_a_header_shows_no_value_as_the_name_of_a_column(house: House) -> None:
    write(house.root / "a", SourceKind.CSV, f"1,{SECRET}\n".encode())
    write(house.root / "b", SourceKind.CSV, f"2,{SECRET}-2\n".encode())
    error = house.error(SourceKind.CSV, "*")
    assert (error.code.name, "header line" in str(error)) == ("SCHEMA_CHANGED", True)
