import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from datarecs_application.ports.outside import BlobStore, BlobStores
from datarecs_core.errors.storage import (
    BlobCorruptError,
    BlobNotFoundError,
    BlobStoreUnavailableError,
)
from datarecs_storage.blobs import FileBlobStores
from datarecs_storage.disk import Disk
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.conformance.blob_store import KEY, ROOT, TENANT, BlobStoreConformance


class TestFileBlobStore(BlobStoreConformance):
    @pytest.fixture
    def stores(self, tmp_path: Path) -> BlobStores:
        return open_blob_stores((tmp_path / "blobs").as_uri())


def a_store(root: Path, disk: Disk | None = None) -> BlobStore:
    return FileBlobStores(root, disk=disk).of(TENANT)


@pytest.mark.case("S18")
def test_one_flipped_byte_on_disk_is_noticed_on_reading(tmp_path: Path) -> None:
    sha = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of "hello"
    key = f"{ROOT}account/{sha}.pb"
    store = a_store(tmp_path)
    store.put(key, b"hello")
    (tmp_path / key).write_bytes(b"hellp")
    with pytest.raises(BlobCorruptError):
        store.get(key)


class Died(Exception):  # noqa: N818  an event of the test, no error of ours
    pass


class ForgetfulDisk(Disk):
    """A disk that dies at its n-th step, and after a power cut knows only what was synced.

    A name survives when its folder was synced while it was there, bytes when their file was.
    """

    def __init__(self, *, dies_at: int) -> None:
        self._steps_left = dies_at
        self._synced_files: set[int] = set()
        self._synced_names: set[Path] = set()

    def sync_file(self, descriptor: int) -> None:
        self._step()
        self._synced_files.add(os.fstat(descriptor).st_ino)

    def sync_folder(self, folder: Path) -> None:
        self._step()
        self._synced_names.update(folder.iterdir())

    def replace(self, temporary: Path, final: Path) -> None:
        self._step()
        super().replace(temporary, final)

    def link_new(self, temporary: Path, final: Path) -> None:
        self._step()
        super().link_new(temporary, final)

    def power_loss(self, root: Path) -> None:
        for path in sorted(root.rglob("*")):
            if path.exists() and path not in self._synced_names:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            elif path.is_file() and path.stat().st_ino not in self._synced_files:
                path.write_bytes(b"")

    def _step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise Died


@pytest.mark.case("S49")
@pytest.mark.parametrize("write", ["put", "put_new"])
def test_after_a_power_cut_a_blob_is_whole_or_absent_and_what_returned_is_there(
    tmp_path: Path, write: str
) -> None:
    finished = False
    for dies_at in range(100):
        root = tmp_path / str(dies_at)
        root.mkdir()
        disk = ForgetfulDisk(dies_at=dies_at)
        try:
            getattr(a_store(root, disk), write)(KEY, b"whole")
            finished = True
        except Died:
            pass
        disk.power_loss(root)
        survived = a_store(root).head(KEY)
        assert survived is None or a_store(root).get(KEY) == b"whole"
        if finished:
            assert survived is not None
            return
    raise AssertionError("the write never finished")


def test_a_removed_folder_does_not_return_after_a_power_cut(tmp_path: Path) -> None:
    """Retention removes the row of a run after its artefacts."""
    synced = []

    class ObservedDisk(Disk):
        def sync_folder(self, folder: Path) -> None:
            super().sync_folder(folder)
            synced.append((folder, sorted(one.name for one in folder.iterdir())))

    store = a_store(tmp_path, ObservedDisk())
    store.put(KEY, b"x")
    synced.clear()
    store.delete_prefix(ROOT)
    assert synced == [((tmp_path / ROOT).parent, [])]
    store.delete_prefix(ROOT)
    assert len(synced) == 1


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    for dies_at in range(3):
        with pytest.raises(Died):
            a_store(tmp_path, ForgetfulDisk(dies_at=dies_at)).put(KEY, b"x")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_half_written_file_of_a_killed_process_is_never_listed(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.put(KEY, b"x")
    (tmp_path / KEY).with_name("#tmp1234").write_bytes(b"half")
    assert [info.key for info in store.list(ROOT)] == [KEY]


@pytest.mark.parametrize("make", [os.symlink, lambda _target, path: os.mkfifo(path)])
def test_links_and_pipes_put_there_by_others_are_no_blobs(
    tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "secret").write_text("s3cr3t")
    store = a_store(tmp_path)
    store.put(KEY, b"x")
    place = (tmp_path / KEY).with_name("evidence")
    make(tmp_path / "secret", place)
    key = str(place.relative_to(tmp_path))
    with pytest.raises((BlobNotFoundError, BlobStoreUnavailableError)):
        store.get(key)
    assert store.head(key) is None
    assert [info.key for info in store.list(ROOT)] == [KEY]


def test_a_disk_that_is_full_is_reported_as_such_and_nothing_is_visible(tmp_path: Path) -> None:
    class FullDisk(Disk):
        def sync_file(self, descriptor: int) -> None:  # noqa: ARG002  as on any disk
            raise OSError(28, "No space left on device")

    with pytest.raises(BlobStoreUnavailableError, match="No space left"):
        a_store(tmp_path, FullDisk()).put(KEY, b"x")
    assert a_store(tmp_path).head(KEY) is None


def test_a_volume_that_does_not_distinguish_upper_from_lower_case_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "exists", lambda _path: True)
    with pytest.raises(BlobStoreUnavailableError, match="upper and lower"):
        open_blob_stores(tmp_path.as_uri())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["file://host/x", "file:relative", "memory:", "ftp://host/x", ""])
def test_a_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(BlobStoreUnavailableError):
        open_blob_stores(url)


def test_a_folder_with_a_space_in_its_name_is_read_by_its_url(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    open_blob_stores(folder.as_uri()).of(TENANT).put(KEY, b"x")
    assert (folder / KEY).read_bytes() == b"x"


def test_blobs_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    a_store(tmp_path).put(KEY, b"x")
    assert (tmp_path / KEY).stat().st_mode & 0o077 == 0
    assert (tmp_path / "accounts").stat().st_mode & 0o077 == 0
