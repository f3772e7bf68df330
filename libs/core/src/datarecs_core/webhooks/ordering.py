"""The order of a run's events at one endpoint: the place of an event, and the wait for a gap.

The numbers come from the run's history, which also counts facts without an event. The history also
shows which events are missing, so there is no separate record for a run.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from datarecs_core.values import RunId
from datarecs_core.webhooks.globs import short_type

GAP_WAIT = timedelta(seconds=30)
"""How long an event waits for a missing earlier one; events arrive on three topics."""
_OF_RUNS = "reconciliation.run."


class RunPlace(NamedTuple):
    """The place of an event in its run."""

    run_id: RunId
    sequence: int


def run_of(attributes: Mapping[str, str]) -> RunId | None:
    """The run of an event, from its type and key."""
    key = attributes.get("partitionkey")
    is_of_run = short_type(attributes["type"]).startswith(_OF_RUNS)
    return RunId(UUID(key)) if is_of_run and key else None


def place_of(attributes: Mapping[str, str]) -> RunPlace | None:
    """The place of an event in its run; None for other events."""
    run_id, sequence = run_of(attributes), attributes.get("runsequence")
    if run_id is None or sequence is None:
        return None
    return RunPlace(run_id=run_id, sequence=int(sequence))
