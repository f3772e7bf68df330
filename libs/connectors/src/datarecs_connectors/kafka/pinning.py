"""Pin a topic: offsets of every partition, fixed once, and the identity of the topic they are of.

Offsets of committed records never change, so a retry with the same pin reads the same records; a
topic that was deleted and created again under its name is another one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Decimal

from datarecs_connectors.errors import OffsetsGoneError, SnapshotLostError
from datarecs_connectors.kafka.cluster import Cluster
from datarecs_core.comparison.planning.scan import OffsetRange, Pin, TopicOffsets
from datarecs_core.comparison.values.forms import read_moment
from datarecs_core.jobs.definition import Source, TopicBound
from datarecs_core.jobs.vocabulary import TopicEdge


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTopic:
    """Nothing to hold: the broker keeps records as long as its retention says."""

    cluster: Cluster
    pin: TopicOffsets

    def check(self) -> TopicOffsets:
        """Raises SnapshotLostError when the topic is another one by now."""
        check_identity(self.cluster, self.pin)
        return self.pin

    def close(self) -> None:
        """Nothing to release."""


def pin_topic(cluster: Cluster, source: Source, now: Callable[[], datetime]) -> HeldTopic:
    """The offsets of a source's bounds, as they are now.

    Raises OffsetsGoneError for bounds outside the topic.
    """
    topic = source.topic or ""
    taken_at, identity = now(), cluster.identity(topic)
    bounds = _Bounds(cluster, topic, identity.partitions)
    starts = bounds.of(source.snapshot.start, bounds.earliest)
    end = source.snapshot.end
    if end.edge is TopicEdge.WATERMARK:
        ends = bounds.of_watermark(end, starts)
    else:
        ends = bounds.of(end, bounds.latest)
    ranges = tuple(
        OffsetRange(
            partition=partition,
            start=starts.get(partition, bounds.latest[partition]),
            end=ends.get(partition, bounds.latest[partition]),
        )
        for partition in identity.partitions
    )
    for each in ranges:
        bounds.check(each)
    pin = TopicOffsets(
        cluster_id=identity.cluster_id,
        topic=topic,
        topic_id=identity.topic_id,
        ranges=ranges,
        taken_at=taken_at,
        table_snapshot=end.table_snapshot,
    )
    return HeldTopic(cluster=cluster, pin=pin)


def topic_pin(pin: Pin) -> TopicOffsets:
    if not isinstance(pin, TopicOffsets):
        raise TypeError("a topic is pinned by its offsets")
    return pin


def check_identity(cluster: Cluster, pin: TopicOffsets) -> None:
    """Raises SnapshotLostError when the pinned topic was deleted and created again."""
    identity = cluster.identity(pin.topic)
    if (identity.cluster_id, identity.topic_id) != (pin.cluster_id, pin.topic_id):
        raise SnapshotLostError(
            cluster.source,
            f"topic {pin.topic} was deleted and created again, or belongs to another cluster, "
            "since its offsets were pinned; run again",
        )


class _Bounds:
    """Offsets of a topic by partition; the topic's own ends are read once."""

    def __init__(self, cluster: Cluster, topic: str, partitions: Sequence[int]) -> None:
        self._cluster, self._topic, self._partitions = cluster, topic, partitions
        self.earliest = cluster.earliest(topic, partitions)
        self.latest = cluster.ends(topic, partitions)

    def of(self, bound: TopicBound, edge: Mapping[int, int]) -> Mapping[int, int]:
        """Partitions that are left out have the topic's end."""
        if bound.timestamp is not None:
            return self._at(bound.timestamp)
        listed = {int(partition): offset for partition, offset in bound.offsets.items()}
        for partition in listed:
            if partition not in self._partitions:
                raise OffsetsGoneError(
                    self._cluster.source,
                    f"topic {self._topic} has no partition {partition}; it has "
                    f"{len(self._partitions)}",
                )
        return {**edge, **listed}

    def of_watermark(self, bound: TopicBound, starts: Mapping[int, int]) -> Mapping[int, int]:
        """Ends that a table states; a partition that it does not have ends at its start.

        So does a partition with a start behind what the table has.

        Raises SnapshotLostError when the topic does not have the offsets.
        """
        if bound.table_snapshot is None:
            raise TypeError("the watermark is known once its table is pinned")
        for partition, offset in bound.offsets.items():
            latest = self.latest.get(int(partition), 0)
            if offset > latest:
                raise SnapshotLostError(
                    self._cluster.source,
                    f"the table has partition {partition} of topic {self._topic} up to offset "
                    f"{offset}, and the topic has it up to {latest}: it was created again or lost "
                    "records, so it cannot be compared with the table",
                )
        return {
            partition: max(start, bound.offsets.get(str(partition), start))
            for partition, start in starts.items()
        }

    def _at(self, moment: str) -> Mapping[int, int]:
        """Never beyond committed records, which a record of an open transaction is."""
        offsets = self._cluster.at_time(self._topic, self._partitions, _millis(moment))
        return {each: min(offset, self.latest[each]) for each, offset in offsets.items()}

    def check(self, pinned: OffsetRange) -> None:
        first, last = self.earliest[pinned.partition], self.latest[pinned.partition]
        if first <= pinned.start <= pinned.end <= last:
            return
        if pinned.start > pinned.end:
            reason = "it begins behind its end"
        else:
            reason = f"the partition has offsets from {first} to {last}"
        raise OffsetsGoneError(
            self._cluster.source,
            f"partition {pinned.partition} of topic {self._topic} cannot be read from "
            f"{pinned.start} to {pinned.end}: {reason}; correct snapshot.from and snapshot.to",
        )


def _millis(moment: str) -> int:
    """Milliseconds since 1970, rounded up: Kafka's times have no finer ones."""
    value = read_moment(moment)
    if value is None or not isinstance(value.content, Decimal):
        raise TypeError("the shape of a job has checked the time")
    return int((value.content / 1000).to_integral_value(ROUND_CEILING))
