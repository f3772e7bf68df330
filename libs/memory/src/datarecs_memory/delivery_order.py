"""The order of a run's events at one endpoint, in memory."""

from datetime import datetime

from datarecs_application.ports.delivery import Unblocked
from datarecs_core.runs.model import Disposition
from datarecs_core.values import ResourceUid, RunId
from datarecs_core.webhooks.delivery import NO_ACTION, Delivery, DeliveryState
from datarecs_core.webhooks.ordering import RunPlace
from datarecs_memory.scope import Scope


class MemoryDeliveryOrder:
    """Port DeliveryOrder."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def has_missing(self, endpoint: ResourceUid, place: RunPlace, *, since: datetime) -> bool:
        received = {event for _, event in self._scope.state.delivery.messages}
        seen = [
            one.sequence or 0
            for one in self._of_run(endpoint, place.run_id)
            if one.action_id == NO_ACTION and not one.is_early
        ]
        return any(
            max(seen, default=0) < entry.sequence < place.sequence
            and entry.time >= since
            and entry.disposition is not Disposition.SYNTHESISED
            and entry.event_id not in received
            for entry in self._scope.state.history.get(place.run_id, ())
        )

    def early(self, endpoint: ResourceUid, run_id: RunId) -> list[Delivery]:
        early = [
            one
            for one in self._of_run(endpoint, run_id)
            if one.is_early and one.state is DeliveryState.PENDING
        ]
        return sorted(early, key=lambda one: one.sequence or 0)

    def waiting_of_type(
        self, endpoint: ResourceUid, run_id: RunId, event_type: str
    ) -> list[Delivery]:
        waiting = [
            one
            for one in self._of_run(endpoint, run_id)
            if one.event_type == event_type
            and one.action_id == NO_ACTION
            and one.state is DeliveryState.PENDING
        ]
        return sorted(waiting, key=lambda one: one.sequence or 0)

    def due(self, endpoint: ResourceUid, limit: int, *, failing_after: datetime) -> list[Delivery]:
        now = self._scope.now
        due = [
            one
            for one in self._may_go(endpoint, failing_after)
            if one.due_at <= now and one.expires_at > now
        ]
        due.sort(key=lambda one: (one.priority, one.due_at, one.sequence or 0, one.delivery_id))
        return due[:limit]

    def unblocked(self, endpoint: ResourceUid, *, failing_after: datetime) -> Unblocked:
        due = [one.due_at for one in self._may_go(endpoint, failing_after)]
        failing = [
            one.failing_since
            for one in self._of(endpoint)
            if one.sequence is not None
            and not one.state.is_terminal
            and one.failing_since is not None
            and one.failing_since > failing_after
        ]
        return Unblocked(first_due=min(due, default=None), failing_since=min(failing, default=None))

    def _may_go(self, endpoint: ResourceUid, failing_after: datetime) -> list[Delivery]:
        mine = self._of(endpoint)
        return [
            one
            for one in mine
            if one.state is DeliveryState.PENDING
            and not any(_blocks(other, one, failing_after) for other in mine)
        ]

    def _of(self, endpoint: ResourceUid) -> list[Delivery]:
        rows = self._scope.state.delivery.deliveries.values()
        return [one for one in rows if one.endpoint_uid == endpoint]

    def _of_run(self, endpoint: ResourceUid, run_id: RunId) -> list[Delivery]:
        return [
            one for one in self._of(endpoint) if one.run_id == run_id and one.sequence is not None
        ]


def _blocks(earlier: Delivery, later: Delivery, failing_after: datetime) -> bool:
    if earlier.sequence is None or later.sequence is None or earlier.state.is_terminal:
        return False
    is_passed = earlier.failing_since is not None and earlier.failing_since <= failing_after
    return (
        earlier.run_id == later.run_id
        and earlier.action_id == later.action_id
        and earlier.sequence < later.sequence
        and not is_passed
    )
