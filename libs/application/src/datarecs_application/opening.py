"""Sources of a run: opened, pinned all at once, described.

Separate from the run because nothing here depends on the comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from datarecs_application.ports.comparing import Connector, HeldPin
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
    connected = []
    for index, source in enumerate(sources):
        with Extraction(index, source):
            connector = connect(source)
            open_things.callback(connector.close)
            connected.append((source, connector))
    pinned = _pinned(connected, known, open_things)
    opened = []
    for index, (source, connector, held) in enumerate(pinned):
        with Extraction(index, source):
            pin = known[source.name] if held is None else held.pin
            if whole and held is not None:
                pin = whole_pin(held)
            schema = connector.describe(source, pin)
        opened.append(Opened(source=source, connector=connector, pin=pin, held=held, schema=schema))
    return tuple(opened)


def _pinned(
    connected: Sequence[tuple[Source, Connector]], known: Mapping[str, Pin], open_things: ExitStack
) -> list[tuple[Source, Connector, HeldPin | None]]:
    """All at once; none where the caller holds the pin."""
    with ThreadPoolExecutor(len(connected), thread_name_prefix="pin") as pinning:
        pins = [
            None if source.name in known else pinning.submit(connector.pin, source)
            for source, connector in connected
        ]
    for each in pins:
        if each is not None and each.exception() is None:
            open_things.callback(each.result().close)
    pinned = []
    for index, ((source, connector), each) in enumerate(zip(connected, pins, strict=True)):
        with Extraction(index, source):
            pinned.append((source, connector, None if each is None else each.result()))
    return pinned


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
