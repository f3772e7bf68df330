"""The page of canonical values: its examples are published vectors, its table names every tag."""

import re
from pathlib import Path

from datarecs_core.comparison.values.canonical import Tag
from datarecs_testing.conformance.canonical import published

PAGE = Path(__file__).resolve().parents[2] / "docs/canonical-values.md"
ENCODING = re.compile(r"`((?:[0-9a-f]{2,4} )+[0-9a-f]{8}(?: [0-9a-f ]+)?)`")
ROW_OF_TAGS = re.compile(r"^\| (`[0-9a-f]{2}`(?:, `[0-9a-f]{2}`)*) \|", re.MULTILINE)


def test_every_example_is_a_published_vector() -> None:
    examples = ENCODING.findall(PAGE.read_text(encoding="utf-8"))
    encodings = set(published().encodings.values())
    assert len(examples) == 13
    assert [one for one in examples if bytes.fromhex(one) not in encodings] == []


def test_every_tag_is_described() -> None:
    rows = ROW_OF_TAGS.findall(PAGE.read_text(encoding="utf-8"))
    described = [int(tag, 16) for row in rows for tag in re.findall("[0-9a-f]{2}", row)]
    assert sorted(described) == sorted(Tag)
