"""The reads of a run: place, pin, columns and rows of each source, as texts.

An auditor must be able to find the same bytes with these texts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from datarecs_reports.figures import count, counted, instant, size, visible
from datarecs_reports.model import PinFacts, RunFacts, SourceFacts

MAX_FILES, MAX_PARTITIONS, MAX_COLUMNS = 8, 8, 30
"""Most columns of a source to list; the others are counted."""
MAX_SQL = 1000
Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePage:
    name: str
    is_reference: bool
    read_from: Facts
    pin: tuple[str, ...]
    columns: str
    closure: str
    rows: int


def source_page(facts: RunFacts, source: SourceFacts) -> SourcePage:
    """The place, the pin and the numbers of rows of a source."""
    references = {stage.executed.question.reference for stage in facts.stages if stage.executed}
    read = source.read
    left_out = [
        f"{count(rows)} {words}"
        for rows, words in ((read.excluded, "excluded"), (read.out_of_scope, "out of scope"))
        if rows
    ]
    return SourcePage(
        name=source.name,
        is_reference=source.name in references,
        read_from=(
            ("kind", source.kind),
            *((label, _on_one_line(text)) for label, text in source.place.items()),
            *(("read as", visible(line, most=MAX_SQL)) for line in source.read_as),
            *(("note", visible(line, most=MAX_SQL)) for line in source.notes),
        ),
        pin=tuple(_pin(source)),
        columns=_columns(source),
        closure=" + ".join([f"{count(read.grouped)} compared", *left_out]),
        rows=read.extracted,
    )


def _columns(source: SourceFacts) -> str:
    shown = [f"{visible(name)} {kind}" for name, kind in source.columns[:MAX_COLUMNS]]
    more = len(source.columns) - len(shown)
    return ", ".join(shown) + (f" and {count(more)} more" if more else "")


def _on_one_line(text: str) -> str:
    """Paths unchanged, queries without line breaks."""
    return visible(" ".join(text.split()), most=MAX_SQL)


def _pin(source: SourceFacts) -> Iterator[str]:
    yield from _pinned(source.pin)
    if source.pin.catalogued is not None:
        committed = instant(source.pin.committed_at or "")
        yield f"snapshot {source.pin.catalogued} of the catalogue, committed {committed}"


def _offsets(pin: PinFacts) -> Iterator[str]:
    total = sum(each.end - each.start for each in pin.offsets)
    yield f"{counted(total, 'offset')} of topic {visible(pin.topic or '')}, committed records"
    if pin.table_snapshot is not None:
        yield f"up to the watermark of the sink's table snapshot {pin.table_snapshot}"
    for each in pin.offsets[:MAX_PARTITIONS]:
        yield f"partition {each.partition}: [{each.start}, {each.end})"
    if len(pin.offsets) > MAX_PARTITIONS:
        yield f"and {count(len(pin.offsets) - MAX_PARTITIONS)} more partitions"
    if pin.taken_at:
        yield f"taken {instant(pin.taken_at)}"


def _pinned(pin: PinFacts) -> Iterator[str]:
    if pin.kind == "exported_snapshot":
        yield f"snapshot {pin.snapshot} of {visible(pin.database or '')}, log position {pin.lsn}"
        if pin.taken_at:
            yield f"taken {instant(pin.taken_at)}"
        return
    if pin.kind == "table_snapshot":
        snapshot = (
            "no snapshot: it is empty" if pin.snapshot is None else f"snapshot {pin.snapshot}"
        )
        yield f"{snapshot} of table {visible(pin.table or '')}"
        if pin.taken_at:
            yield f"taken {instant(pin.taken_at)}"
        return
    if pin.kind == "topic_offsets":
        yield from _offsets(pin)
        return
    yield f"{counted(pin.file_count, 'file')}, {size(pin.size_bytes)}"
    for file in pin.files[:MAX_FILES]:
        digest = f", sha256 {file.sha256[:16]}…" if file.sha256 else ""
        yield f"{visible(file.path)} ({size(file.size_bytes)}{digest})"
    if pin.file_count > MAX_FILES:
        yield f"and {count(pin.file_count - MAX_FILES)} more, all sealed by {pin.digest}"
