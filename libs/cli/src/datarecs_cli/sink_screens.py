"""What `datarecs sink` shows of commits and partitions, and how positions are written."""

import re
from collections.abc import Iterator, Mapping, Sequence

from datarecs_cli.client import Json
from datarecs_cli.describing import instant_of
from datarecs_cli.invocation import UsageFault
from datarecs_cli.output import Column, table

COMMITS = (
    Column(title="COMMIT", member="commit_id"),
    Column(title="COMPLETED", member="completed_at"),
    Column(title="STATE", member="state"),
    Column(title="RECORDS", member="records", number=True),
    Column(title="SNAPSHOTS", member="count", number=True),
    Column(title="VALID THROUGH", member="valid_through_ts"),
)
_PARTITIONS = (
    Column(title="TOPIC", member="topic"),
    Column(title="PARTITION", member="partition", number=True),
    Column(title="COMMITTED", member="committed", number=True),
    Column(title="READ", member="position", number=True),
    Column(title="END", member="end", number=True),
    Column(title="NEWEST", member="newest"),
)
_POSITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})/(?P<number>\d{1,6})=(?P<offset>\d{1,19})")


def commit_row(commit: Json) -> Json:
    """A line of the list of commits."""
    snapshots = commit.get("snapshots")
    return {
        **commit,
        "name": commit.get("commit_id"),
        "state": "partial" if commit.get("partial") else "complete",
        "count": len(snapshots) if isinstance(snapshots, list) else 0,
    }


def partition_lines(partitions: Sequence[Json]) -> Iterator[str]:
    """A table of the partitions, below its title."""
    if not partitions:
        return
    yield "partitions"
    rows = [{**one, "newest": instant_of(one.get("largest_ts"))} for one in partitions]
    yield from (f"  {line}" for line in table(_PARTITIONS, rows))


def positions_of(options: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    """The positions as the API reads them.

    Raises:
        UsageFault: an option has another form, or a partition is there twice.
    """
    positions: dict[str, dict[str, int]] = {}
    for text in options:
        match = _POSITION.fullmatch(text)
        if match is None:
            raise UsageFault(f"--position {text}: write TOPIC/PARTITION=OFFSET, such as orders/0=5")
        numbers = positions.setdefault(match["topic"], {})
        number = str(int(match["number"]))
        if number in numbers:
            raise UsageFault(f"--position {text}: the partition is there twice")
        numbers[number] = int(match["offset"])
    return positions


def reset_lines(
    positions: Mapping[str, Mapping[str, int]], partitions: Sequence[Json]
) -> Iterator[str]:
    """What a reset leaves out and what it writes again.

    Args:
        positions: as `positions_of` has read them.
        partitions: of the sink, as the API lists them.
    """
    committed = {
        (str(one.get("topic")), str(one.get("partition"))): one.get("committed")
        for one in partitions
    }
    for topic, offsets in positions.items():
        for number, offset in offsets.items():
            before = committed.get((topic, number))
            yield f"{topic}/{number}: {_moved(before, offset)}"
    if positions:
        yield "partitions that are not named stay where they are"
    else:
        yield "every partition goes on at what the tables hold"


def _moved(before: object, offset: int) -> str:
    if not isinstance(before, int):
        return f"goes on at {offset}; nothing of it is committed"
    if offset < before:
        count = before - offset
        return f"back from {before} to {offset}: up to {count} records are written again"
    if offset > before:
        count = offset - before
        return f"ahead from {before} to {offset}: up to {count} records are left out for good"
    return f"goes on at {offset}, which is what is committed"
