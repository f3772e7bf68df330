"""Events that the topics have and a restored database does not know, and what people do about them.

Separate from `recovering`, which reads them: which effect needs which action is decided here.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from datarecs_core.values import EventId, RunId, TenantId
from datarecs_events.event_types import PREFIX, DataRecsEventType

_RUN = f"{PREFIX}reconciliation.run."
_RESOURCE = f"{PREFIX}resource."
_WEBHOOK = f"{PREFIX}webhook."


@dataclass(frozen=True, slots=True, kw_only=True)
class LostEvent:
    """An event of which the restored database has no row."""

    time: str
    """RFC 3339; empty if the event has no time."""
    tenant_id: TenantId
    type: str
    subject: str
    event_id: EventId
    run_id: RunId | None

    def as_row(self) -> dict[str, str]:
        return {
            "time": self.time,
            "tenant_id": str(self.tenant_id),
            "type": self.type,
            "subject": self.subject,
            "event_id": str(self.event_id),
        }


class _Group(NamedTuple):
    """What is counted, and the advice for it."""

    things: Collection[object]
    advice: str


def advice(lost: Sequence[LostEvent], *, known: Collection[RunId]) -> Iterator[str]:
    """What to do about lost events, a line for each kind with its number.

    Args:
        lost: every lost event except those of progress.
        known: the runs of these events that the database has.
    """
    for group in _groups(lost, known):
        if group.things:
            yield group.advice.format(count=len(group.things))


def _groups(lost: Sequence[LostEvent], known: Collection[RunId]) -> Iterator[_Group]:
    of_runs = [one for one in lost if one.run_id is not None and one.type.startswith(_RUN)]
    yield _Group(
        {one.run_id for one in of_runs if one.run_id not in known},
        "{count} runs were triggered after that time and are gone: trigger them again",
    )
    ends = {DataRecsEventType.RUN_COMPLETED, DataRecsEventType.RUN_ERRORED}
    yield _Group(
        {one.run_id for one in of_runs if one.run_id in known and one.type in ends},
        "{count} runs ended after that time: the services close them again when they start, with a"
        " new event and a new mail",
    )
    yield _Group(
        {one.run_id for one in of_runs if one.type == DataRecsEventType.RUN_CANCEL_REQUESTED}
        & set(known),
        "{count} runs had a request to cancel: request it again",
    )
    yield _Group(
        {one.subject for one in lost if one.type.startswith(_RESOURCE)},
        "{count} declarations were created, changed or deleted: apply them again from your files",
    )
    yield _Group(
        [one for one in lost if one.type == DataRecsEventType.NOTIFICATION_EMAIL_SENT],
        "{count} mails were sent that the database does not know: recipients may get them twice",
    )
    yield _Group(
        [one for one in lost if one.type.startswith(_WEBHOOK)],
        "{count} events are about webhooks (tests, resends, failures): repeat what you still need",
    )
