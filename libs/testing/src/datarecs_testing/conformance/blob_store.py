"""Conformance suite of BlobStore, with several processes that share it."""

import hashlib
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from datarecs_application.ports.outside import BlobStore, BlobStores
from datarecs_core.catalog import layout
from datarecs_core.errors.storage import (
    BlobConflictError,
    BlobCorruptError,
    BlobKeyRefusedError,
    BlobNotFoundError,
    BlobStoreUnavailableError,
)
from datarecs_core.values import RunId, TenantId
from datarecs_testing.threads import Work, at_once

TENANT = TenantId(UUID("019b0000-0000-7000-8000-000000000001"))
OTHER = TenantId(UUID("019b0000-0000-7000-8000-000000000002"))
RUN = RunId(UUID("019bc0ef-2a10-7d44-9b6f-0c1d2e3f4a5b"))
ROOT = f"accounts/{TENANT}/"
KEY = layout.run_document(TENANT, RUN)
FOREIGN = layout.run_document(OTHER, RUN)


class BlobStoreConformance:
    """Subclass it and provide the fixture `stores`: empty ones."""

    @pytest.fixture
    def store(self, stores: BlobStores) -> BlobStore:
        return stores.of(TENANT)

    @pytest.mark.parametrize("data", [b"", b"x", b"\x00\xff" * 3_000_000], ids=["0", "1", "6 MB"])
    def test_what_was_put_is_what_is_got(self, store: BlobStore, data: bytes) -> None:
        info = store.put(KEY, data)
        assert store.get(KEY) == data
        assert (info.key, info.size_bytes) == (KEY, len(data))
        assert info.sha256 == hashlib.sha256(data).hexdigest()
        assert info.last_modified.utcoffset() is not None

    def test_a_second_put_replaces_and_changes_the_etag(self, store: BlobStore) -> None:
        first = store.put(KEY, b"first")
        second = store.put(KEY, b"other")
        assert store.get(KEY) == b"other"
        assert first.etag != second.etag
        head = store.head(KEY)
        assert head is not None
        assert (head.etag, head.size_bytes) == (second.etag, 5)

    @pytest.mark.case("S50")
    def test_a_create_only_put_succeeds_again_with_equal_bytes_alone(
        self, store: BlobStore
    ) -> None:
        key = layout.result_file(TENANT, RUN, 1)
        first = store.put_new(key, b"first")
        again = store.put_new(key, b"first")
        assert (first.key, first.size_bytes) == (again.key, again.size_bytes)
        with pytest.raises(BlobConflictError):
            store.put_new(key, b"other")
        assert store.get(key) == b"first"

    @pytest.mark.case("S50")
    def test_of_many_that_create_one_name_at_once_exactly_one_wins(self, store: BlobStore) -> None:
        outcomes: list[bytes | None] = []

        def create(data: bytes) -> None:
            try:
                store.put_new(KEY, data)
            except BlobConflictError:
                outcomes.append(None)
            else:
                outcomes.append(data)

        at_once([partial(create, bytes([number]) * 1000) for number in range(8)])
        (winner,) = [outcome for outcome in outcomes if outcome is not None]
        assert store.get(KEY) == winner
        assert len(outcomes) == 8

    def test_a_reader_never_sees_half_a_write(self, store: BlobStore) -> None:
        whole = [bytes([n]) * 100_000 for n in range(4)]
        store.put(KEY, whole[0])
        seen: set[bytes] = set()

        def read() -> None:
            seen.update(store.get(KEY) for _ in range(50))

        def write() -> None:
            for data in whole * 5:
                store.put(KEY, data)

        at_once([read, write, read, write])
        assert seen <= set(whole)

    def test_a_file_is_stored_whole(self, store: BlobStore, tmp_path: Path) -> None:
        data = bytes(range(256)) * 10_000
        (tmp_path / "part.parquet").write_bytes(data)
        info = store.put_file(KEY, str(tmp_path / "part.parquet"))
        assert store.get(KEY) == data
        assert info.sha256 == hashlib.sha256(data).hexdigest()

    def test_a_file_that_is_not_there_stores_nothing(
        self, store: BlobStore, tmp_path: Path
    ) -> None:
        with pytest.raises(BlobStoreUnavailableError):
            store.put_file(KEY, str(tmp_path / "gone"))
        assert store.head(KEY) is None

    def test_what_is_absent_is_reported_as_such(self, store: BlobStore) -> None:
        for read in (store.get, lambda key: store.get_range(key, 0, 1)):
            with pytest.raises(BlobNotFoundError):
                read(KEY)
        assert store.head(KEY) is None
        assert list(store.list(ROOT)) == []

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [(0, 3, b"012"), (3, 3, b""), (8, 99, b"89"), (99, 100, b""), (5, 2, b"")],
    )
    def test_a_range_is_half_open_and_ends_with_the_blob(
        self, store: BlobStore, start: int, end: int, expected: bytes
    ) -> None:
        store.put(KEY, b"0123456789")
        assert store.get_range(KEY, start, end) == expected

    @pytest.mark.case("S18")
    def test_bytes_that_are_not_those_their_name_promises_are_corrupt(
        self, store: BlobStore
    ) -> None:
        good = hashlib.sha256(b"good").hexdigest()
        key = f"{ROOT}tables/t1/table/{good}.pb"
        assert store.put(key, b"good").etag == good
        assert store.get(key) == b"good"
        store.put(key, b"gooe")
        with pytest.raises(BlobCorruptError) as fault:
            store.get(key)
        assert fault.value.key == key

    def test_a_list_is_in_the_order_of_whole_keys(self, store: BlobStore) -> None:
        names = ["a/x", "a-b", "a.b", "a=1/y", "a0", "A", "b/c/d/e", "a%20/z", "~f", "a/x0"]
        keys = [f"{ROOT}runs/{name}" for name in names]
        for key in keys:
            store.put(key, key.encode())
        listed = list(store.list(f"{ROOT}runs/"))
        assert [info.key for info in listed] == sorted(keys)
        assert [info.size_bytes for info in listed] == [len(key) for key in sorted(keys)]

    @pytest.mark.case("S11")
    def test_a_prefix_lists_no_sibling(self, store: BlobStore) -> None:
        odd = [layout.segment(name) for name in ("50%_/x", "..", "~t", "ü 🦆", "x" * 255)]
        keys = [f"{ROOT}runs/{name}/part" for name in odd if name != "%2E%2E"]
        for key in keys:
            store.put(key, b"")
        for key in keys:
            folder = key.removesuffix("part")
            assert [info.key for info in store.list(folder)] == [key]
        assert list(store.list(f"{ROOT}run/")) == []

    def test_deleting_what_is_absent_is_success(self, store: BlobStore) -> None:
        store.put(KEY, b"x")
        for _ in range(2):
            store.delete(KEY)
        assert store.head(KEY) is None
        store.delete_prefix(f"{ROOT}runs/nothing/")

    def test_a_deleted_prefix_takes_everything_below_and_nothing_beside(
        self, store: BlobStore
    ) -> None:
        remaining = [f"{ROOT}runs/1-0/x", f"{ROOT}runs/10/x"]
        for key in [f"{ROOT}runs/1/x", f"{ROOT}runs/1/y/z", *remaining]:
            store.put(key, b"")
        store.delete_prefix(f"{ROOT}runs/1/")
        assert [info.key for info in store.list(ROOT)] == remaining
        store.put(f"{ROOT}runs/1/x", b"again")
        assert store.get(f"{ROOT}runs/1/x") == b"again"

    @pytest.mark.case("S14")
    @pytest.mark.case("X08")
    @pytest.mark.parametrize(
        "key",
        [
            FOREIGN,
            f"{ROOT}../{OTHER}/runs/x",
            f"{ROOT}%2e%2e/x",
            f"{ROOT}%2E%2E/x",
            FOREIGN.replace("accounts", "Accounts"),
            str(KEY).replace("b", "B"),
            f"/{KEY}",
        ],
    )
    def test_a_key_of_another_account_or_spelling_is_refused_by_every_method(
        self, stores: BlobStores, key: str, tmp_path: Path
    ) -> None:
        stores.of(OTHER).put(FOREIGN, b"theirs")
        tenant_store = stores.of(TENANT)
        file = tmp_path / "file"
        file.write_bytes(b"mine")
        attempts: list[Work] = [
            lambda: tenant_store.get(key),
            lambda: tenant_store.get_range(key, 0, 1),
            lambda: tenant_store.head(key),
            lambda: tenant_store.put(key, b"mine"),
            lambda: tenant_store.put_new(key, b"mine"),
            lambda: tenant_store.put_file(key, str(file)),
            lambda: tenant_store.delete(key),
            lambda: tenant_store.delete_prefix(f"{key}/"),
            lambda: list(tenant_store.list(f"{key}/")),
        ]
        for attempt in attempts:
            with pytest.raises(BlobKeyRefusedError):
                attempt()
        assert stores.of(OTHER).get(FOREIGN) == b"theirs"

    def test_a_prefix_without_its_slash_is_refused(self, store: BlobStore) -> None:
        for attempt in (lambda: list(store.list(ROOT[:-1])), lambda: store.delete_prefix("")):
            with pytest.raises(BlobKeyRefusedError):
                attempt()

    def test_writing_and_deleting_a_folder_at_once_loses_no_later_write(
        self, store: BlobStore
    ) -> None:
        folder = layout.run_prefix(TENANT, RUN)

        def write() -> None:
            for number in range(30):
                store.put(f"{folder}deep/er/{number}", b"x")

        def sweep() -> None:
            for _ in range(30):
                try:
                    store.delete_prefix(folder)
                except BlobStoreUnavailableError:
                    continue  # writers were faster; the sweep repeats

        at_once([write, sweep, write])
        store.put(KEY, b"after")
        assert store.get(KEY) == b"after"

    def test_create_only_is_what_it_says_it_can(self, store: BlobStore) -> None:
        can = store.capabilities()
        assert can.create_only
        assert can.max_put_bytes >= 5 * 1024**3
