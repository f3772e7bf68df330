"""Which events are sent to an endpoint: filter, creation time, and exclusions that prevent loops.

R1: events about deliveries and tests need `operational: true`. R2: an event about an endpoint is
never sent to that endpoint. R3 (a delivery of such an event creates no further ones) is in
`delivery`. R2 and R3 together exclude loops of any length.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.dialects import all_hold
from datarecs_core.webhooks.endpoint import DataFilter, Filter, WebhookEndpoint
from datarecs_core.webhooks.globs import glob_matches

_WEBHOOKS = "webhook.**"
_OPT_IN_EVENTS = ("webhook.delivery.**", "webhook.endpoint.test_requested")


JOB_ID, RESULT, ERROR_CODE = "job_id", "result", "error_code"
"""Values of an event's data that filters read, stored beside the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """The job of an event, as it is when the filter is checked."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFacts:
    """What matching reads of an event."""

    type: str
    time: datetime
    endpoint_id: ResourceUid | None = None
    """`data.endpoint_id`: which endpoint the event is about."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    """JOB_ID, RESULT and ERROR_CODE, if the data contains them."""
    job: JobFacts | None = None
    """None if the data names no job or the job is deleted; filters that name jobs need it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFacts:
    """What matching reads of a stored endpoint."""

    uid: ResourceUid
    created_at: datetime
    spec: WebhookEndpoint


def is_operational(event_type: str) -> bool:
    """Whether the event is about webhooks themselves."""
    return glob_matches(_WEBHOOKS, event_type)


def match_endpoint(endpoint: EndpointFacts, event: EventFacts) -> bool:
    """Whether the event becomes a delivery to the endpoint; judged once, at fan-out.

    Events from before the endpoint was created do not count, so the set depends neither on the
    consumer's lag nor on a new consumer group.
    """
    if not endpoint.spec.enabled or event.time < endpoint.created_at:
        return False
    return matches_filter(endpoint, event)


def matches_filter(endpoint: EndpointFacts, event: EventFacts) -> bool:
    """Whether today's filter takes the event, whenever it happened: for recover and replay."""
    if is_operational(event.type) and event.endpoint_id == endpoint.uid:
        return False
    chosen = endpoint.spec.filter
    return (
        _type_passes(chosen, event.type)
        and all_hold(chosen.dialects, event.attributes)
        and (chosen.data is None or _data_passes(chosen.data, event))
    )


def _type_passes(chosen: Filter, event_type: str) -> bool:
    if not chosen.operational and any(glob_matches(glob, event_type) for glob in _OPT_IN_EVENTS):
        return False
    return chosen.passes_type(event_type)


def _data_passes(chosen: DataFilter, event: EventFacts) -> bool:
    return _is_chosen_job(chosen, event.job) and _is_chosen_end(chosen, event.values)


def _is_chosen_job(chosen: DataFilter, job: JobFacts | None) -> bool:
    if not chosen.names_jobs:
        return True
    if job is None or (chosen.jobs and job.name not in chosen.jobs):
        return False
    return all(job.labels.get(name) == value for name, value in chosen.job_selector.items())


def _is_chosen_end(chosen: DataFilter, values: Mapping[str, str]) -> bool:
    if not chosen.results and not chosen.error_codes:
        return True
    return values.get(RESULT) in chosen.results or values.get(ERROR_CODE) in chosen.error_codes
