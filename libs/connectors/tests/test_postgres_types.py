"""Texts of COPY are cast at once where that equals casting them one by one."""

import pyarrow as pa
import pytest

from datarecs_connectors.postgres_types import cast_at_once, text_reader
from datarecs_connectors.typed_text import typed
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind

TIME, LOCAL, INSTANT = (
    CanonicalType(kind=kind) for kind in (TypeKind.TIME, TypeKind.LOCAL_TIMESTAMP, TypeKind.INSTANT)
)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (types.BOOL, ["t", "f", None]),
        (types.DATE, ["0001-01-01", "1500-02-28", "9999-12-31", None]),
        (
            LOCAL,
            ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2026-03-29 02:30:00.12", None],
        ),
        (INSTANT, ["0001-01-01 00:00:00+00", "2026-01-31 10:00:00.123456+00", None]),
        (types.BOOL, []),
        (INSTANT, []),
    ],
)
def test_usual_texts_are_cast_as_one_by_one(kind: CanonicalType, texts: list[str | None]) -> None:
    texts_array = pa.array(texts, pa.string())
    whole = cast_at_once(texts_array, kind)
    assert whole is not None
    assert whole.equals(typed(texts_array, kind, text_reader(kind)).values)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (types.BOOL, "true"),
        (types.DATE, "infinity"),
        (types.DATE, "0044-03-15 BC"),
        (types.DATE, "10000-01-01"),
        (TIME, "12:30:00"),
        (LOCAL, "-infinity"),
        (LOCAL, "10000-01-01 00:00:00"),
        (INSTANT, "0044-03-15 00:00:00+00 BC"),
        (INSTANT, "10000-01-01 00:00:00+00"),
        (types.BINARY, "\\x00"),
        (types.TEXT, "text"),
    ],
)
def test_others_are_left_to_one_by_one(kind: CanonicalType, text: str) -> None:
    assert cast_at_once(pa.array([text, None], pa.string()), kind) is None
