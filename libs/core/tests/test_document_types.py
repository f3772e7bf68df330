"""Documents of strangers: a value of another type than declared is refused."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from datarecs_core.captures.outcomes import GroupCaptured
from datarecs_core.captures.source_facts import CapturedFile, Sidecar
from datarecs_core.document_types import strict_document
from datarecs_core.documents import to_document
from datarecs_core.values import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    count: int
    ratio: float = 0.0
    is_new: bool = False
    at: datetime | None = None
    pair: tuple[str, int] = ("a", 1)
    tenant: TenantId | None = None
    parts: tuple[Part, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)
    anything: object = None


def test_a_correct_document_is_read() -> None:
    file = CapturedFile(
        path="a",
        rows=1,
        stored_rows=2,
        columns=(),
        is_complete=False,
        sidecar=Sidecar(sha256="0" * 64, size_bytes=2**60, columns=("a",), rows=0),
    )
    outcome = GroupCaptured(files=(file,))
    assert strict_document(GroupCaptured, to_document(outcome)) == outcome
    whole = Whole(count=1, ratio=1, at=datetime(2026, 1, 1, tzinfo=UTC), texts={"a": "b"})
    assert strict_document(Whole, to_document(whole)) == whole


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"count": True}, "count"),
        ({"count": "x"}, "literal"),
        ({"count": None}, "count"),
        ({"ratio": "1"}, "ratio"),
        ({"is_new": 1}, "is_new"),
        ({"at": "2026-01-01T00:00:00"}, "at"),
        ({"pair": ["a"]}, "pair"),
        ({"pair": ["a", "b"]}, "literal"),
        ({"parts": 1}, "parts"),
        ({"parts": [{"names": [1]}]}, "names"),
        ({"parts": ["a"]}, "Part"),
        ({"texts": ["a"]}, "texts"),
        ({"texts": {"a": 1}}, "texts"),
        ({"tenant": 1}, "tenant"),
    ],
)
def test_a_value_of_another_type_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        strict_document(Whole, {"count": 1, **changes})
