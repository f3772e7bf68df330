from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest

from datarecs_core.comparison.planning.scan import FileList, Pin, PinnedFile
from datarecs_core.document_types import strict_document
from datarecs_core.documents import PACKED, decimal_text, from_document, length_text, to_document
from datarecs_core.hashing import JsonValue
from datarecs_core.values import RunId


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    amount: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    run: RunId
    colour: Colour = Colour.RED
    at: datetime | None = None
    length: timedelta = timedelta(hours=1)
    raw: bytes = b""
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    pairs: tuple[tuple[str, Decimal], ...] = ()
    limits: Mapping[Colour, Decimal] = field(default_factory=dict)
    pin: Pin | None = None
    except_: tuple[str, ...] = field(default=(), metadata={"yaml": "except"})
    any_number: int | str = 0
    packed: bytes | None = field(default=None, metadata=PACKED)


RUN = RunId(UUID(int=1))
PIN = FileList(
    root="/data",
    files=(PinnedFile(path="a", size_bytes=1),),
    taken_at=datetime(2026, 1, 31, tzinfo=UTC),
)
FULL = Outer(
    run=RUN,
    at=datetime(2026, 1, 31, 12, tzinfo=UTC),
    length=timedelta(milliseconds=1500),
    raw=b"\xff",
    inner=Inner(amount=Decimal("1.5")),
    inners=(Inner(), Inner(amount=Decimal("1e-7"))),
    pairs=(("a", Decimal("1.25")),),
    limits={Colour.RED: Decimal(2)},
    pin=PIN,
    except_=("x",),
    any_number="all",
    packed=b"\xff\xfe",
)


@pytest.mark.parametrize("value", [Outer(run=RUN), FULL])
def test_a_document_comes_back_as_what_it_was(value: Outer) -> None:
    assert from_document(Outer, to_document(value)) == value


def test_defaults_are_left_out_and_everything_exact_is_text() -> None:
    assert to_document(Outer(run=RUN)) == {"run": str(UUID(int=1))}
    document: Any = to_document(FULL)
    assert document["length"] == "PT1.5S"
    assert document["inners"] == [{}, {"amount": "0.0000001"}]
    assert document["limits"] == {"red": "2"}
    assert document["except"] == ["x"]
    assert (document["raw"], document["packed"]) == ("ff", "//4=")
    assert document["pin"]["$type"] == "FileList"


@pytest.mark.parametrize(
    "document",
    [{}, {"run": "x"}, {"run": str(RUN), "more": 1}, "text", {"run": str(RUN), "pin": {}}],
)
def test_another_document_is_refused(document: Any) -> None:  # noqa: ANN401 - JSON
    with pytest.raises(ValueError, match=r"Outer|Inner|UUID|hexadecimal|badly"):
        from_document(Outer, document)


@pytest.mark.parametrize("text", ["ff", "//5=", "//4", "?", "//4=\n", 7])
def test_packed_bytes_have_one_written_form(text: JsonValue) -> None:
    with pytest.raises(ValueError, match=r"base64|padding|Outer"):
        strict_document(Outer, {"run": str(RUN), "packed": text})


def test_a_value_without_written_form_is_refused() -> None:
    with pytest.raises(TypeError, match="set has no written form"):
        to_document({1, 2})


@pytest.mark.parametrize(
    ("value", "text"),
    [("1.500", "1.5"), ("100", "100"), ("1E+3", "1000"), ("-0.0", "0"), ("-1.10", "-1.1")],
)
def test_equal_decimals_have_one_text(value: str, text: str) -> None:
    assert decimal_text(Decimal(value)) == text


def test_lengths_are_exact_seconds() -> None:
    assert length_text(timedelta(days=30)) == "PT2592000S"
    assert length_text(timedelta(microseconds=1)) == "PT0.000001S"
