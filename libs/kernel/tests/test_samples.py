"""Candidates of a report: the largest and the smallest ids of each class, however rows arrive."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_kernel.samples import BestRows

ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.none() | st.decimals(0, 3, places=1)), max_size=60
)


@pytest.mark.case("P61")
@given(rows=ROWS, step=st.integers(1, 20), per_class=st.integers(0, 3))
def test_no_batch_hides_what_would_be_shown(
    rows: list[tuple[str, Decimal | None]], step: int, per_class: int
) -> None:
    best = BestRows(per_class)
    keys = [None if size is None else float(size) for _, size in rows]
    ids = [f"{7 * at % 61:02}" for at in range(len(rows))]
    classes = [kind for kind, _ in rows]
    columns = {"break_id": ids, "measure": ["m"] * len(rows), "class": classes}
    batch = pa.RecordBatch.from_pydict({**columns, "sort_delta": pa.array(keys, pa.float64())})
    for start in range(0, len(rows), step):
        best.see(batch.slice(start, step))
    shown_ids = set(best.table().column("break_id").to_pylist()) if best else set()
    for kind in "ab":
        class_rows = [each for each in zip(ids, keys, classes, strict=True) if each[2] == kind]
        sized = [(key, name) for name, key, _ in class_rows if key is not None]
        by_size = sorted(sized, key=lambda each: each[1])
        by_size.sort(key=lambda each: each[0], reverse=True)
        wanted = {name for name, *_ in sorted(class_rows)[:per_class]}
        assert wanted | {name for _, name in by_size[:per_class]} <= shown_ids
    assert len(shown_ids) <= 2 * 4 * per_class
