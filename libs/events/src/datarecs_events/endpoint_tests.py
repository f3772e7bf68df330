"""The event of a test of a webhook endpoint: a small one, or the published example of a type.

These events are sent only over HTTP and belong to no run.
"""

from dataclasses import replace
from decimal import Decimal

from datarecs_core.values import EventId
from datarecs_core.webhooks.actions import TEST_MARK, WebhookAction
from datarecs_core.webhooks.events import WebhookTest
from datarecs_core.webhooks.payload import Message
from datarecs_events.codec import Stamp, encode
from datarecs_events.examples import example_of

SOURCE = "/datarecs/test"
"""The `source` of an example, which shows that it is not an event of a run."""


def make_test(action: WebhookAction, event_id: EventId) -> Message:
    """The event of a test action, at the time of its request.

    Raises:
        KeyError: the catalogue has no type with the name of the example.
    """
    stamp = Stamp(event_id=event_id, time=action.created_at, sequence=1)
    if action.example is None:
        event = WebhookTest(
            tenant_id=action.tenant_id,
            endpoint_id=action.endpoint_uid,
            message="gr\u00f6\u00dfe",
            probe=Decimal("0.010"),
            requested_by=action.requested_by,
        )
        encoded = encode(event, replace(stamp, sequence=None))
        return Message(attributes=encoded.attributes, data=encoded.data)
    example = example_of(action.example)
    test_event = replace(example, tenant_id=action.tenant_id)  # type: ignore[type-var]  # every event is a dataclass with a tenant
    encoded = encode(test_event, stamp)
    marked = {**encoded.attributes, "source": SOURCE, TEST_MARK: "true"}
    return Message(attributes=marked, data=encoded.data)
