"""The tree on the page about captures is the one that a capture of this folder really has."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

from datarecs_cli.capture_screens import tree_lines
from datarecs_cli.output import UNICODE
from datarecs_core.captures.items import CaptureJobId, WorkItem
from datarecs_core.captures.request import CapturePolicy, Output
from datarecs_core_api.capture_outputs import JobViews
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import SystemClock
from datarecs_testing.builders import A_TENANT
from datarecs_testing.capture_house import CaptureHouse
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.conformance.stores import Actor, Stores

if TYPE_CHECKING:
    from datarecs_cli.client import Json

PAGE = (Path(__file__).parents[2] / "docs/howto/capture.md").read_text(encoding="utf-8")
STATS = (Output.TABLE_STATS, Output.COLUMN_STATS, Output.FILE_STATS)


class _Stores:
    """What a house uses of the stores."""

    def __init__(self) -> None:
        store = MemoryStore(ManualClock(), FixedIds())
        self.api = Actor(unit=MemoryUnitOfWork(store), finder=MemoryWorkFinder(store))
        self.capture = self.api


def test_the_tree_of_the_page_is_real(tmp_path: Path) -> None:
    root, reports = tmp_path / "lake", tmp_path / "reports"
    for folder in (root, reports):
        folder.mkdir()
    house = CaptureHouse(
        stores=cast("Stores", _Stores()),
        blobs=MemoryBlobStores(SystemClock()),
        root=root,
        reports=reports,
    )
    house.write("orders.parquet", id=[1], amount=[2.5])
    for number in range(12):
        house.write(f"customers/part-{number}.parquet", id=[number], name=["a"])
    shown = PAGE.split("`datarecs capture tree JOB`")[1].split("```")[1].strip()
    assert _stable(_tree(house)) == _stable(shown.splitlines())


def _tree(house: CaptureHouse) -> list[str]:
    capture = house.capture(policy=CapturePolicy(outputs=STATS))
    with house.unit.begin(A_TENANT, read_only=True) as tx:
        views = JobViews(tx)
        items = [views.at_depth(item, top=capture) for item in _items(house, capture.id)]
    jobs = [cast("Json", json.loads(one.model_dump_json())) for one in items]
    return list(tree_lines(jobs, UNICODE))


def _items(house: CaptureHouse, root: CaptureJobId) -> list[WorkItem]:
    return [house.item(root), *house.below(root)]


def _stable(lines: list[str]) -> list[str]:
    """Without the name of the connection, which the house chooses, and the ids of snapshots."""
    text = "\n".join(lines).replace("PLAN_CONNECTOR exports ", "PLAN_CONNECTOR lake ")
    return re.sub(r"snapshot \d+", "snapshot N", text).splitlines()
