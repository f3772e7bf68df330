"""Every annotation that a page or a message tells people to set may be set."""

import re
from pathlib import Path

from datarecs_core.resources.annotations import KINDS
from datarecs_core.resources.reconciling import DRAIN_SINK, IN_USE
from datarecs_core.resources.resource import API_VERSION

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"datarecs\.io/[a-z][a-z0-9-]*")
SET_BY_THE_PLATFORM = {DRAIN_SINK, IN_USE, "datarecs.io/webhook-drain"}
LABELS_OF_PODS = {"datarecs.io/run-id", "datarecs.io/job-id", "datarecs.io/tenant-id"}


def test_every_annotation_that_is_named_may_be_set() -> None:
    files = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*/*/src/**/*.py"), ROOT / "README.md"]
    named = {name for one in files for name in NAME.findall(one.read_text())}
    known = {*KINDS, *SET_BY_THE_PLATFORM, *LABELS_OF_PODS, API_VERSION}
    assert named - known == set()
    assert known - named == set()
