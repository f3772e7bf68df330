"""The order of a run's events at one endpoint: where an event stands, how long a gap is waited for.

Numbers are those of the run's history, which counts facts without an event too. Which of them are
still to come is read from that history, so that nothing has to be remembered per run.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from datarecs_core.values import RunId
from datarecs_core.webhooks.globs import short_type

GAP_WAIT = timedelta(seconds=30)
"""How long an event waits for an earlier one that has not come in; three topics interleave."""
_OF_RUNS = "reconciliation.run."


class RunPlace(NamedTuple):
    """Where an event stands."""

    run_id: RunId
    sequence: int


def run_of(attributes: Mapping[str, str]) -> RunId | None:
    """The run that an event is about, by its type and key."""
    key = attributes.get("partitionkey")
    is_of_run = short_type(attributes["type"]).startswith(_OF_RUNS)
    return RunId(UUID(key)) if is_of_run and key else None


def place_of(attributes: Mapping[str, str]) -> RunPlace | None:
    """The place of an event in its run; None for an event of anything else."""
    run_id, sequence = run_of(attributes), attributes.get("runsequence")
    if run_id is None or sequence is None:
        return None
    return RunPlace(run_id=run_id, sequence=int(sequence))
