"""What a source of an earlier time can make a worker open: files of its path, below its root.

The list of files comes from a catalogue and the path from a job; neither leads out of the root.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from datarecs_connectors.catalogued_files import CataloguedTree
from datarecs_connectors.errors import PathRefusedError, QueryFailedError, SnapshotLostError
from datarecs_connectors.file_tree import FileTree
from datarecs_core.captures.catalogued import CataloguedFile, CataloguedTable
from datarecs_core.comparison.planning.scan import CataloguedSnapshot
from datarecs_core.resources.object_urls import ObjectUrl
from datarecs_testing.builders import an_id

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECRET = "secret.csv"
HOSTILE = (
    *("../secret.csv", "orders/../../secret.csv", "./../secret.csv", "orders/.././../secret.csv"),
    *("..", "orders/..", "orders/../*", "link/secret.csv", "orders/link.csv", "[.][.]/secret.csv"),
    *("s3://lake/../secret.csv", "file:../secret.csv", "//host/secret.csv", "C:/secret.csv"),
    *("orders/%2e%2e/%2e%2e/secret.csv", "orders\\..\\secret.csv", "\0/secret.csv"),
)


@dataclass(frozen=True)
class House:
    """A root with a table, a secret beside the root, and links to it."""

    root: Path

    def tree(self, files: Sequence[str], root: ObjectUrl | None = None) -> CataloguedTree:
        """With these files in the catalogue, sizes and etags of what is there now."""
        tree = FileTree(source="s", root=self.root, now=lambda: NOON)
        listed = {file.path: file for file in tree.listing("orders")}
        snapshot = CataloguedSnapshot(table_id=an_id(), snapshot_id=1, committed_at=NOON)
        table = CataloguedTable(
            table_id=snapshot.table_id,
            name="orders",
            as_of=snapshot,
            files=tuple(
                CataloguedFile(
                    path=name,
                    size_bytes=listed[name].size_bytes if name in listed else 5,
                    etag=listed[name].etag if name in listed else "e",
                )
                for name in files
            ),
        )
        return CataloguedTree(tree=tree, table=table, root=root)


@pytest.fixture
def house(tmp_path: Path) -> House:
    root = tmp_path / "root"
    (root / "orders").mkdir(parents=True)
    (tmp_path / SECRET).write_text("id\n1\n")
    (root / "orders/a.csv").write_text("id\n1\n")
    (root / "orders/link.csv").symlink_to(tmp_path / SECRET)
    (root / "link").symlink_to(tmp_path)
    return House(root)


@pytest.mark.parametrize("path", HOSTILE)
def test_no_path_of_a_source_leads_out_of_the_root(house: House, path: str) -> None:
    with pytest.raises((PathRefusedError, QueryFailedError, SnapshotLostError)) as refused:
        house.tree(["orders/a.csv", *HOSTILE]).pin(path)
    assert "id" not in str(refused.value).split()


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_of_a_catalogue_leads_out_of_the_root(house: House, name: str) -> None:
    for path in ("orders/", "*", "."):
        tree = house.tree(["orders/a.csv", name])
        try:
            held = tree.pin(path)
        except SnapshotLostError:
            continue
        held.close()
        assert [file.path for file in held.pin.files] == ["orders/a.csv"]


@pytest.mark.parametrize(
    "path",
    ["s3://lake/other/orders/", "s3://rake/ex/orders/", "s3://lake/ex/../orders", "gs://lake/ex/o"],
)
def test_an_address_of_another_place_is_refused(house: House, path: str) -> None:
    tree = house.tree(["orders/a.csv"], ObjectUrl.parse("s3://lake/ex"))
    with pytest.raises(PathRefusedError):
        tree.pin(path)
