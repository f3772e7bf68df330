"""Sources of a run: opened, pinned all at once, described.

Separate from the run because nothing here depends on the comparison. Topics that end at the
watermark of a table are opened and pinned after the table.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from datarecs_application.ports.comparing import Connector, HeldPin
from datarecs_application.topic_cuts import (
    cut_again,
    cut_by,
    cutting_table,
    ends_with_table,
    pin_order,
    with_table_columns,
)
from datarecs_core.comparison.planning.scan import FileList, Pin, SourceSchema
from datarecs_core.jobs.definition import Source


class ExtractionFailedError(Exception):
    """A source could not be read; names it for the result file. The cause is the real error."""

    def __init__(self, index: int, source: str) -> None:
        super().__init__(f"extract-{index}")
        self.index, self.source = index, source


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    source: Source
    connector: Connector
    pin: Pin
    held: HeldPin | None
    """None where the caller holds the pin."""
    schema: SourceSchema


def opened_sources(
    sources: Sequence[Source],
    connect: Callable[[Source], Connector],
    known: Mapping[str, Pin],
    open_things: ExitStack,
    *,
    whole: bool,
) -> tuple[Opened, ...]:
    """Pin all sources at once, before any is described or read, so that they form one cut.

    Args:
        sources: of the job.
        connect: opens the connection of one.
        known: pins that the caller holds, by source.
        open_things: closes connections and pins.
        whole: wait for everything in pins, such as hashes of files.

    Raises:
        ExtractionFailedError: the first source that fails.
    """
    opening = _Opening(connect=connect, known=known, open_things=open_things)
    pinned = opening.pinned({n: one for n, one in enumerate(sources) if not ends_with_table(one)})
    pinned |= opening.pinned(_cut_topics(sources, pinned))
    opened = []
    for index, one in sorted(pinned.items()):
        with Extraction(index, one.source):
            pin = one.pin
            if whole and one.held is not None:
                pin = whole_pin(one.held)
            schema = one.connector.describe(one.source, pin)
        opened.append(
            Opened(
                source=one.source, connector=one.connector, pin=pin, held=one.held, schema=schema
            )
        )
    return tuple(opened)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pinned:
    """A source that is open and pinned, and not described yet."""

    source: Source
    connector: Connector
    pin: Pin
    held: HeldPin | None
    """None where the caller holds the pin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """Opens sources for one run."""

    connect: Callable[[Source], Connector]
    known: Mapping[str, Pin]
    open_things: ExitStack

    def pinned(self, sources: Mapping[int, Source]) -> dict[int, _Pinned]:
        """All at once, by index; `open_things` closes them."""
        connected = {}
        for index, source in sources.items():
            with Extraction(index, source):
                connector = self.connect(source)
                self.open_things.callback(connector.close)
                connected[index] = connector
        with ThreadPoolExecutor(max(len(connected), 1), thread_name_prefix="pin") as pinning:
            pins = {
                index: pinning.submit(connector.pin, sources[index])
                for index, connector in connected.items()
                if sources[index].name not in self.known
            }
        for each in pins.values():
            if each.exception() is None:
                self.open_things.callback(each.result().close)
        made = {}
        for index, connector in connected.items():
            source = sources[index]
            with Extraction(index, source):
                held = pins[index].result() if index in pins else None
            pin = self.known[source.name] if held is None else held.pin
            made[index] = _Pinned(source=source, connector=connector, pin=pin, held=held)
        return made


def _cut_topics(sources: Sequence[Source], pinned: Mapping[int, _Pinned]) -> dict[int, Source]:
    """Topics that end at the watermark, by index, with the ends and the columns of the table."""
    topics = {index: one for index, one in enumerate(sources) if ends_with_table(one)}
    cut = {}
    for index, topic in topics.items():
        with Extraction(index, topic):
            table = cutting_table(topic, sources)
            ended = cut_by(topic, pinned[table].pin)
        with Extraction(table, sources[table]):
            one = pinned[table]
            schema = one.connector.describe(one.source, one.pin)
        cut[index] = with_table_columns(ended, schema)
    return cut


def pinned_again(sources: Sequence[Opened], hold: Callable[[HeldPin], None]) -> list[Opened]:
    """The sources with new pins, each of which `hold` gets.

    Raises ExtractionFailedError.
    """
    pinned: dict[int, Opened] = {}
    for index in pin_order([one.source for one in sources]):
        one = sources[index]
        with Extraction(index, one.source):
            source = cut_again(one.source, [each.pin for each in pinned.values()])
            held = one.connector.pin(source)
            hold(held)
            pinned[index] = replace(one, source=source, pin=whole_pin(held), held=held)
    return [pinned[index] for index in range(len(sources))]


def whole_pin(held: HeldPin) -> Pin:
    """With hashes of files, for which it waits; other pins are complete at once."""
    return held.check() if isinstance(held.pin, FileList) else held.pin


class Extraction:
    """Adds the source to every failure inside the block."""

    def __init__(self, index: int, source: Source) -> None:
        self._index, self._source = index, source

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception):
            raise ExtractionFailedError(self._index, self._source.name) from error
