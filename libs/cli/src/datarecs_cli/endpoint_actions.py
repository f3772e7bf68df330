"""Requests about webhook endpoints and their deliveries, and the wait for their outcome.

The commands only print. Every POST has a new Idempotency-Key, so that a retry after a lost answer
makes no second action.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from datarecs_cli.client import Api, ApiRequest, Json, path_of
from datarecs_core.notation import parse_duration
from datarecs_core.values import instant_text
from datarecs_runtime.clock import UuidV7Ids

WAIT = timedelta(seconds=45)
POLL = timedelta(milliseconds=500)
OPEN = frozenset({"PENDING", "LEASED"})


def post(api: Api, *parts: str, params: Mapping[str, str] | None = None, body: Json) -> Json:
    """The answer to a POST that takes effect once, even if it is sent again."""
    request = ApiRequest(
        method="POST",
        path=path_of(*parts),
        params=params or {},
        headers={"Idempotency-Key": str(UuidV7Ids().new())},
        body=body,
    )
    return api.send(request).json()


def instant_of(text: str, *, now: datetime) -> str | None:
    """An RFC 3339 time as typed, or now minus a duration such as PT2H; else None."""
    length = parse_duration(text)
    if length is not None:
        return instant_text(now - length)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else instant_text(moment)


def closed_action(api: Api, action: Json, *, limit: timedelta) -> Json:
    """The action when it is no longer OPEN, or its state after the time limit."""
    ends = api.clock.monotonic() + limit.total_seconds()
    while action.get("state") == "OPEN" and api.clock.monotonic() < ends:
        api.clock.wait(POLL)
        action = api.get("webhook-actions", str(action["action_id"]))
    return action


def ended_delivery(api: Api, delivery_id: str, *, limit: timedelta) -> Json:
    """The delivery when it has ended, or its state after the time limit."""
    ends = api.clock.monotonic() + limit.total_seconds()
    delivery = api.get("webhook-deliveries", delivery_id)
    while delivery.get("state") in OPEN and api.clock.monotonic() < ends:
        api.clock.wait(POLL)
        delivery = api.get("webhook-deliveries", delivery_id)
    return delivery
